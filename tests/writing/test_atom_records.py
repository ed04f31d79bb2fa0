"""`_core.AtomRecords`: records made of atoms that several processes have are those that `kinema.Writer` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema import _core
from kinema.base.errors import ArgumentError, UnsupportedFormatError

N_ATOMS = 137
NAMES = ["Gd", "Zr", "O"]
MASSES, CHARGES = [157.25, 91.224, 15.9994], [3.0, 4.0, -2.0]
KINDS = np.random.default_rng(5).integers(0, 3, N_ATOMS, dtype=np.uint32)
ATOMS = {
    "names": np.array(NAMES)[KINDS],
    "masses": np.array(MASSES)[KINDS],
    "charges": np.array(CHARGES)[KINDS],
}
VECTORS = ("positions", "velocities", "forces")
DLPOLY = [VECTORS[:1], VECTORS[:2], VECTORS]
# format, fields, options of the writer that `AtomRecords` has as well
CASES = [
    *[("DL_POLY CONFIG", fields, {}) for fields in DLPOLY],
    *[("DL_POLY HISTORY", fields, {}) for fields in DLPOLY],
    ("DCD", ("positions",), {}),
    ("DCD", ("velocities",), {}),
    *[("NetCDF", fields, {}) for fields in [*DLPOLY, ("positions", "forces")]],
    *[("TRR", fields, {"dtype": dtype}) for fields in [*DLPOLY, ("velocities",)] for dtype in ("float32", "float64")],
]


def made(n_frames: int, dtype: str, has_cell: bool) -> list[dict[str, Any]]:
    rng = np.random.default_rng(n_frames)
    frames = []
    for frame in range(n_frames):
        values = {name: rng.uniform(-50, 50, (N_ATOMS, 3)).astype(dtype) for name in VECTORS}
        cell = np.array([[40.0 + frame, 0, 0], [1.0, 50, 0], [2.0, 3, 60]]) if has_cell else np.zeros((3, 3))
        frames.append({**values, "cell": cell, "step": 100 + 50 * frame, "time": 0.5 + 0.25 * frame})
    return frames


def parts(rng: np.random.Generator) -> list[NDArray[np.uint32]]:
    """The atoms of some ranks, one of which has none, in any order."""
    cuts = np.sort(rng.integers(0, N_ATOMS + 1, 3))
    return [*np.split(rng.permutation(N_ATOMS).astype(np.uint32), cuts), np.empty(0, np.uint32)]


def assembled(records: _core.AtomRecords, frames: list[dict[str, Any]], begun: bytes = b"") -> bytes:
    """The file of all frames, of which `begun` has the first."""
    rng = np.random.default_rng(3)
    steps, times = [one["step"] for one in frames], [one["time"] for one in frames]
    if not begun:
        records.time_by(steps[:1], times[:1])
    file = bytearray(begun or records.head)
    assert len(file) == records.end
    for number, frame in enumerate(frames[records.n_frames :], records.n_frames):
        again = records.time_by(steps[:2], times[:2]) if number == 1 else None
        layout = records.frame(number, frame["step"], frame["time"], frame["cell"])
        assert [width for _, width in layout.planes] == records.widths
        assert layout.bytes == sum(len(piece) for _, piece in layout.pieces) + N_ATOMS * sum(records.widths)
        record = np.full(layout.bytes, 255, np.uint8)
        for offset, piece in layout.pieces:
            record[offset : offset + len(piece)] = np.frombuffer(piece, np.uint8)
        for ids in parts(rng):
            place(records, layout, frame, ids, record, rng)
        file += record.tobytes()
        for mark in (again, records.marker(number + 1)):
            if mark is not None:
                file[mark[0] : mark[0] + len(mark[1])] = mark[1]
    return bytes(file)


def place(
    records: _core.AtomRecords,
    layout: _core.FrameLayout,
    frame: dict[str, Any],
    ids: NDArray[np.uint32],
    record: NDArray[np.uint8],
    rng: np.random.Generator,
) -> None:
    values = [frame[one][ids] if one in records.fields else None for one in VECTORS]
    start = 0
    while start < len(ids) or len(ids) == 0:
        stop = min(start + int(rng.integers(0, 40)), len(ids))
        out = [np.empty((stop - start) * width, np.uint8) for width in records.widths]
        records.encode(values, start, stop, ids, 0, out)
        for (offset, width), bytes_ in zip(layout.planes, out, strict=True):
            plane = record[offset : offset + N_ATOMS * width].reshape(N_ATOMS, width)
            plane[ids[start:stop]] = bytes_.reshape(-1, width)
        if len(ids) == 0:
            return
        start = stop


@pytest.mark.parametrize("has_cell", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "fields", "options"), CASES)
def test_bytes_of_the_writer(
    tmp_path: Path, name: str, fields: tuple[str, ...], options: dict[str, Any], dtype: str, has_cell: bool
) -> None:
    frames = made(1 if name == "DL_POLY CONFIG" else 3, dtype, has_cell)
    is_dlpoly = name.startswith("DL_POLY")
    named = {"title": "a title", "atoms": kn.Atoms(N_ATOMS, **ATOMS)} if is_dlpoly else {}
    path = tmp_path / "whole"
    with kn.Writer(path, N_ATOMS, format=name, fields=fields, **options, **named) as out:
        for frame in frames:
            vectors = {one: frame[one] for one in fields}
            cell = frame["cell"] if has_cell else None
            out.write(**{"positions": None, **vectors}, cell=cell, step=frame["step"], time=frame["time"])
    kinds = {"title": "a title", "kinds": (NAMES, MASSES, CHARGES), "codes": KINDS} if is_dlpoly else {}
    wide = fields if dtype == "float64" else []
    cell = frames[0]["cell"] if has_cell else None
    records = _core.AtomRecords(name, N_ATOMS, fields=fields, cell=cell, wide=wide, **options, **kinds)
    assert records.format == name
    assert records.fields == list(fields)
    assert assembled(records, frames) == path.read_bytes()
    assert {f"{path}: {loss}" for loss in records.losses} <= set(out.losses)


def resumed(path: Path, **options: Any) -> _core.AtomRecords:
    trajectory = kn.open(path)
    trajectory.scan()
    records = _core.AtomRecords.resume(trajectory.core, **options)
    assert records is not None
    return records


@pytest.mark.parametrize("n_kept", [1, 2, 4])
@pytest.mark.parametrize(("name", "fields", "options"), [case for case in CASES if case[0] != "DL_POLY CONFIG"])
def test_a_file_is_gone_on_with(
    tmp_path: Path, name: str, fields: tuple[str, ...], options: dict[str, Any], n_kept: int
) -> None:
    """After any of its frames: the bytes are the same as in a file that was written at once."""
    frames = made(6, "float32", True)
    path, whole = tmp_path / "begun", tmp_path / "whole"
    table = {"atoms": kn.Atoms(N_ATOMS, **ATOMS)} if name == "DL_POLY HISTORY" else {}

    def write(path: Path, frames: list[dict[str, Any]], **more: Any) -> None:
        with kn.Writer(path, N_ATOMS, format=name, fields=fields, **options, **more) as out:
            for frame in frames:
                vectors = {one: frame[one] for one in fields}
                stamp = {one: frame[one] for one in ("cell", "step", "time")}
                out.write(**{"positions": None, **vectors}, **stamp)

    write(whole, frames, **table)
    write(path, frames[:4], **table)
    before = path.read_bytes()
    records = resumed(path, n_frames=n_kept)
    assert (records.n_frames, records.fields, records.n_atoms) == (n_kept, list(fields), N_ATOMS)
    steps, times = zip(*records.first, strict=True)
    assert list(steps) == [0 if name == "NetCDF" else one["step"] for one in frames[: min(n_kept, 2)]]
    np.testing.assert_allclose(times, [one["time"] for one in frames[: len(times)]], rtol=1e-6)
    assert path.read_bytes() == before
    others = resumed(path, n_frames=n_kept, kinds=records.kinds, codes=records.codes)
    records.cut(str(path))
    assert path.stat().st_size == records.end
    assert kn.open(path).n_frames == n_kept
    assert assembled(others, frames, path.read_bytes()) == whole.read_bytes()
    assert assembled(resumed(path), frames, path.read_bytes()) == whole.read_bytes()


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormatError, match="no fixed places") as raised:
        _core.AtomRecords("XTC", N_ATOMS, fields=["positions"])
    assert all(one["name"] in str(raised.value) for one in _core.formats() if one["places_atoms"])
    codes = np.array([0, 1, 0, 1, 2], np.uint32)
    with pytest.raises(ArgumentError, match=r"kind of atom 5 \(counted from 1\), expected less than 2, found 2"):
        _core.AtomRecords("DL_POLY CONFIG", 5, fields=["positions"], kinds=(["A", "B"], None, None), codes=codes)
    with pytest.raises(ArgumentError, match="given together"):
        _core.AtomRecords("DL_POLY CONFIG", 5, fields=["positions"], codes=codes)
    records = _core.AtomRecords("NetCDF", 5, fields=["positions"])
    out, values = [np.empty(24, np.uint8)], [np.zeros((2, 3)), None, None]
    for message, arguments in {
        "number of an atom, expected less than 5, found 5": (values, 0, 2, None, 4, out),
        "number of an atom, expected less than 5, found 7": (values, 0, 2, np.array([1, 7], np.uint32), 0, out),
        "the frame lacks positions": ([None, None, None], 0, 2, None, 0, out),
        "values of positions, expected 9 or more, found 6": (values, 1, 3, None, 0, out),
        "bytes of 1 atoms in a plane, expected 12, found 24": (values, 0, 1, None, 0, out),
        "arrays of bytes, expected 1, one a plane, found 2": (values, 0, 2, None, 0, [out[0], out[0].copy()]),
    }.items():
        with pytest.raises(ArgumentError, match=message):
            records.encode(*arguments)  # type: ignore[arg-type]
    path = tmp_path / "a.dcd"
    with kn.Writer(path, 5) as file:
        file.write(np.zeros((5, 3)))
    for n_frames in (0, 2):
        with pytest.raises(ArgumentError, match=f"frames of the file that stay, expected 1 to 1, found {n_frames}"):
            resumed(path, n_frames=n_frames)
    with pytest.raises(ArgumentError, match="one field in all frames, expected positions, found velocities"):
        resumed(path, fields=["velocities"])
    with kn.Writer(tmp_path / "a.xtc", 5) as file:
        file.write(np.zeros((5, 3)))
    with pytest.raises(UnsupportedFormatError, match="no fixed places"):
        resumed(tmp_path / "a.xtc")
