"""Unformatted HISTORY files, Fortran records as DL_POLY 2 and Classic write them, against the suite of formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import FormatTests, Golden, open_recorded, random_walk, unformatted_bytes

FORCE = 0.01  # kJ/(mol angstrom) in Da angstrom/ps^2
N_ATOMS = 12
# bytes with 4-byte lengths of records: before the first frame, of a frame without a cell, of a plane
HEAD, PLANE = 88 + 16 + 3 * (8 + 8 * N_ATOMS), 8 + 8 * N_ATOMS
FRAME = 48 + 3 * PLANE


class TestUnformattedHistory(FormatTests):
    suffix = ".history"

    def write(self, path, positions, first_step):
        Path(path).write_bytes(unformatted_bytes([positions], steps=first_step + np.arange(len(positions))))

    def write_synthetic(self, path, made):
        cells = made.cells if made.cells.any() else None
        vectors = [made.positions] if made.velocities is None else [made.positions, made.velocities]
        Path(path).write_bytes(unformatted_bytes(vectors, cells=cells))
        return cells is not None, made.velocities is not None

    def golden_files(self):
        # no such file is published: one whose bytes were made by gfortran
        folder = Path(__file__).parents[2] / "crates/kinema-core/tests/data/dlpoly"
        atom = np.arange(1, 6)
        positions = np.array(
            [[[0.1 * i + frame, -0.3 * i, i * i / 7] for i in atom] for frame in (1, 2, 3)], np.float32
        )
        cells = np.array([np.diag([20.0 + frame, 21.0, 22.5]) for frame in (1, 2, 3)], np.float32)
        times = np.array([0.1, 0.2, 0.3])
        names = ("gfortran_little_endian", "gfortran_big_endian", "gfortran_wide_lengths")
        return [Golden(folder / f"{name}.history", positions, times, cells) for name in names]


@pytest.mark.parametrize("name", ["little_endian", "big_endian", "wide_lengths"])
def test_what_gfortran_writes_is_read_whole(name: str) -> None:
    folder = Path(__file__).parents[2] / "crates/kinema-core/tests/data/dlpoly"
    trajectory = kn.open(folder / f"gfortran_{name}.history", stored=False)
    found = trajectory.read(fields=["positions", "velocities", "forces"], dtype="float64")
    np.testing.assert_array_equal(found["positions"][2, 4], [0.1 * 5 + 3, -0.3 * 5, 25 / 7])
    np.testing.assert_array_equal(found["velocities"], 2 * found["positions"])
    np.testing.assert_allclose(found["forces"], 3 * FORCE * found["positions"], rtol=1e-15)
    assert found["steps"].tolist() == [100, 200, 300]
    (part,) = trajectory.parts
    order = "big-endian" if name == "big_endian" else "little-endian"
    lengths = ", 8-byte record lengths" if name == "wide_lengths" else ""
    assert part.variant == f"unformatted, keytrj 2, orthorhombic cell, {order}{lengths}"
    assert list(part.remarks) == ["written by gfortran"]
    atoms = trajectory.atoms
    assert atoms is not None
    assert list(atoms.get("names")) == ["AT1", "AT2", "AT3", "AT4", "AT5"]
    assert list(atoms.get("masses")) == [1.5, 3.0, 4.5, 6.0, 7.5]
    assert list(atoms.get("charges")) == [-0.25, -0.5, -0.75, -1.0, -1.25]


@pytest.mark.parametrize("byte_order", ["<", ">"])
@pytest.mark.parametrize("marker", ["i4", "i8"])
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("periodic", [False, True])
def test_every_layout_is_read_to_the_last_bit(
    tmp_path: Path, byte_order: str, marker: str, levels: int, periodic: bool
) -> None:
    random = np.random.default_rng(levels)
    n_atoms = 30_000  # so that planes are read in parts
    vectors = [random.normal(0, 10.0 ** (2 * i), (3, n_atoms, 3)) for i in range(levels)]
    cells = random.uniform(10, 90, (3, 3, 3)) if periodic else None
    path = tmp_path / "HISTORY"
    path.write_bytes(
        unformatted_bytes(
            vectors, cells=cells, byte_order=byte_order, marker=marker, steps=[5, 10, 20], time_step=0.0005
        )
    )
    trajectory = kn.open(path, stored=False)
    assert trajectory.format == "DL_POLY HISTORY"
    names = ["positions", "velocities", "forces"][:levels]
    assert set(trajectory.fields) >= set(names)
    np.testing.assert_array_equal(trajectory.times, np.array([5, 10, 20]) * 0.0005)
    for selected in (np.arange(n_atoms), np.array([0]), np.array([n_atoms - 1]), np.array([2, 50, 25_000])):
        for dtype in (np.float32, np.float64):
            for chosen in (names, names[-1:]):
                found = trajectory.read(fields=chosen, select=selected, dtype=dtype)
                for name in chosen:
                    factor = FORCE if name == "forces" else 1.0
                    expected = (vectors[names.index(name)][:, selected] * factor).astype(dtype)
                    np.testing.assert_array_equal(found[name], expected)
                assert found["steps"].tolist() == [5, 10, 20]
                np.testing.assert_array_equal(found["cells"], np.zeros((3, 3, 3)) if cells is None else cells)
    recorded = open_recorded(path)
    recorded.scan()
    recorded.take_reads()
    recorded.read(select=[7], fields=["positions"])
    assert sum(length for _, _, length in recorded.take_reads()) < 3 * 2000


def test_atoms_are_those_of_the_head(tmp_path: Path) -> None:
    path = tmp_path / "HISTORY"
    names, masses, charges = ["OW", "HW1", "longname"], [15.9994, 1.008, 0.0], [-0.82, 0.41, 0.41]
    data = unformatted_bytes([random_walk(2, 3)], names=names, masses=masses, charges=charges, byte_order=">")
    path.write_bytes(data)
    for atoms in (kn.open(path, stored=False).atoms, kn.read_atoms(path)):
        assert atoms is not None
        assert list(atoms.get("names")) == names
        assert list(atoms.get("masses")) == masses
        assert list(atoms.get("charges")) == charges


def test_it_converts_to_a_file_that_has_the_same(tmp_path: Path) -> None:
    cells = np.array([np.diag([10.0, 11.0, 12.0])] * 4)
    positions = random_walk(4, N_ATOMS).astype(np.float64)
    (tmp_path / "HISTORY").write_bytes(unformatted_bytes([positions, 2 * positions], cells=cells, imcon=2))
    with collected():
        kn.convert(tmp_path / "HISTORY", tmp_path / "made.history")
    made = kn.open(tmp_path / "made.history", stored=False)
    found = made.read(fields=["positions", "velocities"], dtype="float64")
    np.testing.assert_allclose(found["positions"], positions, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["velocities"], 2 * positions, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found["cells"], cells)
    assert made.atoms is not None
    assert list(made.atoms.get("names")) == [f"A{i}" for i in range(N_ATOMS)]


def test_the_shape_of_the_cell_is_named(tmp_path: Path) -> None:
    cells = np.array([20 * np.eye(3)] * 2)
    for imcon, note in ((1, None), (4, "truncated octahedron"), (6, "periodic in x and y alone")):
        (tmp_path / "HISTORY").write_bytes(unformatted_bytes([random_walk(2, 3)], cells=cells, imcon=imcon))
        (part,) = kn.open(tmp_path / "HISTORY", stored=False).parts
        assert [note in warning for warning in part.warnings] == [True] * (note is not None)
        assert part.variant.startswith("unformatted, keytrj 0, ")


def test_a_cut_tail_is_named_and_the_rest_read(tmp_path: Path) -> None:
    positions = random_walk(5, N_ATOMS)
    data = unformatted_bytes([positions])
    assert len(data) == HEAD + 5 * FRAME
    path = tmp_path / "HISTORY"
    path.write_bytes(data[:-3])
    with collected() as notes:
        np.testing.assert_array_equal(kn.open(path, stored=False).read(), positions[:4])
    assert any(f"HISTORY frame 4, byte {HEAD + 4 * FRAME}: the last frame is incomplete" in note for note in notes)
    with pytest.raises(kn.TruncatedFileError, match=f"expected {FRAME} bytes, found {FRAME - 3}"):
        kn.open(path, stored=False, on_truncated="error").read()
    # in the head of the file, and of its first frame
    for size in (90, HEAD - 3, HEAD, HEAD + 47):
        path.write_bytes(data[:size])
        with pytest.raises(kn.Error):
            kn.open(path, stored=False).read()


def number(value: float) -> bytes:
    return np.array(value, "<f8").tobytes()


def length(value: int) -> bytes:
    return np.array(value, "<i4").tobytes()


DAMAGE = [
    (92, number(13), "byte 104: record length of the names of the atoms, expected 104, found 96"),
    (HEAD - 4, length(95), f"byte {HEAD - 4}: record length of the charges of the atoms, expected 96, found 95"),
    (HEAD + FRAME, length(41), f"frame 1, byte {HEAD + FRAME}: record length of the head of a frame, expected 40"),
    (HEAD + FRAME + 4, number(0.5), f"frame 1, byte {HEAD + FRAME + 4}: step, expected a whole number, found 0.5"),
    (HEAD + FRAME + 12, number(13), f"frame 1, byte {HEAD + FRAME + 12}: number of atoms, expected 12 as in the file"),
    (HEAD + FRAME + 20, number(1), f"frame 1, byte {HEAD + FRAME + 20}: keytrj, expected 0 as in the first frame"),
    (HEAD + FRAME + 20, number(7), f"frame 1, byte {HEAD + FRAME + 20}: keytrj, expected 0 to 2, found 7"),
    (HEAD + FRAME + 28, number(2), f"frame 1, byte {HEAD + FRAME + 28}: imcon, expected 0 as in the first frame"),
    (HEAD + FRAME + 36, number(np.nan), f"frame 1, byte {HEAD + FRAME + 36}: time step, expected a number"),
    (HEAD + 48, length(8), f"frame 0, byte {HEAD + 48}: record length of the x plane of the positions, expected 96"),
    (
        HEAD + 48 + 2 * PLANE - 4,
        length(-9),
        f"frame 0, byte {HEAD + 44 + 2 * PLANE}: record length of the y plane of the positions, expected 96, found",
    ),
]


@pytest.mark.parametrize(("at", "wrong", "message"), DAMAGE)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, at: int, wrong: bytes, message: str) -> None:
    path = tmp_path / "HISTORY"
    data = bytearray(unformatted_bytes([random_walk(3, N_ATOMS)], steps=[1, 2, 3]))
    data[at : at + len(wrong)] = wrong
    path.write_bytes(data)
    with pytest.raises(kn.CorruptFileError) as raised:
        kn.open(path, stored=False).read()
    assert message in str(raised.value)


def test_a_cell_that_is_none_is_named_and_positions_are_read(tmp_path: Path) -> None:
    cells = np.array([20 * np.eye(3)] * 2)
    cells[1, 2, 2] = np.inf
    positions = random_walk(2, N_ATOMS)
    (tmp_path / "HISTORY").write_bytes(unformatted_bytes([positions], cells=cells))
    with pytest.warns(kn.Note, match="frame 1: the cell is none"):
        found = kn.open(tmp_path / "HISTORY", stored=False).read()
    np.testing.assert_array_equal(found, positions)


def test_frames_around_damage_can_be_read(tmp_path: Path) -> None:
    positions = random_walk(3, N_ATOMS)
    data = bytearray(unformatted_bytes([positions]))
    data[HEAD + FRAME] ^= 1
    (tmp_path / "HISTORY").write_bytes(data)
    trajectory = kn.open(tmp_path / "HISTORY", stored=False)
    with collected():
        trajectory.scan(skip_damaged=True)
    np.testing.assert_array_equal(trajectory.read([0, 2]), positions[[0, 2]])
    report = kn.check(tmp_path / "HISTORY")
    assert not report.ok
    assert "frame 1" in str(report)


def test_frames_are_not_copied_and_the_reason_is_named(tmp_path: Path) -> None:
    path = tmp_path / "one.history"
    path.write_bytes(unformatted_bytes([random_walk(3, N_ATOMS)]))
    before = path.read_bytes()
    actions = (
        lambda: kn.salvage(path, tmp_path / "out.history"),
        lambda: kn.split(path, tmp_path / "parts", frames_per_part=1),
        lambda: kn.join([path, path], tmp_path / "out.history", overlap="all"),
        lambda: kn.Writer(path, N_ATOMS, mode="a"),
    )
    for action in actions:
        with pytest.raises(kn.UnsupportedFormatError, match=r"unformatted ones .* kinema convert"), collected():
            action()
    assert path.read_bytes() == before
    assert not (tmp_path / "out.history").exists()
