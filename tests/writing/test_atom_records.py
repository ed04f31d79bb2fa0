"""`_core.AtomRecords`: records made of atoms that several processes have are those that `kinema.Writer` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema import _core

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


def assembled(records: _core.AtomRecords, frames: list[dict[str, Any]]) -> bytes:
    rng = np.random.default_rng(3)
    steps, times = [one["step"] for one in frames], [one["time"] for one in frames]
    records.time_by(steps[:1], times[:1])
    file = bytearray(records.head)
    for number, frame in enumerate(frames):
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
