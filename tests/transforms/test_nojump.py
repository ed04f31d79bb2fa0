"""`nojump` on known walks: any worker, parts, kills, selected frames, structures, stored images."""

from __future__ import annotations

import os
import signal
import sys
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema import _core, transforms
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.execution.run import run
from kinema.model.atom_table import Atoms
from kinema.model.selection.frames import FrameSelection
from kinema.testing.h5md_files import add_box, add_element, particles_all
from kinema.testing.programs.children import start_child
from kinema.transforms.first_passes.kinds import JumpCounts
from kinema.transforms.first_passes.making import stations_of
from kinema.transforms.pbc_words import Asked

CELL = np.array([[31.0, 2.0, 1.0], [11.0, 29.0, 3.0], [-7.0, 5.0, 23.0]])
# of the files of a chain
PARTS = (301, 256, 1443)
N_FRAMES, N_ATOMS = sum(PARTS), 9


def walk(seed=24, longest=0.3):
    """Reduced coordinates of a walk and a cell that changes from frame to frame."""
    rng = np.random.default_rng(seed)
    cells = CELL * (1 + 0.03 * np.sin(np.arange(N_FRAMES)))[:, None, None]
    steps = rng.uniform(-longest, longest, (N_FRAMES, N_ATOMS, 3))
    steps[:, ::2] += 0.05
    steps[0] = rng.uniform(0.0, 1.0, (N_ATOMS, 3))
    return np.cumsum(steps, axis=0), cells


def write(path, wrapped, cells, first=0):
    numbers = np.arange(first, first + len(wrapped))
    with kn.Writer(path, wrapped.shape[1], overwrite=True) as writer:
        writer.write(wrapped @ cells[numbers], cell=cells[numbers], step=numbers, time=numbers.astype(float))
    return path


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """The walk, the images that its atoms were wrapped by, and files that have it wrapped into the cell."""
    folder = tmp_path_factory.mktemp("walk")
    reduced, cells = walk()
    images = np.floor(reduced).astype(int) - np.floor(reduced[0]).astype(int)
    paths, first = [], 0
    for number, length in enumerate(PARTS):
        paths.append(write(folder / f"{number}.trr", reduced[first : first + length] % 1.0, cells, first))
        first += length
    return images, cells, [str(path) for path in paths]


@pytest.fixture(autouse=True)
def many_stations(monkeypatch):
    monkeypatch.setattr(JumpCounts, "least", 32)


def opened(paths, **options):
    return kn.open(paths, stored=False, **options)


def images_of(unwrapped, traj):
    cells = traj.read(fields=["positions"])["cells"]
    by = np.einsum("fax,fxe->fae", unwrapped.read().astype(float) - traj.read(), np.linalg.inv(cells))
    assert_allclose(by, np.round(by), rtol=0, atol=1e-4)
    return np.round(by).astype(int)


def counted_jumps(traj, options):
    return stations_of(JumpCounts(traj, traj.select(None)), options)


def same_jumps(one, other):
    assert (one.every, one.longest, one.frame, one.frames) == (other.every, other.longest, other.frame, other.frames)
    assert_array_equal(one.sums, other.sums)


class TestCounting:
    def test_images_are_recovered_over_parts_with_stations(self, chain):
        images, _, paths = chain
        traj = opened(paths)
        unwrapped = traj.with_transform(transforms.nojump())
        assert np.abs(images).max() > 30
        assert_array_equal(images_of(unwrapped, traj), images)
        jumps = counted_jumps(traj, {})
        assert jumps.every == 32
        assert_array_equal(jumps.sums, images[::32])
        # of few atoms in any order, of single frames in any order
        order = [1999, 3, 31, 32, 33, 556, 557, 300, 301, 0]
        some = opened(paths).with_transform(transforms.nojump([5, 2]))
        assert_array_equal(some.read(order, [2, 5]), unwrapped.read(order, [2, 5]))
        assert_array_equal(unwrapped.read(slice(None, None, 97)), unwrapped.read()[::97])
        assert_array_equal(some.read([77], [3]), traj.read([77], [3]))

    def test_every_boundary_gives_the_same_sums(self, chain):
        """As after a kill: leaves before and after it come as bytes."""
        traj = opened(chain[2])
        traj.scan()
        frames = FrameSelection(range(N_FRAMES))
        stations = np.arange(0, N_FRAMES, 32, dtype=np.uint32)
        kernel = _core.Kernel("jumps", N_ATOMS, stations=stations)
        jobs = [(kernel, ())]
        plan = _core.Plan(traj.core, frames, jobs, memory=0, workers=2)
        assert plan.n_leaves > 30

        def gathered(start, stop):
            (((_, _, (partial,)),), _) = _core.run_leaves(traj.core, plan, jobs, start, stop)
            return partial.to_bytes()

        def merged(left, right):
            both = kernel.from_bytes(left)
            both.merge(kernel.from_bytes(right))
            return both.to_bytes()

        expected = kernel.from_bytes(gathered(0, plan.n_leaves)).finish()
        assert_array_equal(expected["stations"].view(np.int32), chain[0][::32])
        leaves = [gathered(number, number + 1) for number in range(plan.n_leaves)]
        before = list(accumulate(leaves, merged))
        behind = list(accumulate(reversed(leaves), lambda right, left: merged(left, right)))[::-1]
        for boundary in range(1, plan.n_leaves):
            found = kernel.from_bytes(merged(before[boundary - 1], behind[boundary])).finish()
            for name in expected:
                assert_array_equal(found[name], expected[name], err_msg=f"{name} at {boundary}")

    @pytest.mark.parametrize("runner", ["serial", "threads"])
    def test_any_number_of_workers(self, chain, runner):
        traj = opened(chain[2])
        expected = counted_jumps(traj, {"runner": "serial"})
        for workers in (1, 2, 3, 7) if runner == "threads" else (1,):
            for memory in (None, "6 MiB"):
                options = {"runner": runner, "workers": workers, "memory": memory}
                same_jumps(counted_jumps(traj, options), expected)

    def test_converted_files_are_the_same_for_any_number_of_workers(self, chain, tmp_path):
        unwrapped = opened(chain[2]).with_transform(transforms.nojump())
        for workers in (1, 2, 3, 7):
            kn.convert(unwrapped, tmp_path / f"{workers}.xtc", workers=workers, start=40, step=3)
        written = [(tmp_path / f"{workers}.xtc").read_bytes() for workers in (1, 2, 3, 7)]
        assert written.count(written[0]) == 4
        found = opened(tmp_path / "1.xtc").read()
        assert_allclose(found, unwrapped.read(slice(40, None, 3)), rtol=0, atol=0.006)

    def test_a_frame_without_a_cell_and_positions_that_are_none_are_named(self, tmp_path):
        with kn.Writer(tmp_path / "open.trr", 2) as writer:
            writer.write([[1.0, 1, 1], [2.0, 1, 1]], cell=np.diag([20.0, 20.0, 20.0]), time=0.0)
            writer.write([[1.0, 1, 1], [2.0, 1, 1]], time=1.0)
        with pytest.raises(kn.Error, match=r"open\.trr: TRR frame 1.*no periodic cell"):
            opened(tmp_path / "open.trr").with_transform(transforms.nojump())
        for value, what in ((np.nan, "position of atom 2 .* is not finite"), (1e9, "more than .* cells away")):
            with kn.Writer(tmp_path / "nan.trr", 2, overwrite=True) as writer:
                for frame, x in enumerate([1.0, 2.0, value]):
                    writer.write([[1.0, 1, 1], [x, 1, 1]], cell=np.diag([20.0, 20.0, 20.0]), time=float(frame))
            with pytest.raises(kn.Error, match=rf"nan\.trr: TRR frame 2.*{what}"):
                opened(tmp_path / "nan.trr").with_transform(transforms.nojump())

    def test_a_file_that_has_grown_goes_on_from_its_last_station(self, tmp_path):
        reduced, cells = walk(7)
        path = write(tmp_path / "grows.trr", reduced[:100] % 1.0, cells)
        counted = opened(path).with_transform(transforms.nojump())
        (bound,) = counted.core.transforms
        write(path, reduced[:300] % 1.0, cells)
        traj = opened(path)
        traj.scan()
        grown = traj.with_core(traj.core.with_transforms([bound]))
        assert_array_equal(grown.read(), traj.with_transform(transforms.nojump()).read())

    def test_a_long_step_is_noted_with_its_frame(self, tmp_path):
        reduced, cells = walk(3, longest=0.2)
        reduced[1234:, 4, 1] += 0.45
        path = write(tmp_path / "far.trr", reduced % 1.0, cells)
        with pytest.warns(kn.Note, match=r"moves by 0\.\d+ of the cell in one step, to frame 1234; beyond 0\.5"):
            opened(path).with_transform(transforms.nojump())


@pytest.mark.processes
class TestRunners:
    def test_processes_and_dask(self, chain):
        pytest.importorskip("distributed")
        traj = opened(chain[2])
        expected = counted_jumps(traj, {"runner": "serial"})
        for runner, workers in (("processes", 3), ("dask", 2)):
            same_jumps(counted_jumps(traj, {"runner": runner, "workers": workers}), expected)

    def test_ranks_call_together_and_all_get_the_jumps(self, mpi, chain, tmp_path):
        paths = chain[2]
        expected = opened(paths).with_transform(transforms.nojump()).read([1500, 1999])
        np.save(tmp_path / "expected.npy", expected)
        script = f"""
traj = kn.open({paths!r}, stored=False)
unwrapped = traj.with_transform(kn.transforms.nojump(runner="mpi"))
assert (unwrapped.read([1500, 1999]) == np.load("expected.npy")).all()
say("the same")
"""
        assert mpi.compute(3, script, tmp_path) == "the same\n" * 3


KILLED = """
import sys, time
import kinema as kn
from kinema.testing.h5md_files import add_box, add_element, particles_all
from kinema.transforms.first_passes.kinds import JumpCounts

JumpCounts.least = 32

def slowly(done, total):
    # whoever kills this has the time to
    if done > 200:
        print("at work", flush=True)
        time.sleep(120)

traj = kn.open(sys.argv[2:], stored=False)
if "counting" in sys.argv[1]:
    traj.with_transform(kn.transforms.nojump(
        runner="threads", workers=2, checkpoint=sys.argv[1], checkpoint_interval=0, progress=slowly
    ))
else:
    kn.RMSF(traj.with_transform(kn.transforms.nojump())).run(
        runner="threads", workers=2, checkpoint=sys.argv[1], checkpoint_interval=0, progress=slowly
    )
"""


@pytest.mark.processes
class TestKills:
    @pytest.mark.parametrize("where", ["counting", "analysis"])
    def test_what_was_killed_goes_on(self, chain, tmp_path, where):
        paths, saved = chain[2], tmp_path / f"{where}.ckpt"
        package = str(Path(kn.__file__).parent.parent)
        child = start_child(
            [sys.executable, "-c", KILLED, str(saved), *paths], env={**os.environ, "PYTHONPATH": package}
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "at work\n", child.communicate()
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        traj = opened(paths)
        if where == "counting":
            (done,) = run([JumpCounts(traj, traj.select(None))], checkpoint=saved)
            assert_array_equal(done.results.stations.sums, chain[0][::32])
        else:
            unwrapped = traj.with_transform(transforms.nojump())
            done = kn.RMSF(unwrapped).run(checkpoint=saved)
            assert_array_equal(done.results.rmsf, kn.RMSF(unwrapped).run().results.rmsf)
        assert done.timings.frames_restored > 0
        assert not saved.exists()


class TestSelected:
    def test_jumps_between_selected_frames_alone(self, chain, tmp_path):
        _, cells, paths = chain
        traj = opened(paths)
        for chosen in (slice(100, 900, 3), [1500, 4, 4, 700, 5, 6, 30]):
            numbers = np.unique(np.arange(N_FRAMES)[chosen])
            alone = write(tmp_path / "alone.trr", *_taken(walk()[0], cells, numbers))
            expected = opened(alone).with_transform(transforms.nojump())
            with pytest.warns(kn.Note, match=f"between the {len(numbers)} selected frames of {N_FRAMES} alone"):
                view = traj[chosen].with_transform(transforms.nojump(count="selected"))
            assert_array_equal(view.read(), expected.read()[np.searchsorted(numbers, view.frame_numbers)])
            assert_array_equal(view[3].positions, view.read()[3])
            assert "count='selected'" in view.transforms[0]
            with pytest.raises(
                ArgumentError, match=r"frame 2[:,].*between selected frames alone, of which this is none"
            ):
                view.viewed_trajectory().read([2])
        with pytest.raises(ArgumentError, match="count"):
            transforms.nojump(count="some")

    def test_all_frames_of_a_slice_count(self, chain):
        traj = opened(chain[2])
        whole = traj.with_transform(transforms.nojump()).read()
        assert_array_equal(traj[::100].with_transform(transforms.nojump()).read(), whole[::100])


def _taken(reduced, cells, numbers):
    return reduced[numbers] % 1.0, cells[numbers]


class TestFirst:
    def test_a_structure_that_the_first_frame_is_put_nearest_to(self, chain):
        images, cells, paths = chain
        traj = opened(paths)
        wanted = np.array([[1, 0, -2], [0, 0, 0], [3, 1, 0]])
        structure = traj.read([0])[0].astype(float)
        structure[:3] += wanted @ cells[0] + 0.1
        unwrapped = traj.with_transform(transforms.nojump(first=structure))
        expected = images.copy()
        expected[:, :3] += wanted
        assert_array_equal(images_of(unwrapped, traj), expected)
        some = opened(paths).with_transform(transforms.nojump([2, 0], first=structure))
        assert_array_equal(some.read([1000], [0, 2]), unwrapped.read([1000], [0, 2]))
        with pytest.raises(ArgumentError, match="array has 4 atoms"):
            traj.with_transform(transforms.nojump(first=structure[:4]))
        with pytest.raises(ArgumentError, match="first is a cluster"):
            transforms.nojump(first=transforms.wrap())


class TestStoredImages:
    """Steps of several cells, which nobody could count."""

    CELL = np.array([[31.0, 0.0, 0.0], [11.0, 29.0, 0.0], [-7.0, 5.0, 23.0]])

    def walk(self, n_frames=40):
        rng = np.random.default_rng(2)
        cells = self.CELL * (1 + 0.03 * np.sin(np.arange(n_frames)))[:, None, None]
        images = rng.integers(-3, 4, (n_frames, 5, 3))
        return images, rng.uniform(0, 1, (n_frames, 5, 3)) @ cells, cells

    def h5md(self, path, images, wrapped, cells):
        steps = np.arange(len(wrapped))
        with particles_all(path) as group:
            add_element(group, "position", wrapped, steps=steps, times=steps * 1.0, unit="Angstrom")
            add_element(group, "image", images, steps=steps[: len(images)], times=steps[: len(images)] * 1.0)
            add_element(add_box(group), "edges", cells, unit="Angstrom", steps=steps, times=steps * 1.0)
        return path

    def test_of_h5md(self, tmp_path):
        images, wrapped, cells = self.walk()
        expected = wrapped + images @ cells
        path = self.h5md(tmp_path / "images.h5", images, wrapped, cells)
        with pytest.warns(kn.Note, match=r"images\.h5: images that the file stores are used"):
            unwrapped = opened(path).with_transform(transforms.nojump())
        assert_allclose(unwrapped.read(), expected, rtol=0, atol=1e-4)
        assert_allclose(unwrapped[7].positions, expected[7], rtol=0, atol=1e-4)
        assert_array_equal(unwrapped.read([30, 2], [4, 1]), unwrapped.read()[[30, 2]][:, [4, 1]])
        again = opened(path, unwrap=True)
        assert_array_equal(again.with_transform(transforms.nojump()).read(), unwrapped.read())
        structure = again.read([0])[0] + [2, 0, -1] @ cells[0]
        nearest = opened(path).with_transform(transforms.nojump(first=structure)).read()
        assert_allclose(nearest, expected + ([2, 0, -1] @ cells)[:, None], rtol=0, atol=1e-4)

    def test_images_of_some_frames_are_not_used(self, tmp_path):
        images, wrapped, cells = self.walk()
        path = self.h5md(tmp_path / "some.h5", images[:-3], wrapped, cells)
        with pytest.warns(kn.Note, match=r"not used, and jumps are counted: .*some\.h5: .*no values for row 37"):
            opened(path).with_transform(transforms.nojump())

    def test_images_that_are_no_whole_numbers_are_an_error(self, tmp_path):
        images, wrapped, cells = self.walk()
        path = self.h5md(tmp_path / "half.h5", images + 0.5, wrapped, cells)
        with pytest.raises(kn.Error, match=r"half\.h5: H5MD frame 0: images are not whole numbers"):
            opened(path).with_transform(transforms.nojump()).read()

    @pytest.mark.parametrize("columns", ["x y z ix iy iz", "xu yu zu"])
    def test_of_lammps(self, tmp_path, columns):
        images, wrapped, cells = self.walk(6)
        expected = wrapped + images @ cells
        values = np.concatenate([wrapped, images], axis=2) if "ix" in columns else expected
        with open(tmp_path / "a.lammpsdump", "w") as file:
            for step, (rows, cell) in enumerate(zip(values, cells, strict=True)):
                (lx, _, _), (xy, ly, _), (xz, yz, lz) = cell
                bounds = [
                    (min(0, xy, xz, xy + xz), lx + max(0, xy, xz, xy + xz), xy),
                    (min(0, yz), ly + max(0, yz), xz),
                    (0.0, lz, yz),
                ]
                print(f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{len(rows)}", file=file)
                print("ITEM: BOX BOUNDS xy xz yz pp pp pp", file=file)
                print("\n".join(" ".join(f"{one:.7f}" for one in bound) for bound in bounds), file=file)
                print(f"ITEM: ATOMS id type {columns}", file=file)
                for atom in (3, 0, 4, 1, 2):
                    print(atom + 1, 1, *(f"{x:.6f}" for x in rows[atom, :3]), *map(int, rows[atom, 3:]), file=file)
        with pytest.warns(kn.Note, match="images that the file stores are used"):
            unwrapped = opened(tmp_path / "a.lammpsdump").with_transform(transforms.nojump())
        assert_allclose(unwrapped.read(), expected, rtol=0, atol=2e-4)
        assert_allclose(unwrapped.read([5, 1], [2]), expected[[5, 1]][:, [2]], rtol=0, atol=2e-4)


@pytest.fixture
def molecules(tmp_path):
    """Molecules of three atoms that walk through the cell, each atom put into it by itself; with their bonds."""
    reduced, cells = walk()
    reduced = np.repeat(reduced[:50, ::3], 3, axis=1) + 0.02 * np.arange(N_ATOMS)[:, None]
    path = write(tmp_path / "molecules.trr", reduced % 1.0, cells)
    bonds = np.array([(atom, atom + 1) for atom in range(N_ATOMS) if atom % 3 < 2])
    atoms = Atoms(N_ATOMS, masses=np.arange(1.0, N_ATOMS + 1), bonds=bonds, resindices=np.arange(N_ATOMS) // 3)
    return kn.open(path, atoms, stored=False)


@pytest.mark.parametrize(
    "pbc", ["nojump,mol", "nojump,res", "nojump,cluster", "displacement,cluster", "displacement,mol"]
)
def test_what_a_wrap_moves_by_its_centre_jumps_as_a_whole(molecules, pbc):
    """A command of one atom of each molecule gives it the place that it has in a command of all atoms."""
    asked = Asked(pbc=pbc, cluster_group="of both" if "cluster" in pbc else None)
    asked.check()
    some = [1, 5]

    def read(selected):
        made = asked.transforms(molecules, selected, lambda option, text: molecules.select([0, 3]), {"workers": 1})
        return molecules.with_transform(*made).read(select=some)

    assert_array_equal(read(molecules.select(some)), read(None))


def test_a_broken_reference_is_noted(molecules, tmp_path):
    whole = molecules.with_transform(transforms.whole())
    (reference,) = whole.read([0])
    with collected() as notes:
        whole.with_transform(transforms.nojump(first=reference))
    assert not notes
    reference[4] += molecules[0].cell[0]
    with pytest.warns(kn.Note, match="1 molecule is broken at the faces of the periodic cell after nojump"):
        whole.with_transform(transforms.nojump(first=reference))


@pytest.mark.parametrize("unwrap", [transforms.nojump, transforms.displacement])
def test_groups_of_mixed_images_are_refused(molecules, unwrap):
    """Transforms by centres of groups would mix atoms that were unwrapped with atoms that were not."""
    whole = molecules.with_transform(transforms.whole())
    some, all_of_two = whole.with_transform(unwrap([4, 8])), whole.with_transform(unwrap([3, 4, 5, 6, 7, 8]))
    takers = {
        "wrap": transforms.wrap(compound="molecules"),
        "cluster": transforms.cluster([0, 3]),
        "centers": transforms.centers("residues"),
    }
    for name, taker in takers.items():
        what = f"{name} takes centres of groups of atoms, and {unwrap.__name__}.*moves 1 of the 3 atoms of the group of"
        with pytest.raises(ArgumentError, match=f"{what} atom 4 "):
            some.with_transform(taker)
        assert all_of_two.with_transform(taker).read().shape[0] == 50
    # of which it takes no centre, or moves all
    for fine in (transforms.wrap(), transforms.wrap([0], compound="molecules"), transforms.centers([[4, 8], [0, 1]])):
        assert some.with_transform(fine).read().shape[0] == 50
