"""Numbers that formats state twice are compared: each is damaged in a small file, and `check` and `read` say so.

Record lengths and counts of DCD, HISTORY, NetCDF and TRR, Fletcher-32 sums of HDF5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import (
    dcd_bytes,
    history_bytes,
    random_cells,
    random_walk,
    unformatted_bytes,
    write_netcdf,
    write_trr,
)
from kinema.testing.h5md_files import add_box, add_element, particles_all

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

N_FRAMES, N_ATOMS, DAMAGED = 6, 10, 3
POSITIONS = random_walk(N_FRAMES, N_ATOMS)
CELLS = random_cells(N_FRAMES, "orthorhombic")
RECORD = 73  # bytes of a line of HISTORY


def record_lengths(data: bytes, marker: str) -> Iterator[int]:
    """Where the lengths of Fortran records are, before and after each."""
    at, width = 0, struct.calcsize(marker)
    while at < len(data):
        behind = at + width + struct.unpack_from(marker, data, at)[0]
        yield from (at, behind)
        at = behind + width


def fortran_record_cases() -> Iterator[pytest.param]:
    """Each record length of a frame, and of the head of a file."""
    for name, suffix, data, marker in (
        ("DCD", "dcd", dcd_bytes(POSITIONS, cell=CELLS), "<i"),
        ("DCD, big-endian", "dcd", dcd_bytes(POSITIONS, cell=CELLS, byte_order=">"), ">i"),
        ("DCD of four dimensions", "dcd", dcd_bytes(POSITIONS, fourth=True), "<i"),
        ("HISTORY", "HISTORY", unformatted_bytes([POSITIONS, -POSITIONS], cells=CELLS), "<i"),
        ("HISTORY of 8-byte lengths", "HISTORY", unformatted_bytes([POSITIONS], marker="i8"), "<q"),
    ):
        first, length = extent(data, suffix)
        for at in record_lengths(data, marker):
            if at < len(data) and (at < first or first + DAMAGED * length <= at < first + (DAMAGED + 1) * length):
                yield pytest.param(suffix, data, at, marker, None if at < first else DAMAGED, id=f"{name}, byte {at}")


def extent(data: bytes, suffix: str) -> tuple[int, int]:
    """Where the frames of a file begin, and the bytes of each."""
    n_records = {"dcd": 3, "HISTORY": 5}[suffix]
    lengths = [*record_lengths(data, ">i" if data[:4] == b"\0\0\0T" else "<q" if data[4:8] == bytes(4) else "<i")]
    first = lengths[2 * n_records]
    return first, (len(data) - first) // N_FRAMES


def found_by_both(path: Path, frame: int | None, match: str, **options: object) -> None:
    """`check` has a problem, and `read` raises; with path, and frame if it is in one."""
    report = kn.check(path, **options)
    assert [problem.frame for problem in report.problems][:1] == [frame], str(report)
    problem = report.problems[0]
    assert problem.kind == "corrupt" and str(path) in str(problem)
    fields = [name for name in ("positions", "velocities") if frame is None or name in kn.open(path, **options).fields]
    with pytest.raises(kn.CorruptFileError, match=match) as raised:
        kn.open(path, stored=False, **options).read(fields=fields)
    assert (raised.value.path, raised.value.frame) == (str(path), frame)


@pytest.mark.parametrize(("suffix", "data", "at", "marker", "frame"), [*fortran_record_cases()])
def test_record_lengths(tmp_path: Path, suffix: str, data: bytes, at: int, marker: str, frame: int | None) -> None:
    path = tmp_path / f"a.{suffix}"
    damaged = bytearray(data)
    struct.pack_into(marker, damaged, at, struct.unpack_from(marker, data, at)[0] ^ 8)
    path.write_bytes(damaged)
    # by the first lengths a file is recognised: its ending says then what it should be
    found_by_both(path, frame, "length|in spite of its name")


def netcdf(path: Path) -> bytes:
    write_netcdf(path, POSITIONS)
    return path.read_bytes()


# bytes of the file, where the count is, and how it is written
COUNTS: dict[str, tuple[str, Callable[[Path], bytes], int, Callable[[int], bytes]]] = {
    "DCD": ("a.dcd", lambda path: dcd_bytes(POSITIONS), 8, lambda n: struct.pack("<i", n)),
    "HISTORY": ("HISTORY", lambda path: history_bytes(POSITIONS), RECORD + 30, lambda n: b"%21d" % n),
    "NetCDF": ("a.nc", netcdf, 4, lambda n: struct.pack(">i", n)),
}


@pytest.mark.parametrize("counted", [N_FRAMES - 2, N_FRAMES + 3])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_frames(tmp_path: Path, name: str, counted: int) -> None:
    file, make, at, written = COUNTS[name]
    path = tmp_path / file
    data = bytearray(make(path))
    data[at : at + len(written(counted))] = written(counted)
    path.write_bytes(data)
    report = kn.check(path)
    # frames that a count leaves out may have been written just now; a DCD's own size says how many there are
    if counted < N_FRAMES or name == "DCD":
        assert report.ok, str(report)
        note, *lines = [note for note in report.notes if "header says" in note]
        # that of HISTORY counts lines as well
        assert len(lines) == (name == "HISTORY")
        assert f"header says {counted} frames" in note and "file holds" in note and str(N_FRAMES) in note
    else:
        assert [(problem.kind, problem.frame) for problem in report.problems] == [("truncated", N_FRAMES)]
        with pytest.raises(kn.TruncatedFileError, match=f"expected {counted} frames, found {N_FRAMES}"):
            kn.open(path, on_truncated="error").read()
    trajectory = kn.open(path, stored=False)
    trajectory.read()
    assert any(f"{counted} frames" in note for note in trajectory.notes)


@pytest.mark.parametrize("lines", ["71", "", "x", "9" * 20])
def test_counts_of_lines_of_history(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "HISTORY"
    data = bytearray(history_bytes(POSITIONS))
    n_lines, at = len(data) // RECORD, RECORD + 51
    assert data[at : at + 21] == b"%21d" % n_lines
    data[at : at + 21] = lines.rjust(21).encode()
    path.write_bytes(data)
    noted = f'header says {N_FRAMES} frames and "{lines}" lines, expected {n_lines} lines for these frames'
    report, trajectory = kn.check(path), kn.open(path, stored=False)
    assert report.ok and len(trajectory.read()) == N_FRAMES
    for notes in (report.notes, trajectory.notes):
        # of programs that do not count there is nothing to compare
        assert [note.endswith(noted) for note in notes if "lines" in note] == ([True] if lines else [])


@pytest.mark.parametrize("where", ["head of the file", "head of a frame"])
def test_counts_of_atoms_of_history(tmp_path: Path, where: str) -> None:
    path = tmp_path / "HISTORY"
    data = bytearray(history_bytes(POSITIONS))
    frame = (len(data) - 2 * RECORD) // N_FRAMES
    at = RECORD + 29 if where == "head of the file" else 2 * RECORD + DAMAGED * frame + 8 + 19
    assert data[at : at + 1] == b"0"
    data[at : at + 1] = b"4"
    path.write_bytes(data)
    report = kn.check(path)
    expected = 0 if where == "head of the file" else DAMAGED
    corrupt = [problem for problem in report.problems if problem.kind == "corrupt"]
    assert corrupt[0].frame == expected and "number of atoms" in str(corrupt[0])
    with pytest.raises(kn.CorruptFileError, match="number of atoms") as raised:
        kn.open(path, stored=False).read()
    assert (raised.value.path, raised.value.frame) == (str(path), expected)


def test_width_of_records_of_history(tmp_path: Path) -> None:
    path = tmp_path / "HISTORY"
    data = bytearray(history_bytes(POSITIONS))
    frame = (len(data) - 2 * RECORD) // N_FRAMES
    data[2 * RECORD + DAMAGED * frame + 9 * RECORD - 1] = ord("7")
    path.write_bytes(data)
    found_by_both(path, DAMAGED, "width of a record")


# magic number, text, sizes of ten parts, number of atoms
@pytest.mark.parametrize("word", range(17))
def test_sizes_of_trr(tmp_path: Path, word: int) -> None:
    path = tmp_path / "a.trr"
    write_trr(path, POSITIONS)
    data = bytearray(path.read_bytes())
    data[DAMAGED * len(data) // N_FRAMES + 4 * word + 3] ^= 4
    path.write_bytes(data)
    found_by_both(path, DAMAGED, "expected")


def write_with_sums(path: Path, *, times: bool, **storage: object) -> None:
    """Each data set in chunks of two rows with a sum."""
    steps = np.arange(N_FRAMES)
    sums = {"fletcher32": True, **storage}
    with particles_all(path) as group:
        stamps = {"steps": steps, "times": 0.5 * steps} if times else {"steps": steps}
        add_element(group, "position", POSITIONS, **stamps, unit="nm", **sums | {"chunks": (2, N_ATOMS, 3)})
        add_element(group, "velocity", -POSITIONS, **stamps, unit="nm ps-1", **sums | {"chunks": (2, N_ATOMS, 3)})
        add_element(add_box(group), "edges", CELLS, **stamps, unit="nm", **sums | {"chunks": (2, 3, 3)})
        for name in ("position/step", "position/time") if times else ("position/step",):
            values, attributes = group[name][()], dict(group[name].attrs)
            del group[name]
            stored = group.create_dataset(name, data=values, chunks=(2,), fletcher32=True)
            stored.attrs.update(attributes | ({"unit": "ps"} if name.endswith("time") else {}))


def damage_chunk(path: Path, name: str, what: str) -> None:
    """Flips a bit of the second chunk, of its values or its sum."""
    with h5py.File(path) as file:
        chunk = file[f"particles/all/{name}"].id.get_chunk_info(1)
    at = chunk.byte_offset + (1 if what == "values" else chunk.size - 1)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("times", [True, False])
@pytest.mark.parametrize("what", ["values", "sum"])
@pytest.mark.parametrize("name", ["position/value", "velocity/value", "box/edges/value"])
def test_sums_of_hdf5(tmp_path: Path, name: str, what: str, times: bool) -> None:
    path = tmp_path / "a.h5md"
    write_with_sums(path, times=times)
    assert kn.check(path).ok
    damage_chunk(path, name, what)
    found_by_both(path, 2, rf"frame 2, byte \d+: data set /particles/all/{name}, chunk 1: wrong fletcher32 checksum")
    report = kn.check(path)
    assert [problem.frame for problem in report.problems] == [2, 3], "both frames of the chunk"


@pytest.mark.skipif(not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP), reason="libhdf5 has no szip")
def test_sums_of_chunks_that_libhdf5_decodes(tmp_path: Path) -> None:
    path = tmp_path / "a.h5md"
    write_with_sums(path, times=True, compression="szip")
    damage_chunk(path, "position/value", "sum")
    found_by_both(path, 2, r"a\.h5md: H5MD frame 2: .*filter returned failure")


@pytest.mark.parametrize("what", ["values", "sum"])
@pytest.mark.parametrize("name", ["position/step", "position/time"])
def test_sums_of_steps_and_times_of_hdf5(tmp_path: Path, name: str, what: str) -> None:
    path = tmp_path / "a.h5md"
    write_with_sums(path, times=True)
    damage_chunk(path, name, what)
    found_by_both(path, None, rf"data set /particles/all/{name}, rows 2 to 3 at byte \d+, cannot be read")


def test_other_vectors_than_positions_keep_no_frame_from_runs(tmp_path: Path) -> None:
    """A verdict that `check` keeps is on positions alone."""
    path = tmp_path / "a.HISTORY"
    data = unformatted_bytes([POSITIONS, -POSITIONS])
    first, length = extent(data, "HISTORY")
    damaged = bytearray(data)
    damaged[first + (DAMAGED + 1) * length - 4] ^= 1
    path.write_bytes(damaged)
    assert [problem.frame for problem in kn.check(path).problems] == [DAMAGED]
    analysis = kn.analysis.RMSD(kn.open(path), select=range(N_ATOMS)).run(skip_damaged=True)
    assert analysis.results.frames.tolist() == list(range(N_FRAMES))


def test_frames_without_velocities_are_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "a.trr"
    write_trr(path, POSITIONS, velocities=POSITIONS, forces=POSITIONS, every=(1, 2, 3))
    assert kn.check(path).ok
