"""Kinema's transforms as transformations of MDAnalysis, on its readers and on ours, and Universes that have them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema import transforms
from kinema.base.errors import ArgumentError
from kinema.testing.h5md_files import add_box, add_element, particles_all
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
rms = lazy("MDAnalysis.analysis.rms")
transformations = lazy("MDAnalysis.transformations")
datafiles = lazy("MDAnalysisTests.datafiles")
interop = lazy("kinema.interop.mdanalysis")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
]

CELL = np.array([[31.0, 0.0, 0.0], [11.0, 29.0, 0.0], [-7.0, 5.0, 23.0]])
N_FRAMES = 9
# molecules of 3 atoms in a row
BONDS = [(atom, atom + 1) for atom in range(30) if atom % 3 < 2]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Molecules that walk through the cell, each atom put into it by itself."""
    rng = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("walk") / "walk.trr"
    places = np.repeat(rng.random((10, 3)), 3, axis=0) + 0.04 * rng.random((30, 3))
    steps = np.repeat(rng.uniform(-0.2, 0.2, (N_FRAMES, 10, 3)), 3, axis=1)
    with kn.Writer(path, 30) as writer:
        for reduced in places + np.cumsum(steps, axis=0):
            writer.write(reduced % 1.0 @ CELL, velocities=reduced, cell=CELL)
    return path


def loaded(path: Any, reader: Any = None, **options: Any) -> Any:
    universe = MDAnalysis.Universe.empty(30, n_residues=10, atom_resindex=np.repeat(np.arange(10), 3), trajectory=True)
    universe.add_TopologyAttr("names", ["A", "B", "C"] * 10)
    universe.add_TopologyAttr("masses", np.arange(1.0, 31.0))
    universe.add_TopologyAttr("bonds", BONDS)
    names = [str(one) for one in path] if isinstance(path, list) else str(path)
    return universe.load_new(names, format=reader, **options)


def ours() -> list[Any]:
    return [transforms.whole(), transforms.center("name A", weights="mass"), transforms.superpose("name B")]


def expected(path: Any, *stack: Any, **options: Any) -> Any:
    """The positions that Kinema reads from a file."""
    return kn.open(path, loaded(path), stored=False, **options).with_transform(*(stack or ours())).read()


READERS = pytest.mark.parametrize("reader", [None, "KinemaReader"])


@READERS
def test_frames_are_those_of_kinema(walk: Path, reader: str | None) -> None:
    universe, frames = loaded(walk, reader and interop.KinemaReader), expected(walk)
    plain = universe.trajectory.ts.velocities.copy()
    universe.trajectory.add_transformations(*ours())
    assert [repr(one) for one in universe.trajectory.transformations] == [repr(one) for one in ours()]
    assert_allclose(universe.atoms.positions, frames[0], rtol=0, atol=1e-4)
    assert_allclose(universe.trajectory.ts.velocities, plain, rtol=1e-4, atol=1e-4)
    for number in (8, 1, 5, 0):
        assert_allclose(universe.trajectory[number].positions, frames[number], rtol=0, atol=1e-4)
    assert np.abs(universe.trajectory[8].velocities - loaded(walk).trajectory[8].velocities).max() > 0.1
    if reader is not None:
        # read in blocks, by the threads of the reader, with the same bits
        assert_array_equal([ts.positions.copy() for ts in universe.trajectory], frames)
        assert_array_equal(universe.trajectory.timeseries(order="fac"), frames)
        assert universe.trajectory.kinema_trajectory.transforms == tuple(one.label for one in ours())
    with pytest.raises(ValueError, match="Can't add transformations again"):
        universe.trajectory.add_transformations(transforms.whole())
    _ = universe.trajectory[3]
    # a copy, one that was pickled, and what Kinema opens of it
    for again in (universe.copy(), pickle.loads(pickle.dumps(universe))):
        assert_allclose(again.trajectory.ts.positions, frames[3], rtol=0, atol=1e-4)
        assert_allclose(again.trajectory[2].positions, frames[2], rtol=0, atol=1e-4)
    assert_array_equal(kn.open(universe, stored=False).read(), frames)


@READERS
def test_mixed_with_those_of_mdanalysis_in_their_order(walk: Path, reader: str | None) -> None:
    def stack(universe: Any, whole: Any, center: Any) -> list[Any]:
        lifted = transformations.translate([50.0, 0.0, -3.0])
        reference = loaded(walk).atoms
        return [whole, lifted, center, transformations.fit_rot_trans(universe.atoms, reference, weights="mass")]

    def frames(universe: Any) -> Any:
        return [ts.positions.copy() for ts in universe.trajectory]

    universe, theirs = loaded(walk, reader and interop.KinemaReader), loaded(walk)
    atoms = theirs.atoms
    wrap = transformations.wrap(atoms, compound="residues")
    theirs.trajectory.add_transformations(*stack(theirs, transformations.unwrap(atoms), wrap))
    wrap = transforms.wrap(compound="residues", ur="tric")
    universe.trajectory.add_transformations(*stack(universe, transforms.whole(), wrap))
    assert len(universe.trajectory.transformations) == 4
    assert_allclose(frames(universe), frames(theirs), rtol=0, atol=1e-3)
    named = r"translate, fit_rot_trans; give kinema.transforms.function\(f\), kinema.transforms.superpose\(...\) to"
    with pytest.raises(ArgumentError, match=named):
        kn.open(universe)


def test_on_a_solvated_protein() -> None:
    stack = [transforms.whole("protein"), transforms.center("protein"), transforms.wrap(compound="residues", ur="tric")]
    universe = MDAnalysis.Universe(datafiles.TPR, datafiles.XTC, transformations=stack)
    found = kn.open(datafiles.XTC, datafiles.TPR, stored=False).with_transform(*stack).read([2], fields=["positions"])
    apart = (universe.trajectory[2].positions - found["positions"][0]) @ np.linalg.inv(found["cells"][0])
    # the centre of a residue may be on either side of a face
    assert_allclose(apart, np.round(apart), rtol=0, atol=2e-6)
    assert np.count_nonzero(np.abs(apart).max(axis=1) > 0.5) <= 6


def test_nojump_is_exact_in_any_order_with_our_reader(walk: Path) -> None:
    frames = expected(walk, transforms.whole(), transforms.nojump())
    universe = loaded(walk, interop.KinemaReader)
    universe.trajectory.add_transformations(
        transforms.whole(), transforms.nojump(), transformations.translate([0.0, 0.0, 0.0])
    )
    for again in (universe, universe.copy(), pickle.loads(pickle.dumps(universe))):
        for number in (8, 2, 7, 0, 3):
            assert_array_equal(again.trajectory[number].positions, frames[number])
    assert np.abs(np.diff(frames, axis=0)).max() < 15 < np.abs(np.diff(expected(walk, ours()[0]), axis=0)).max()
    # where it would see single frames
    behind = loaded(walk, interop.KinemaReader)
    for other, stack in [
        (loaded(walk), [transforms.nojump()]),
        (behind, [transformations.translate([0.0, 0.0, 0.0]), transforms.nojump()]),
    ]:
        with pytest.raises(ArgumentError, match=r"nojump\(\) must see other frames before one.*KinemaReader"):
            other.trajectory.add_transformations(*stack)
    for one in (transforms.displacement(), transforms.superpose("name B", reference="previous")):
        with pytest.raises(ArgumentError, match=rf"{one.name}\(.*must see other frames before one.*KinemaReader"):
            loaded(walk).trajectory.add_transformations(one)


@pytest.mark.filterwarnings("ignore::kinema.Note")
def test_images_that_a_file_stores_are_those_of_nojump(tmp_path: Path) -> None:
    """Steps of several cells, which nobody could count: the reader reads with images then."""
    rng = np.random.default_rng(3)
    images, wrapped = rng.integers(-3, 4, (N_FRAMES, 30, 3)), rng.random((N_FRAMES, 30, 3)) @ CELL
    steps, cells = np.arange(N_FRAMES), np.array([CELL] * N_FRAMES)
    path = tmp_path / "images.h5md"
    with particles_all(path) as group:
        add_element(group, "position", wrapped, steps=steps, times=steps * 1.0, unit="Angstrom")
        add_element(group, "image", images, steps=steps, times=steps * 1.0)
        add_element(add_box(group), "edges", cells, unit="Angstrom", steps=steps, times=steps * 1.0)
    universe = loaded(path, interop.KinemaReader)
    universe.trajectory.add_transformations(transforms.nojump())
    for again in (universe, universe.copy(), pickle.loads(pickle.dumps(universe))):
        found = [ts.positions.copy() for ts in again.trajectory]
        assert_allclose(found, wrapped + images @ CELL, rtol=0, atol=1e-4)
    assert_array_equal(kn.open(universe, stored=False).read(), found)


@pytest.mark.parametrize("kind", ["chain", "memory", "dcd"])
def test_other_readers_of_mdanalysis(walk: Path, tmp_path: Path, kind: str) -> None:
    frames = expected(walk)
    if kind == "dcd":
        kn.convert(kn.open(walk, stored=False), tmp_path / "walk.dcd")
    universe = loaded({"chain": [walk, walk], "memory": walk, "dcd": tmp_path / "walk.dcd"}[kind])
    if kind == "memory":
        universe.transfer_to_memory()
    universe.trajectory.add_transformations(*ours())
    found = [ts.positions.copy() for ts in universe.trajectory]
    assert_allclose(found, np.concatenate([frames, frames]) if kind == "chain" else frames, rtol=0, atol=1e-4)
    assert_allclose(universe.trajectory[3].positions, frames[3], rtol=0, atol=1e-4)


def test_what_cannot_be_bound_is_refused_by_name(walk: Path) -> None:
    at = loaded(walk)
    _ = at.trajectory[4]
    with pytest.raises(ArgumentError, match=r"is made of frame 0, and the universe is at frame 4; go there"):
        at.trajectory.add_transformations(transforms.superpose("name B"))
    native = loaded(walk, convert_units=False)
    with pytest.raises(ArgumentError, match="convert_units=False"):
        native.trajectory.add_transformations(transforms.whole())
    disordered = loaded(walk)
    with pytest.raises(ArgumentError, match="whole comes before center"):
        disordered.trajectory.add_transformations(transforms.center("name A"), transforms.whole())
    alone = interop.KinemaReader(str(walk))
    with pytest.raises(ArgumentError, match="the time step belongs to no Universe in this process"):
        alone.add_transformations(transforms.whole())


def test_one_transform_of_two_universes(walk: Path) -> None:
    heavy = transforms.center("name A", weights="mass")
    one, other = loaded(walk), loaded(walk, interop.KinemaReader)
    other.add_TopologyAttr("masses", np.arange(30.0, 0.0, -1.0))
    for universe in (one, other):
        universe.trajectory.add_transformations(heavy)
        centers = [universe.select_atoms("name A").center_of_mass() for _ in universe.trajectory]
        assert_allclose(centers, np.broadcast_to(CELL.sum(axis=0) / 2, (N_FRAMES, 3)), atol=1e-4)


def test_some_atoms_of_our_reader(walk: Path) -> None:
    whole = loaded(walk)
    group = whole.atoms[3:12]
    small = MDAnalysis.Merge(group).load_new(str(walk), format=interop.KinemaReader, sub=group.indices)
    small.trajectory.add_transformations(transforms.whole())
    assert_array_equal(small.trajectory[5].positions, expected(walk, transforms.whole())[5, 3:12])


def test_transforms_that_the_reader_was_made_with(walk: Path) -> None:
    first = transforms.superpose([1, 4, 7])
    universe = loaded(walk, interop.KinemaReader, transforms=[first])
    universe.trajectory.add_transformations(transforms.function(lifted))
    frames = expected(walk, first, lifted)
    assert_array_equal([ts.positions.copy() for ts in universe.trajectory], frames)
    assert_array_equal(kn.open(universe, stored=False).read(), frames)
    chained = loaded([walk, walk], "KINEMA", transforms=[first])
    with pytest.raises(ArgumentError, match="reads each of its files with transforms= of its own"):
        kn.open(chained)


def lifted(frame: Any) -> Any:
    frame.positions[:, 2] += 5.0
    return frame


def test_edges_that_do_not_repeat(tmp_path: Path) -> None:
    cell = np.diag([20.0, 20.0, 20.0])
    with kn.Writer(tmp_path / "slab.h5md", 30, boundary=("periodic", "periodic", "none")) as writer:
        writer.write(np.full((30, 3), 25.0), cell=cell)
    universe = loaded(tmp_path / "slab.h5md", interop.KinemaReader)
    universe.trajectory.add_transformations(transformations.translate([1.0, 1.0, 1.0]), transforms.wrap())
    assert_array_equal(universe.atoms.positions, np.broadcast_to(np.float32([6.0, 6.0, 26.0]), (30, 3)))


@pytest.mark.processes
@READERS
def test_workers_of_mdanalysis_and_of_kinema(walk: Path, reader: str | None) -> None:
    universe = loaded(walk, reader and interop.KinemaReader)
    universe.trajectory.add_transformations(*ours())
    alone = rms.RMSF(universe.atoms).run().results.rmsf
    for backend in ({"backend": "multiprocessing", "n_workers": 2}, {"backend": interop.Backend("processes", 2)}):
        done = Positions(universe.atoms).run(**backend, unsupported_backend=True)
        assert_allclose(done.results.timeseries, expected(walk), rtol=0, atol=1e-4)
    assert_allclose(alone, np.sqrt(expected(walk).var(axis=0).sum(axis=1)), rtol=0, atol=1e-4)


def Positions(group: Any) -> Any:  # noqa: N802
    return MDAnalysis.analysis.base.AnalysisFromFunction(positions_of, group)


def positions_of(group: Any) -> Any:
    return group.positions
