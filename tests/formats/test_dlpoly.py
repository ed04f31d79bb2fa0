"""DL_POLY's HISTORY and CONFIG against the suite of formats; real files, all keys, orders of atoms, damage, copies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import FormatTests, Golden, history_bytes, random_walk, write_history
from kinema.testing.dlpoly_files import DL_POLY_3
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")

FORCE = 0.01  # kJ/(mol angstrom) in Da angstrom/ps^2
NAMES = [f"N{i % 5}*" for i in range(12)]
MASSES = [1.0 + i / 8 for i in range(12)]
CHARGES = [(-1) ** i * i / 16 for i in range(12)]
WORDS = "  {step} {atoms} {keytrj} {imcon} {between} {time}"


def folder() -> Path:
    from MDAnalysisTests import datafiles

    return Path(os.path.dirname(datafiles.__file__)) / "data"


def opened(path: str | Path, **how: Any) -> kn.Trajectory:
    with collected():
        trajectory = kn.open(path, stored=False, **how)
        trajectory.scan()
    return trajectory


def vectors(trajectory: kn.Trajectory, **how: Any) -> dict[str, np.ndarray]:
    names = [name for name in trajectory.fields if name in ("positions", "velocities", "forces")]
    return {**trajectory.read(fields=names, **how)}


class TestHistory(FormatTests):
    suffix = ".history"

    def write(self, path, positions, first_step):
        steps = first_step + np.arange(len(positions))
        write_history(path, positions, steps=steps, times=steps.astype(float))

    def write_synthetic(self, path, made):
        cells = made.cells if made.cells.any() else None
        write_history(path, made.positions, velocities=made.velocities, cells=cells, times=made.times)
        return cells is not None, True

    velocity_tolerance = 1e-9

    def golden_files(self):
        from MDAnalysis.coordinates.DLPoly import HistoryReader

        found = []
        for name in ("dlpoly/HISTORY", "windows/WIN_HISTORY"):
            with HistoryReader(str(folder() / name)) as reader:
                positions = np.array([ts.positions.copy() for ts in reader], np.float32)
            found.append(Golden(folder() / name, positions, np.array([0.005, 0.055, 0.105])))
        return found


class TestUnsortedHistory(TestHistory):
    """Each frame has its atoms in an order of its own, as parallel runs write them that do not sort."""

    def write(self, path, positions, first_step):
        random = np.random.default_rng(3)
        order = np.array([random.permutation(positions.shape[1]) for _ in positions])
        steps = first_step + np.arange(len(positions))
        write_history(path, positions, steps=steps, times=steps.astype(float), order=order)

    def test_few_atoms_of_a_frame_touch_its_bytes_only(self, tmp_path: Path) -> None:
        pytest.skip("where atoms may be anywhere, a frame is read whole")


class TestOlderHistory(TestHistory):
    """Heads of frames as DL_POLY_3 and early DL_POLY_4 write them."""

    def write(self, path, positions, first_step):
        steps = first_step + np.arange(len(positions))
        write_history(path, positions, steps=steps, times=steps.astype(float), heads=DL_POLY_3)

    def golden_files(self):
        return []


@pytest.mark.parametrize("name", ["dlpoly/HISTORY", "windows/WIN_HISTORY"])
def test_real_histories_have_the_values_that_mdanalysis_reads(name: str, tmp_path: Path) -> None:
    from MDAnalysis.coordinates.DLPoly import HistoryReader
    from MDAnalysis.lib.mdamath import triclinic_box

    trajectory = opened(folder() / name)
    found = vectors(trajectory)
    with HistoryReader(str(folder() / name)) as reader:
        assert (reader.n_frames, reader.n_atoms) == (trajectory.n_frames, trajectory.n_atoms)
        for i, ts in enumerate(reader):
            np.testing.assert_array_equal(found["positions"][i], ts.positions)
            np.testing.assert_array_equal(found["velocities"][i], ts.velocities)
            # which gives them in the unit of the file
            np.testing.assert_allclose(found["forces"][i], ts.forces * np.float32(FORCE), rtol=2e-7)
            np.testing.assert_allclose(triclinic_box(*found["cells"][i]), ts.dimensions, rtol=0, atol=1e-4)
    assert found["steps"].tolist() == [1, 11, 21]
    names = MDAnalysis.Universe(str(folder() / name), topology_format="HISTORY", format="HISTORY").atoms.names
    np.testing.assert_array_equal(trajectory.atoms.get("names"), names)
    assert set(trajectory.atoms.get("masses")) == {39.0983, 35.453}  # type: ignore[arg-type]
    # copied as it is, but for the ends of lines
    with collected():
        done = kn.convert(folder() / name, tmp_path / "HISTORY")
    assert done.losses == ()
    assert (tmp_path / "HISTORY").read_bytes() == (folder() / "dlpoly/HISTORY").read_bytes()


@pytest.mark.parametrize("name", ["CONFIG", "CONFIG_minimal", "CONFIG_order"])
def test_real_configs_have_the_values_that_mdanalysis_reads(name: str) -> None:
    from MDAnalysis.coordinates.DLPoly import ConfigReader

    path = folder() / "dlpoly" / name
    trajectory = opened(path)
    found = vectors(trajectory)
    with ConfigReader(str(path)) as reader:
        ts = reader.ts
        np.testing.assert_array_equal(found["positions"][0], ts.positions)
        assert ts.has_velocities == ("velocities" in found) and ts.has_forces == ("forces" in found)
        if ts.has_velocities:
            np.testing.assert_array_equal(found["velocities"][0], ts.velocities)
        if ts.has_forces:
            np.testing.assert_allclose(found["forces"][0], ts.forces * np.float32(FORCE), rtol=2e-7)
        if ts.dimensions is not None:
            np.testing.assert_allclose(found["cells"][0], ts.triclinic_dimensions, atol=1e-5)
        assert bool(found["cells"].any()) == (ts.dimensions is not None)
    # the order of the indices is that of the names as well
    if name == "CONFIG_order":
        assert trajectory.atoms.get("names").tolist() == ["C", "B", "A"]  # type: ignore[union-attr]


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_every_key_and_both_ends_of_lines(tmp_path: Path, levels: int, end: bytes) -> None:
    random = np.random.default_rng(levels)
    values = [random.normal(0, 10.0 ** random.integers(-12, 12, (4, 12, 3)), (4, 12, 3)) for _ in range(3)]
    cells = np.round(random.uniform(10, 20, (4, 3, 3)), 6)
    path = tmp_path / "HISTORY"
    names = dict(zip(("velocities", "forces"), values[1:levels], strict=False))
    write_history(path, values[0], **names, cells=cells, steps=[5, 7, 9, 50], end=end, names=NAMES, masses=MASSES)
    trajectory = opened(path)
    found = vectors(trajectory, dtype="float64")
    digits = lambda array: np.array([float(f"{value:.9e}") for value in array.flat]).reshape(array.shape)  # noqa: E731
    np.testing.assert_array_equal(found["positions"], digits(values[0]))
    for name, factor, expected in zip(("velocities", "forces")[: levels - 1], (1.0, FORCE), values[1:], strict=False):
        np.testing.assert_array_equal(found[name], digits(expected) * factor)
    np.testing.assert_array_equal(found["cells"], cells)
    assert found["steps"].tolist() == [5, 7, 9, 50]
    assert trajectory.parts[0].variant.startswith(f"keytrj {levels - 1}, parallelepiped cell")
    atoms = trajectory.atoms
    assert (atoms.get("names").tolist(), atoms.get("masses").tolist()) == (NAMES, MASSES)  # type: ignore[union-attr]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize(("heads", "named"), [(DL_POLY_3, "as in DL_POLY_3"), (WORDS, "in free format")])
def test_heads_of_other_versions(tmp_path: Path, heads: str, named: str, end: bytes) -> None:
    """In the columns of DL_POLY_3, or as words in columns of no known version; records are otherwise the same."""
    path, cells = tmp_path / "HISTORY", np.stack([np.diag([10.0, 11.0, 12.0])] * 3)
    stamps = {"steps": [100, 200, 300], "times": [0.5, 1.0, 1.5]}
    write_history(path, random_walk(3, 12), heads=heads, cells=cells, names=NAMES, end=end, **stamps)
    trajectory, found = opened(path), vectors(opened(path))
    assert found["times"].tolist() == [0.5, 1.0, 1.5] and found["steps"].tolist() == [100, 200, 300]
    np.testing.assert_array_equal(found["positions"], random_walk(3, 12))
    np.testing.assert_array_equal(found["cells"], cells)
    assert trajectory.atoms.get("names").tolist() == NAMES  # type: ignore[union-attr]
    assert named in trajectory.parts[0].variant
    # nothing of other heads comes into the files that are made, and none are added to such a file
    with collected():
        kn.convert(path, tmp_path / "made.history")
    made = opened(tmp_path / "made.history")
    assert "heads" not in made.parts[0].variant
    for name, values in vectors(made).items():
        if name != "present":
            np.testing.assert_array_equal(values, found[name])
    with pytest.raises(kn.UnsupportedFormatError, match=r"read alone, .* as in DL_POLY_4"):
        kn.split(path, tmp_path / "parts", frames_per_part=1)


def test_a_later_head_in_other_columns_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "HISTORY"
    data, other = (history_bytes(random_walk(3, 12), heads=heads) for heads in (DL_POLY_3, WORDS))
    at = 2 * 73 + (len(data) - 2 * 73) // 3
    path.write_bytes(data[:at] + other[at : at + 73] + data[at + 73 :])
    with pytest.raises(kn.CorruptFileError, match="frame 1, byte"):
        kn.open(path, stored=False).read()


def test_a_time_step_without_a_time_in_older_heads(tmp_path: Path) -> None:
    path = tmp_path / "HISTORY"
    write_history(path, random_walk(2, 12), steps=[100, 200], heads=DL_POLY_3.replace("{time:12.6f}", ""))
    assert vectors(opened(path))["times"].tolist() == [0.1, 0.2]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_compressed_histories(tmp_path: Path, end: bytes) -> None:
    positions = random_walk(5, 12).astype(float)
    write_history(tmp_path / "HISTORY", positions, compressed=True, end=end, steps=[1, 2, 4, 8, 16], names=NAMES)
    trajectory = opened(tmp_path / "HISTORY")
    found = trajectory.read(fields=["positions"])
    np.testing.assert_allclose(found["positions"], positions, atol=0.0501)
    tenths = np.array([float(f"{value:.1f}") for value in positions.flat], np.float32).reshape(positions.shape)
    np.testing.assert_array_equal(found["positions"], tenths)
    assert found["steps"].tolist() == [1, 2, 4, 8, 16]
    assert trajectory.atoms.columns == ("names",)
    with collected():
        kn.convert(trajectory, tmp_path / "b.history")
    np.testing.assert_array_equal(opened(tmp_path / "b.history").read(), found["positions"])


def test_selections_of_unsorted_frames_behind_sorted_ones(tmp_path: Path) -> None:
    positions = random_walk(6, 2000)
    order = np.tile(np.arange(2000), (6, 1))
    random = np.random.default_rng(5)
    order[3], order[5] = random.permutation(2000), random.permutation(2000)
    # beyond what is looked at when the file is opened
    swapped = order[4].copy()
    swapped[[1500, 1900]] = swapped[[1900, 1500]]
    order[4] = swapped
    write_history(tmp_path / "HISTORY", positions, order=order)
    trajectory = opened(tmp_path / "HISTORY")
    np.testing.assert_array_equal(trajectory.read(), positions)
    for atoms in ([1500], [3, 1900], [7, 8, 1000, 1999]):
        np.testing.assert_array_equal(trajectory.read(select=atoms), positions[:, atoms])
        with collected():
            kn.convert(trajectory, tmp_path / "some.history", select=atoms, overwrite=True)
        some = opened(tmp_path / "some.history")
        np.testing.assert_array_equal(some.read(), positions[:, atoms])
        assert some.atoms.get("names").tolist() == [f"A{atom}" for atom in atoms]  # type: ignore[union-attr]


def test_frames_are_those_of_the_head_and_of_the_size(tmp_path: Path) -> None:
    positions = random_walk(5, 12)
    data = history_bytes(positions)
    path = tmp_path / "HISTORY"
    frame = (len(data) - 146) // 5
    # a run that was killed within its last frame
    path.write_bytes(data[: -frame // 2])
    with collected() as notes:
        found = kn.open(path, stored=False).read()
    np.testing.assert_array_equal(found, positions[:4])
    assert any("HISTORY frame 4, byte" in note and "expected 5 frames, found 4" in note for note in notes)
    with pytest.raises(kn.TruncatedFileError, match="frame 4"):
        kn.open(path, stored=False, on_truncated="error").read()
    # a head that counts none, as old versions left it
    path.write_bytes(history_bytes(positions, counted=0))
    assert opened(path).n_frames == 5
    # frames that are not committed
    path.write_bytes(history_bytes(positions, counted=3))
    trajectory = opened(path)
    assert trajectory.n_frames == 3
    assert "header says 3 frames, file holds 5" in trajectory.parts[0].warnings[0]
    # none yet
    path.write_bytes(data[:146])
    assert opened(path).n_frames == 0


DAMAGE = [
    (2190, b"timestop", "frame 1, byte 2190: what a frame begins with, expected timestep"),
    (146 + 18, b"        13", "frame 0, byte 164: number of atoms, expected 12 as in the second record, found 13"),
    (146 + 52, b"                 abc", "frame 0, byte 198: time, expected a number"),
    (146 + 73 * 4 + 8, b"         7", "frame 0, byte 1322: index of an atom that another has"),
    (146 + 73 * 4 + 8, b"        99", "frame 0, byte 446: index of an atom, expected 1 to 12, each once, found 99"),
    (146 + 73 * 5, b"********************", "frame 0, byte 511: component of a vector, expected a number"),
    (146 + 73 * 5 + 72, b" ", "frame 0, byte 511: wrong width of a record, expected 73 bytes"),
]


@pytest.mark.parametrize(("at", "wrong", "message"), DAMAGE)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, at: int, wrong: bytes, message: str) -> None:
    path = tmp_path / "HISTORY"
    data = bytearray(history_bytes(random_walk(3, 12)))
    data[at : at + len(wrong)] = wrong
    path.write_bytes(data)
    with pytest.raises(kn.CorruptFileError) as raised:
        kn.open(path, stored=False).read()
    assert message in str(raised.value)
    report = kn.check(path)
    assert not report.ok and message in str(report)
    # the other frames can be had
    with collected():
        done = kn.salvage(path, tmp_path / "saved.history", stored=False)
    damaged = int(message.split()[1].rstrip(","))
    assert (done.n_frames, done.damaged) == (2, (damaged,))
    whole = np.delete(random_walk(3, 12), damaged, axis=0)
    np.testing.assert_array_equal(opened(tmp_path / "saved.history").read(), whole)


def test_files_are_cut_and_joined_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "HISTORY"
    positions = random_walk(7, 12)
    write_history(path, positions, steps=10 * np.arange(7), names=NAMES, charges=CHARGES)
    with collected():
        done = kn.split(path, tmp_path / "parts", frames_per_part=3)
        assert [opened(part).n_frames for part in done.paths] == [3, 3, 1]
        for part, begin in zip(done.paths, (0, 3, 6), strict=True):
            some = positions[begin : begin + 3]
            steps = 10 * np.arange(begin, begin + len(some))
            assert Path(part).read_bytes() == history_bytes(
                some, steps=steps, times=np.arange(begin, begin + len(some)), names=NAMES, charges=CHARGES
            )
        kn.join(done.paths, tmp_path / "joined.history")
    assert (tmp_path / "joined.history").read_bytes() == path.read_bytes()
    write_history(tmp_path / "other.history", positions, velocities=positions, steps=100 + np.arange(7))
    with pytest.raises(kn.ArgumentError, match="head differs"), collected():
        kn.join([path, tmp_path / "other.history"], tmp_path / "both.history", overlap="all")


@pytest.mark.parametrize("imcon", range(8))
def test_every_shape_of_cell(tmp_path: Path, imcon: int) -> None:
    cell = "" if imcon == 0 else "20. 0 0\n0 20. 0\n0 0 20.\n"
    (tmp_path / "CONFIG").write_text(f"title\n0 {imcon}\n{cell}C 1\n1 2 3\nO 2\n4 5 6\n")
    trajectory = opened(tmp_path / "CONFIG")
    found = trajectory.read(fields=["positions"])
    assert found["positions"].tolist() == [[[1, 2, 3], [4, 5, 6]]]
    np.testing.assert_array_equal(found["cells"][0], np.zeros((3, 3)) if imcon == 0 else np.diag([20.0] * 3))
    assert bool(trajectory.parts[0].warnings) == (imcon > 3)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # in the order of their indices if all have one, otherwise in the order of the file
        (["C 3", "O 1", "H 2"], "OHC"),
        (["C 30", "O 10", "H 20"], "OHC"),
        (["C", "O", "H"], "COH"),
        (["C 3", "O", "H 2"], "COH"),
        (["C 1", "O 1", "H 1"], "COH"),
        (["C 3 6", "O 1 8", "H 2 1"], "OHC"),
        (["C              3", "O       1", "H       2   1.008   1"], "OHC"),
    ],
)
def test_order_of_atoms_in_free_format(tmp_path: Path, lines: list[str], expected: str) -> None:
    body = "".join(f"{line}\n {i} 0.0d0 -1.5E-1  trailing\n" for i, line in enumerate(lines))
    (tmp_path / "x.config").write_text(f"title\n 0  0\n{body}\n\n")
    trajectory = opened(tmp_path / "x.config")
    assert "".join(trajectory.atoms.get("names")) == expected  # type: ignore[arg-type]
    order = ["COH".index(name) for name in expected]
    np.testing.assert_array_equal(trajectory.read()[0, :, 0], order)
    np.testing.assert_array_equal(trajectory.read(select=[2, 0])[0, :, 0], [order[2], order[0]])


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_configs_that_end_early_are_refused(tmp_path: Path, cut: int) -> None:
    whole = tmp_path / "whole.config"
    with collected(), kn.Writer(whole, 12) as out:
        out.write(random_walk(1, 12)[0], velocities=random_walk(1, 12)[0], step=7, time=0.25)
    path = tmp_path / "cut.config"
    path.write_bytes(whole.read_bytes()[:-cut])
    with pytest.raises(kn.Error), collected():
        kn.open(path, stored=False).read()


def test_names_of_files_say_the_format(tmp_path: Path) -> None:
    positions = random_walk(1, 12)
    for name, expected in {
        "HISTORY": "DL_POLY HISTORY",
        "CONFIG": "DL_POLY CONFIG",
        "REVCON": "DL_POLY CONFIG",
        "CFGMIN": "DL_POLY CONFIG",
        "HISTORY.dcd": "DCD",
        "a.history": "DL_POLY HISTORY",
        "a.REVCON": "DL_POLY CONFIG",
    }.items():
        with collected(), kn.Writer(tmp_path / name, 12) as out:
            out.write(positions[0])
        assert out.format == opened(tmp_path / name).format == expected
    for alias, expected in {
        "history": "DL_POLY HISTORY",
        "config": "DL_POLY CONFIG",
        "revcon": "DL_POLY CONFIG",
    }.items():
        with collected(), kn.Writer(tmp_path / "plain", 12, format=alias, overwrite=True) as out:
            out.write(positions[0])
        assert out.format == expected
        assert kn.open(tmp_path / "plain", format=alias, stored=False).format == expected


# -- CONFIG written ---------------------------------------------------------------------------------------------------


def frame(levels: int, seed: int = 1) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    names = ("positions", "velocities", "forces")[:levels]
    made: dict[str, Any] = {name: random.normal(0, 9, (12, 3)).astype(np.float32) for name in names}
    return {**made, "step": 40, "time": 0.25}


def atoms() -> kn.Atoms:
    return kn.Atoms(12, names=np.array(NAMES), masses=np.array(MASSES), charges=np.array(CHARGES))


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize(
    ("cell", "imcon"),
    [(None, 0), ([30.0] * 3, 1), ([30.0, 31, 32.5], 2), ([[30.0, 0, 0], [1.5, 31, 0], [-2, 3.25, 32]], 3)],
)
def test_configs_are_what_was_written(tmp_path: Path, levels: int, cell: Any, imcon: int) -> None:
    given = frame(levels)
    path = tmp_path / "CONFIG"
    with collected(), kn.Writer(path, atoms=atoms(), title="some title") as out:
        out.write(**given, cell=cell)
    assert out.losses == ()
    trajectory = opened(path)
    assert trajectory.parts[0].variant.startswith(f"levcfg {levels - 1}, ")
    assert trajectory.parts[0].variant.endswith("records of one width")
    found = vectors(trajectory)
    for name in ("positions", "velocities")[:levels]:
        np.testing.assert_array_equal(found[name][0], given[name])
    if levels == 3:
        np.testing.assert_allclose(found["forces"][0], given["forces"], rtol=2.5e-7)
    expected = np.zeros((3, 3)) if cell is None else np.diag(cell) if np.ndim(cell) == 1 else cell
    np.testing.assert_array_equal(found["cells"][0], expected)
    assert (found["steps"].tolist(), found["times"].tolist()) == ([40], [0.25])
    assert trajectory.atoms.get("names").tolist() == NAMES  # type: ignore[union-attr]
    lines = path.read_bytes().split(b"\n")
    assert {len(line) for line in lines[:-1]} == {72}
    assert lines[0].rstrip() == b"some title"
    assert [int(word) for word in lines[1].split()[:4]] == [levels - 1, imcon, 12, 40]
    # as a trajectory, and back: the same bytes
    with collected():
        kn.convert(path, tmp_path / "HISTORY")
        done = kn.convert(tmp_path / "HISTORY", tmp_path / "REVCON", title="some title")
    assert (tmp_path / "REVCON").read_bytes() == path.read_bytes()
    assert not any("atoms" in loss for loss in done.losses)


def test_a_config_holds_one_frame(tmp_path: Path) -> None:
    reason = "a CONFIG file holds one frame; choose it .*--dump TIME, frames=.*, or write a HISTORY file"
    positions = random_walk(3, 12)
    with collected():
        out = kn.Writer(tmp_path / "CONFIG", 12)
        out.write(positions[0])
        out.write(positions[1])
        with pytest.raises(kn.ArgumentError, match=reason):
            out.close()
    (left,) = tmp_path.iterdir()
    np.testing.assert_array_equal(opened(left).read()[0], positions[0])
    left.unlink()
    write_history(tmp_path / "HISTORY", positions)
    with pytest.raises(kn.ArgumentError, match=reason), collected():
        kn.convert(tmp_path / "HISTORY", tmp_path / "CONFIG")
    assert not (tmp_path / "CONFIG").exists()
    with collected():
        kn.convert(tmp_path / "HISTORY", tmp_path / "CONFIG", dump=2.0)
    np.testing.assert_array_equal(opened(tmp_path / "CONFIG").read()[0], positions[2])
    with pytest.raises(kn.ArgumentError, match=reason), collected():
        kn.Writer(tmp_path / "CONFIG", format="config", mode="a")


def test_ase_reads_what_is_written(tmp_path: Path) -> None:
    io = pytest.importorskip("ase.io")
    random = np.random.default_rng(2)
    cell = np.array([[30.0, 0, 0], [1.5, 31, 0], [-2, 3.25, 32]])
    names = np.array(["O", "H", "H"] * 4)
    table = kn.Atoms(12, names=names, masses=np.full(12, 2.5), charges=np.full(12, -0.5))
    positions, velocities = random.normal(0, 9, (2, 3, 12, 3)).astype(np.float32)
    with collected(), kn.Writer(tmp_path / "HISTORY", atoms=table) as out:
        for i in range(3):
            out.write(positions[i], velocities=velocities[i], cell=cell + i, step=i, time=0.5 * i)
    read = io.read(tmp_path / "HISTORY", index=":", format="dlp-history")
    assert len(read) == 3
    for i, one in enumerate(read):
        np.testing.assert_allclose(one.positions, positions[i], rtol=1e-9)
        np.testing.assert_allclose(one.cell[:], cell + i, rtol=1e-9)
        assert one.get_chemical_symbols() == names.tolist()
        np.testing.assert_allclose(one.get_masses(), 2.5)
        np.testing.assert_allclose(one.get_initial_charges(), -0.5)
    with collected():
        kn.convert(tmp_path / "HISTORY", tmp_path / "CONFIG", frames=[1])
    one = io.read(tmp_path / "CONFIG", format="dlp4")
    np.testing.assert_allclose(one.positions, positions[1], rtol=1e-9)
    np.testing.assert_allclose(one.cell[:], cell + 1, rtol=1e-9)
    assert one.get_chemical_symbols() == names.tolist()


def test_mdanalysis_reads_what_is_written(tmp_path: Path) -> None:
    from MDAnalysis.coordinates.DLPoly import ConfigReader, HistoryReader

    positions, velocities = random_walk(4, 12), random_walk(4, 12, seed=2)
    with collected(), kn.Writer(tmp_path / "HISTORY", atoms=atoms()) as out:
        for i in range(4):
            out.write(positions[i], velocities=velocities[i], cell=[30 + i, 31, 32])
    with HistoryReader(str(tmp_path / "HISTORY")) as reader:
        assert reader.n_frames == 4
        for i, ts in enumerate(reader):
            np.testing.assert_array_equal(ts.positions, positions[i])
            np.testing.assert_array_equal(ts.velocities, velocities[i])
            np.testing.assert_array_equal(ts.dimensions, [30 + i, 31, 32, 90, 90, 90])
    with collected():
        kn.convert(tmp_path / "HISTORY", tmp_path / "CONFIG", frames=[3])
    with ConfigReader(str(tmp_path / "CONFIG")) as reader:
        np.testing.assert_array_equal(reader.ts.positions, positions[3])
        np.testing.assert_array_equal(reader.ts.velocities, velocities[3])


@pytest.mark.parametrize("runner", ["serial", "threads", "processes"])
def test_analyses_without_a_topology(tmp_path: Path, runner: str) -> None:
    write_history(tmp_path / "HISTORY", random_walk(9, 12), names=["O", "H1", "H2"] * 4, masses=[16.0, 1.0, 1.0] * 4)
    trajectory = opened(tmp_path / "HISTORY")
    found = kn.analysis.RMSD(trajectory, "name H*", weights="mass").run(runner=runner).results.rmsd
    table = kn.read_atoms(tmp_path / "HISTORY")
    with collected():
        kn.convert(tmp_path / "HISTORY", tmp_path / "same.dcd")
    same = kn.open(tmp_path / "same.dcd", topology=tmp_path / "HISTORY", stored=False)
    expected = kn.analysis.RMSD(same, "name H*", weights="mass").run().results.rmsd
    np.testing.assert_array_equal(found[:, 2], expected[:, 2])
    assert table.columns == ("names", "masses", "charges")


def test_a_file_that_was_cut_in_its_first_frame_has_no_frames(tmp_path):
    write_history(tmp_path / "whole", random_walk(2, 12).astype(np.float32))
    (tmp_path / "cut").write_bytes((tmp_path / "whole").read_bytes()[:1000])
    with collected() as notes:
        trajectory = kn.open(tmp_path / "cut", stored=False)
        assert (trajectory.n_frames, trajectory.n_atoms, trajectory.atoms.n_atoms) == (0, 12, 12)
        assert trajectory.atoms.get("names") is None
    assert "the file ends early, expected 2 frames, found 0" in " ".join(notes)
