"""Kinema's reader inside MDAnalysis gives what MDAnalysis' own readers give, on real files."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.amounts import each
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
align = lazy("MDAnalysis.analysis.align")
base = lazy("MDAnalysis.analysis.base")
rms = lazy("MDAnalysis.analysis.rms")
transformations = lazy("MDAnalysis.transformations")
datafiles = lazy("MDAnalysisTests.datafiles")
interop = lazy("kinema.interop.mdanalysis")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
]


def files_of(name: str) -> tuple[str, str]:
    """Topology and trajectory."""
    return (datafiles.PSF, datafiles.DCD) if name == "dcd" else (datafiles.GRO, datafiles.XTC)


@functools.cache
def _parsed(topology: str) -> Any:
    return MDAnalysis.Universe(topology, to_guess=("types", "masses"))._topology


def atoms_of(topology: str) -> Any:
    """The atoms of a file, which is parsed once."""
    return _parsed(topology).copy()


def kinema_universe(topology: str, files: Any, **options: Any) -> Any:
    return MDAnalysis.Universe(atoms_of(topology), files, format=interop.KinemaReader, stored=False, **options)


@pytest.fixture(scope="module")
def theirs_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Universes over MDAnalysis' readers; these store offsets beside their files."""
    folder = tmp_path_factory.mktemp("theirs")
    return {
        name: MDAnalysis.Universe(atoms_of(top), shutil.copy(trajectory, folder))
        for name in ("dcd", "xtc")
        for top, trajectory in [files_of(name)]
    }


@pytest.fixture(params=["dcd", "xtc"])
def both(request: Any, theirs_of: dict[str, Any]) -> tuple[Any, Any]:
    """The same file over Kinema's reader and over MDAnalysis' own."""
    theirs = theirs_of[request.param]
    theirs.trajectory.rewind()
    return kinema_universe(*files_of(request.param)), theirs


# -- values --------------------------------------------------------------------------------------------------------


def test_every_frame_is_that_of_their_reader(both: Any) -> None:
    ours, theirs = both[0].trajectory, both[1].trajectory
    assert (ours.n_frames, ours.n_atoms, len(ours)) == (theirs.n_frames, theirs.n_atoms, len(theirs))
    assert (ours.dt, ours.totaltime) == pytest.approx((theirs.dt, theirs.totaltime), rel=1e-15)
    assert ours.format == theirs.format
    count = 0
    for mine, other in zip(ours, theirs, strict=True):
        # positions to the bit; the cell's lengths are scaled in another order
        np.testing.assert_array_equal(mine.positions, other.positions)
        assert (mine.frame, mine.n_atoms) == (other.frame, other.n_atoms)
        assert mine.time == pytest.approx(other.time, rel=1e-15)
        assert (mine.dimensions is None) == (other.dimensions is None)
        if other.dimensions is not None:
            np.testing.assert_allclose(mine.dimensions, other.dimensions, rtol=2e-7)
        count += 1
    assert count == theirs.n_frames
    assert (ours.ts.has_velocities, ours.ts.has_forces) == (False, False)


def test_steps_are_those_of_the_simulation(both: Any) -> None:
    trajectory = both[0].trajectory
    expected = kn.open(trajectory.filename, stored=False).steps
    assert [ts.data["step"] for ts in trajectory] == expected.tolist()
    if trajectory.format == "XTC":
        assert [ts.data["step"] for ts in both[1].trajectory] == expected.tolist()


@pytest.mark.parametrize("options", [{"dt": 5.0}, {"time_offset": 3.0}, {"dt": 2, "time_offset": 10}])
@pytest.mark.parametrize("name", ["dcd", "xtc"])
def test_times_that_the_user_states(name: str, options: dict[str, float], tmp_path: Path) -> None:
    topology, trajectory = files_of(name)
    theirs = MDAnalysis.Universe(atoms_of(topology), shutil.copy(trajectory, tmp_path), **options).trajectory
    ours = kinema_universe(topology, trajectory, **options).trajectory
    assert ours.dt == pytest.approx(theirs.dt, rel=1e-15)
    np.testing.assert_allclose([ts.time for ts in ours[:9]], [ts.time for ts in theirs[:9]], rtol=1e-15)


def test_native_units(tmp_path: Path) -> None:
    ours = kinema_universe(datafiles.GRO, datafiles.XTC, convert_units=False).trajectory
    theirs = MDAnalysis.Universe(
        atoms_of(datafiles.GRO), shutil.copy(datafiles.XTC, tmp_path), convert_units=False
    ).trajectory
    assert ours.units["length"] == theirs.units["length"] == "nm"
    np.testing.assert_array_equal(ours[3].positions, theirs[3].positions)
    np.testing.assert_allclose(ours[3].dimensions, theirs[3].dimensions, rtol=2e-7)
    np.testing.assert_array_equal(ours.timeseries(stop=2), theirs.timeseries(stop=2))
    # what MDAnalysis has to convert them, converts them
    np.testing.assert_array_equal(
        ours.convert_pos_from_native(ours[3].positions.copy()),
        kinema_universe(datafiles.GRO, datafiles.XTC).trajectory[3].positions,
    )


def test_a_box_that_changes_and_none_at_all(tmp_path: Path) -> None:
    positions = random_walk(4, 12)
    write_dcd(tmp_path / "none.dcd", positions)
    write_dcd(tmp_path / "box.dcd", positions, cell=(30.0, 40.0, 50.0))
    empty = MDAnalysis.Universe.empty(12)
    assert empty.load_new(str(tmp_path / "none.dcd"), format=interop.KinemaReader).dimensions is None
    empty.load_new(str(tmp_path / "box.dcd"), format=interop.KinemaReader)
    np.testing.assert_array_equal(empty.dimensions, [30, 40, 50, 90, 90, 90])


def test_one_frame(tmp_path: Path) -> None:
    write_xtc(tmp_path / "one.xtc", random_walk(1, 12), first_step=7, dt=2.0)
    trajectory = interop.KinemaReader(tmp_path / "one.xtc", stored=False)
    assert (trajectory.n_frames, trajectory.dt, trajectory.totaltime, trajectory.time) == (1, 0.0, 0.0, 14.0)
    assert [ts.frame for ts in trajectory] == [0]


# -- atoms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dcd", "xtc"])
def test_a_subset_of_the_atoms(name: str) -> None:
    topology, trajectory = files_of(name)
    whole = kinema_universe(topology, trajectory)
    group = whole.select_atoms("protein and name CA")
    part = MDAnalysis.Merge(group).load_new(trajectory, format=interop.KinemaReader, sub=group.indices, stored=False)
    assert part.trajectory.n_atoms == len(group) == 214
    for mine, _ in zip(part.trajectory, whole.trajectory, strict=True):
        np.testing.assert_array_equal(mine.positions, group.positions)
    chosen = part.atoms[[5, 3, 5, 200]]
    expected = kn.open(trajectory, stored=False).read(select=group.indices[[5, 3, 5, 200]])
    np.testing.assert_array_equal(part.trajectory.timeseries(atomgroup=chosen, order="fac"), expected)
    copy = part.trajectory.copy()
    np.testing.assert_array_equal(copy[4].positions, part.trajectory[4].positions)


def test_a_subset_in_another_order_or_as_a_mask() -> None:
    scrambled = interop.KinemaReader(datafiles.DCD, sub=[7, 3, 7], stored=False)
    np.testing.assert_array_equal(
        scrambled.ts.positions, interop.KinemaReader(datafiles.DCD, stored=False).ts.positions[[7, 3, 7]]
    )
    mask = np.arange(3341) % 2 == 0
    assert interop.KinemaReader(datafiles.DCD, sub=mask, stored=False).n_atoms == mask.sum()


def test_a_subset_that_is_none() -> None:
    with pytest.raises(IndexError, match="atom index 3341 is out of range"):
        interop.KinemaReader(datafiles.DCD, sub=[3341], stored=False)
    with pytest.raises(kn.ArgumentError, match="names no atoms"):
        interop.KinemaReader(datafiles.DCD, sub=[], stored=False)
    with pytest.raises(ValueError, match="don't have the same number of atoms"):
        kinema_universe(datafiles.PSF, datafiles.DCD, sub=[1, 2])


def test_number_of_atoms_from_the_header() -> None:
    assert interop.KinemaReader.parse_n_atoms(datafiles.XTC, n_atoms=3) == 47681


# -- ways through the frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frames",
    [
        slice(None),
        slice(10, 60, 7),
        slice(None, None, -1),
        slice(90, 2, -3),
        slice(5, 5),
        [3, 1, 1, -2, 50, 4],
        np.arange(98) % 3 == 1,
        np.array([], dtype=int),
        list(range(20, 40)),
    ],
    ids=str,
)
def test_frames_in_any_order(frames: Any, theirs_of: dict[str, Any]) -> None:
    ours, theirs = kinema_universe(datafiles.PSF, datafiles.DCD).trajectory, theirs_of["dcd"].trajectory
    # a small limit makes blocks of two frames
    tight = interop.KinemaReader(datafiles.DCD, stored=False, memory=2 * 41_000)
    for reader in (ours, tight):
        found = [(ts.frame, ts.time, ts.positions[17].tolist()) for ts in reader[frames]]
        expected = [(ts.frame, ts.time, ts.positions[17].tolist()) for ts in theirs[frames]]
        assert [row[0] for row in found] == [row[0] for row in expected]
        np.testing.assert_allclose([row[1] for row in found], [row[1] for row in expected], rtol=1e-15)
        assert [row[2] for row in found] == [row[2] for row in expected]
        assert reader.frame == 0


def test_loops_within_loops_and_jumps() -> None:
    trajectory = kinema_universe(datafiles.PSF, datafiles.DCD).trajectory
    expected = kn.open(datafiles.DCD, stored=False).read(select=[100])[:, 0]
    for outer in trajectory[::20]:
        number = outer.frame
        np.testing.assert_array_equal(trajectory.ts.positions[100], expected[number])
        for inner in trajectory[[number, 97, 1]]:
            np.testing.assert_array_equal(inner.positions[100], expected[inner.frame])
    for number in (0, 1, 2, 3, 3, 2, 97, 0, -1, 5, 7, 9, 11, 13, 12, np.int64(4)):
        np.testing.assert_array_equal(trajectory[number].positions[100], expected[number])
    with pytest.raises(IndexError):
        trajectory[98]
    with pytest.raises(TypeError):
        trajectory["1"]


def test_sub_slices_of_lists() -> None:
    trajectory = kinema_universe(datafiles.PSF, datafiles.DCD).trajectory
    chosen = trajectory[[9, 4, 30, 2]]
    assert (len(chosen), chosen[1].frame, [ts.frame for ts in chosen[1:3]]) == (4, 4, [4, 30])


def test_next_and_rewind() -> None:
    trajectory = kinema_universe(datafiles.PSF, datafiles.DCD).trajectory
    assert [trajectory.next().frame for _ in range(3)] == [1, 2, 3]
    trajectory.rewind()
    assert trajectory.frame == 0
    trajectory[97]
    with pytest.raises(StopIteration):
        next(trajectory)
    assert trajectory.frame == 0


def test_changes_to_a_frame_are_not_kept(both: Any) -> None:
    trajectory = both[0].trajectory
    before = trajectory[1].positions.copy()
    trajectory.ts.positions += 1.0
    trajectory[0]
    np.testing.assert_array_equal(trajectory[1].positions, before)


def test_transformations(both: Any) -> None:
    ours, theirs = both
    for universe in (ours, theirs.copy()):
        universe.trajectory.add_transformations(transformations.translate([1, 2, 3]))
        found = universe.trajectory.timeseries(stop=5, order="fac") if universe is ours else None
        moved = [ts.positions.copy() for ts in universe.trajectory[:5]]
        if universe is ours:
            np.testing.assert_array_equal(found, moved)
            ours_moved = moved
    np.testing.assert_array_equal(ours_moved, moved)


def test_closed(tmp_path: Path) -> None:
    with interop.KinemaReader(datafiles.DCD, stored=False) as reader:
        assert reader.n_frames == 98
    with pytest.raises(ValueError, match="the reader was closed"):
        reader[5]
    with pytest.raises(kn.ArgumentError):
        reader.timeseries()
    reader.close()
    assert sum(1 for _ in reader) == 98


# -- many frames at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fac", "fca", "afc", "acf", "caf", "cfa", None])
def test_timeseries(order: str | None, both: Any) -> None:
    ours, theirs = both
    arguments: dict[str, Any] = {} if order is None else {"order": order}
    groups = [universe.select_atoms("protein and name CA")[::-1] for universe in both]
    for frames in ({}, {"start": 1, "stop": 9, "step": 3}, {"start": 2, "stop": 2}):
        found = ours.trajectory.timeseries(atomgroup=groups[0], **frames, **arguments)
        expected = theirs.trajectory.timeseries(atomgroup=groups[1], **frames, **arguments)
        np.testing.assert_array_equal(found, expected)
    found = ours.trajectory.timeseries(stop=2, **arguments)
    np.testing.assert_array_equal(found, theirs.trajectory.timeseries(stop=2, **arguments))


def test_timeseries_moves_no_frame() -> None:
    trajectory = kinema_universe(datafiles.PSF, datafiles.DCD).trajectory
    trajectory[7]
    trajectory.timeseries(step=2)
    assert (trajectory.frame, trajectory.next().frame) == (7, 8)
    assert trajectory.timeseries(start=8, stop=2, step=-2, order="fac").shape == (3, 3341, 3)


@pytest.mark.parametrize("order", ["", "fa", "faa", "xyz", "facc"])
def test_timeseries_in_an_order_that_is_none(order: str) -> None:
    with pytest.raises(ValueError, match="permutation"):
        interop.KinemaReader(datafiles.DCD, stored=False).timeseries(order=order)


def test_to_memory(both: Any) -> None:
    ours, theirs = both
    atoms = ours._topology.copy()
    ours.transfer_to_memory(start=1, step=3)
    expected = [ts.positions.copy() for ts in theirs.trajectory[1::3]]
    np.testing.assert_array_equal([ts.positions.copy() for ts in ours.trajectory], expected)
    again = MDAnalysis.Universe(atoms, theirs.trajectory.filename, format=interop.KinemaReader, in_memory=True)
    assert again.trajectory.n_frames == theirs.trajectory.n_frames


# -- what goes wrong -----------------------------------------------------------------------------------------------


def test_an_error_is_never_the_end_of_the_trajectory(tmp_path: Path) -> None:
    """MDAnalysis' base class ends a loop at any OSError or EOFError, of which Kinema's are some."""
    path = tmp_path / "damaged.xtc"
    write_xtc(path, random_walk(60, 40))
    content = bytearray(path.read_bytes())
    whole = kn.open(path, stored=False)
    whole.scan()
    offsets, _ = whole.core.extents(0)
    # of frame 40 without its head
    content[int(offsets[40]) + 92 : int(offsets[41])] = bytes(int(offsets[41] - offsets[40]) - 92)
    reader = interop.KinemaReader(path, stored=False)
    path.write_bytes(content)
    with pytest.raises(kn.CorruptFileError, match="has changed since it was opened"):
        [ts.frame for ts in reader]
    reader = interop.KinemaReader(path, stored=False)
    seen = []
    with pytest.raises(kn.CorruptFileError) as caught:
        seen.extend(ts.frame for ts in reader)
    assert 0 < caught.value.frame < 60
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(kn.Error) as cut:
        [ts.frame for ts in reader]
    assert isinstance(cut.value, (EOFError, ValueError))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.xtc"):
        interop.KinemaReader(tmp_path / "none.xtc")
    (tmp_path / "empty.dcd").touch()
    with pytest.raises(EOFError):
        kinema_universe(datafiles.PSF, str(tmp_path / "empty.dcd"))
    write_dcd(tmp_path / "header.dcd", np.zeros((0, 5, 3), dtype=np.float32))
    with pytest.raises(kn.ArgumentError, match="has no frames"):
        interop.KinemaReader(tmp_path / "header.dcd")
    with pytest.raises(kn.UnsupportedFormatError):
        interop.KinemaReader(datafiles.PSF)
    with pytest.raises(kn.Error):
        interop.KinemaReader(datafiles.XTC, format="DCD")


def test_an_incomplete_last_frame(tmp_path: Path) -> None:
    path = tmp_path / "cut.xtc"
    write_xtc(path, random_walk(10, 40))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(kn.TruncatedFileError):
        interop.KinemaReader(path, stored=False, on_truncated="error")
    with pytest.warns(kn.Note, match="frame 9, byte .*left out"):
        reader = interop.KinemaReader(path, stored=False)
    assert [ts.frame for ts in reader] == list(range(9))


# -- pickling and processes ----------------------------------------------------------------------------------------


def test_pickled_at_its_frame(both: Any) -> None:
    universe = both[0]
    universe.trajectory[3]
    universe.atoms[0].position = [1, 2, 3]
    copy = pickle.loads(pickle.dumps(universe))
    assert copy.trajectory.frame == 3
    np.testing.assert_array_equal(copy.atoms.positions, universe.atoms.positions)
    np.testing.assert_array_equal(copy.trajectory.next().positions, universe.trajectory[4].positions)


def test_unpickling_opens_no_file(tmp_path: Path) -> None:
    path = shutil.copy(datafiles.DCD, tmp_path)
    stored = pickle.dumps(interop.KinemaReader(path, stored=False))
    Path(path).unlink()
    reader = pickle.loads(stored)
    with pytest.raises(FileNotFoundError):
        reader[1]


def _centre(universe: Any, frame: int) -> Any:
    universe.trajectory[frame]
    return universe.atoms[:100].center_of_geometry(), universe.trajectory._workers


def test_in_processes_of_a_pool() -> None:
    universe = kinema_universe(datafiles.PSF, datafiles.DCD)
    expected = [_centre(universe, frame)[0] for frame in (4, 50, 97)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.starmap(_centre, [(universe, frame) for frame in (4, 50, 97)])
    np.testing.assert_array_equal([centre for centre, _ in found], expected)
    # they share the cores
    assert [workers for _, workers in found] == [1, 1, 1]


def test_copies_are_independent() -> None:
    universe = kinema_universe(datafiles.PSF, datafiles.DCD, dt=2.0, time_offset=1.0)
    universe.trajectory[5]
    copy = universe.copy()
    assert (copy.trajectory.frame, copy.trajectory.time) == (5, universe.trajectory.time)
    copy.trajectory[9]
    assert universe.trajectory.frame == 5


# -- analyses ------------------------------------------------------------------------------------------------------


def _radius(group: Any) -> Any:
    return group.radius_of_gyration()


@pytest.mark.parametrize(("both", "backend"), each(["dcd", "xtc"], ["serial", "multiprocessing"]), indirect=["both"])
def test_analyses_of_mdanalysis(backend: str, both: Any) -> None:
    results = []
    for universe in both:
        group = universe.select_atoms("protein and name CA")
        run: dict[str, Any] = {"backend": backend} | ({"n_workers": 2} if backend != "serial" else {})
        found = [
            rms.RMSD(universe, select="protein and name CA").run(step=2, **run).results.rmsd,
            base.AnalysisFromFunction(_radius, universe.trajectory, group).run(start=1, **run).results.timeseries,
        ]
        # these cannot be split
        if backend == "serial":
            average = align.AverageStructure(universe, select="protein and name CA", ref_frame=0)
            found += [rms.RMSF(group).run().results.rmsf, average.run().results.positions]
        results.append(found)
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


# -- several files -------------------------------------------------------------------------------------------------


def test_several_files_are_one_trajectory() -> None:
    theirs = MDAnalysis.Universe(datafiles.PSF, [datafiles.DCD, datafiles.DCD2])
    ours = kinema_universe(datafiles.PSF, [datafiles.DCD, datafiles.DCD2])
    assert isinstance(ours.trajectory, interop.KinemaReader)
    assert ours.trajectory.filenames == [datafiles.DCD, datafiles.DCD2]
    assert ours.trajectory.n_frames == theirs.trajectory.n_frames
    for frame in (0, 97, 98, 150, -1):
        np.testing.assert_array_equal(ours.trajectory[frame].positions, theirs.trajectory[frame].positions)


def test_several_files_through_their_chain() -> None:
    ours = MDAnalysis.Universe(datafiles.PSF, [datafiles.DCD, datafiles.DCD2], format="KINEMA", stored=False)
    assert all(isinstance(reader, interop.KinemaReader) for reader in ours.trajectory.readers)
    theirs = MDAnalysis.Universe(datafiles.PSF, [datafiles.DCD, datafiles.DCD2])
    for mine, other in zip(ours.trajectory[90:110], theirs.trajectory[90:110], strict=True):
        np.testing.assert_array_equal(mine.positions, other.positions)
        assert mine.frame == other.frame


def test_overlap_as_their_continuous_chain(tmp_path: Path) -> None:
    positions = random_walk(20, 12)
    paths = [str(tmp_path / "one.xtc"), str(tmp_path / "two.xtc")]
    write_xtc(paths[0], positions[:13])
    write_xtc(paths[1], positions[9:], first_step=9)
    whole = interop.KinemaReader(paths, continuous=True, stored=False)
    assert [ts.time for ts in whole] == list(range(20))
    np.testing.assert_allclose(whole.timeseries(), positions, rtol=1e-6)
    assert interop.KinemaReader(paths, stored=False).n_frames == 24


# -- names of formats ----------------------------------------------------------------------------------------------


def test_only_on_request(tmp_path: Path) -> None:
    path = shutil.copy(datafiles.DCD, tmp_path)
    assert not isinstance(MDAnalysis.Universe(datafiles.PSF, path).trajectory, interop.KinemaReader)
    assert isinstance(MDAnalysis.Universe(datafiles.PSF, path, format="KINEMA").trajectory, interop.KinemaReader)
    assert isinstance(
        MDAnalysis.Universe(datafiles.PSF, path, format=interop.KinemaReader).trajectory, interop.KinemaReader
    )


def test_install_and_uninstall(tmp_path: Path) -> None:
    paths = [shutil.copy(path, tmp_path) for path in (datafiles.DCD, datafiles.XTC)]
    before = dict(MDAnalysis._READERS)
    interop.install()
    try:
        interop.install()
        universes = [
            MDAnalysis.Universe(top, path) for top, path in zip((datafiles.PSF, datafiles.GRO), paths, strict=True)
        ]
        assert all(isinstance(universe.trajectory, interop.KinemaReader) for universe in universes)
        # the topology is made from the number of atoms in the trajectory
        assert MDAnalysis.Universe(paths[0], to_guess=()).atoms.n_atoms == 3341
        assert isinstance(MDAnalysis.Universe(datafiles.PSF, paths[0], format="DCD").trajectory, interop.KinemaReader)
    finally:
        interop.uninstall()
    assert before == MDAnalysis._READERS
    interop.uninstall()
    assert before == MDAnalysis._READERS
    assert universes[0].trajectory[97].frame == 97


def test_kinema_opens_its_universe(both: Any) -> None:
    trajectory = kn.open(both[0], stored=False)
    assert trajectory.n_frames == both[0].trajectory.n_frames
    assert trajectory.select("protein and name CA").n_atoms == 214


# -- writers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["xtc", "dcd"])
def test_written_by_the_writer_of_the_ending(ending: str, tmp_path: Path) -> None:
    ours = kinema_universe(datafiles.PSF, datafiles.DCD)
    target = str(tmp_path / f"copy.{ending}")
    with ours.trajectory.Writer(target) as writer:
        for _ in ours.trajectory[:10]:
            writer.write(ours.atoms)
    copy = interop.KinemaReader(target, stored=False)
    np.testing.assert_allclose(
        copy.timeseries(order="fac"), ours.trajectory.timeseries(stop=10, order="fac"), atol=6e-3
    )
    assert copy.dt == pytest.approx(ours.trajectory.dt, rel=1e-6)
    ours.atoms.write(str(tmp_path / f"all.{ending}"), frames="all")
    assert kn.open(tmp_path / f"all.{ending}", stored=False).n_frames == 98
