"""All readers of a trajectory with transforms get the same values: data sets, MDAnalysis, files, runners."""

from pathlib import Path

import numpy as np
import pytest
from tests.transforms.lifting import lifted

import kinema as kn
from kinema import ml
from kinema.execution.checkpoint.identity_items import items_of_files
from kinema.ml.fingerprint import fingerprint
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
interop = lazy("kinema.interop.mdanalysis")

CA = "tests/data/golden/ca.dcd"
SUPERPOSED = list(range(0, 100, 3))


@pytest.fixture(scope="module")
def traj():
    return kn.open(CA, stored=False)


@pytest.fixture(scope="module")
def stack():
    return kn.transforms.superpose(SUPERPOSED), kn.transforms.function(lifted, [5, 6, 150])


@pytest.fixture(scope="module")
def moved(traj, stack):
    return traj.with_transform(*stack)


@pytest.fixture(scope="module")
def positions(moved):
    return moved.read(workers=1)


def test_data_sets_have_the_same_values_and_say_that_they_are_others(traj, moved, positions):
    frames = ml.FrameDataset(moved[2:])
    batch = frames.read([5, 0, 5], workers=2)
    np.testing.assert_array_equal(batch["positions"], positions[[7, 2, 7]])
    np.testing.assert_array_equal(batch["cell"], moved.read(fields=["positions"])["cells"][[7, 2, 7]])
    chosen = ml.FrameDataset([moved, traj], select=[9, 5]).read([3, 14 + 3])
    np.testing.assert_array_equal(chosen["positions"][0], positions[3][[9, 5]])
    np.testing.assert_array_equal(chosen["positions"][1], traj.read()[3][[9, 5]])
    # statistics of one are not taken for those of the other
    plain, changed, again = (fingerprint(ml.FrameDataset(one)) for one in (traj, moved, moved[:]))
    assert plain != changed == again


def test_mdanalysis_reads_the_same_frames(moved, positions, stack):
    universe = MDAnalysis.Universe.empty(214, trajectory=False)
    universe.load_new(CA, format=interop.KinemaReader, transforms=list(stack))
    np.testing.assert_array_equal([ts.positions.copy() for ts in universe.trajectory], positions)
    np.testing.assert_array_equal(universe.trajectory[4].positions, positions[4])
    np.testing.assert_array_equal(universe.trajectory.timeseries(order="fac"), positions)
    np.testing.assert_array_equal(universe.copy().trajectory[6].positions, positions[6])


@pytest.mark.parametrize("name", ["out.dcd", "out.trr", "out.h5md"])
def test_what_is_converted_is_what_is_read(tmp_path, moved, positions, name):
    made = [str(tmp_path / f"{workers}-{name}") for workers in (1, 3)]
    for workers, out in zip((1, 3), made, strict=True):
        kn.convert(moved, out, workers=workers, verify="all")
    first, second = (Path(out).read_bytes() for out in made)
    assert name.endswith("h5md") or first == second
    for out in made:
        np.testing.assert_allclose(kn.open(out, stored=False).read(), positions, rtol=2e-7, atol=0)
    if name == "out.dcd":
        np.testing.assert_array_equal(kn.open(made[0], stored=False).read(), positions)


def test_frames_of_one_format_are_not_copied_as_they_are(tmp_path, moved, positions):
    xtc = str(tmp_path / "plain.xtc")
    kn.convert(kn.open(CA, stored=False), xtc)
    changed = kn.open(xtc, stored=False).with_transform(lifted)
    again = str(tmp_path / "again.xtc")
    kn.convert(changed, again)
    np.testing.assert_allclose(kn.open(again, stored=False).read(), changed.read(), atol=0.006)
    assert np.abs(changed.read() - kn.open(xtc, stored=False).read()).max() > 1
    h5md = str(tmp_path / "plain.h5md")
    kn.convert(kn.open(CA, stored=False), h5md)
    source = kn.open(h5md, stored=False).with_transform(lifted)
    again = str(tmp_path / "again.h5md")
    kn.convert(source, again)
    np.testing.assert_allclose(kn.open(again, stored=False).read(), source.read(), rtol=2e-7)


def test_units_of_the_file_are_those_of_the_changed_frames(tmp_path, moved, positions):
    trr = str(tmp_path / "native.trr")
    kn.convert(kn.open(CA, stored=False), trr)
    source = kn.open(trr, stored=False).with_transform(kn.transforms.superpose(SUPERPOSED))
    native = source.core.read(source.choose(), native=True)
    stored = kn.open(trr, stored=False)
    np.testing.assert_allclose(native["positions"] * 10, source.read(), rtol=2e-7)
    np.testing.assert_array_equal(native["times"], stored.core.read(stored.choose(), native=True)["times"])
    cells = source.read(fields=["positions"])["cells"]
    np.testing.assert_allclose(native["cells"] * 10, cells, rtol=1e-12)
    # rows of float32 are divided in place; rows of float64, and of fewer atoms, on their way out
    few = np.array(SUPERPOSED[1:], np.uint32)
    for length in (10.0, 20.455):
        scales = (length, 1.0, 1.0, 1.0)
        single, double = (source.core.read(source.choose(), dtype=t, scales=scales) for t in ("float32", "float64"))
        divided = source.read().astype(np.float64) / length
        np.testing.assert_array_equal(double["positions"], divided)
        np.testing.assert_array_equal(single["positions"], divided.astype(np.float32))
        np.testing.assert_array_equal(single["cells"], cells / length)
        some = source.core.read(source.choose(), atoms=few, scales=scales)
        np.testing.assert_array_equal(some["positions"], single["positions"][:, few])


def test_transforms_identify_a_checkpoint_and_are_in_provenance(traj, moved, stack):
    def items(trajectory):
        return [(item.what, item.exact) for item in items_of_files(trajectory)]

    assert items(moved) == items(traj.with_transform(*stack))
    others = (
        traj,
        traj.with_transform(stack[0]),
        traj.with_transform(stack[1], stack[0]),
        traj.with_transform(kn.transforms.superpose(SUPERPOSED[1:]), stack[1]),
        traj.with_transform(kn.transforms.superpose(SUPERPOSED, mode="trans"), stack[1]),
        traj.with_transform(stack[0], kn.transforms.function(lambda frame: frame, [5, 6, 150])),
    )
    for other in others:
        assert items(other) != items(moved)
    with pytest.warns(kn.Note):
        provenance = kn.analysis.RMSF(moved).run()._provenance(None, None)
    assert provenance.parameters["transforms"] == ", then ".join(moved.transforms)
    assert "function(function=lifted" in provenance.parameters["transforms"]


@pytest.mark.processes
def test_the_same_bits_on_runners_of_other_processes(moved, positions):
    view = moved[1:]
    with pytest.warns(kn.Note, match="nothing was superposed"):
        results = [
            kn.analysis.RMSF(view).run(runner=runner, workers=workers).results.rmsf
            for runner, workers in (("serial", 1), ("threads", 7), ("processes", 2), ("dask", 2))
        ]
    for rmsf in results[1:]:
        np.testing.assert_array_equal(rmsf, results[0])


RANKS = """
traj = kn.open(CA, stored=False).with_transform(kn.transforms.superpose(list(range(0, 100, 3))), lambda frame: frame)
done = kn.analysis.RMSF(traj[1:]).run(runner="mpi")
if rank == 0:
    np.testing.assert_array_equal(done.results.rmsf, kn.analysis.RMSF(traj[1:]).run(runner="serial").results.rmsf)
    print("same bits")
"""


@pytest.mark.processes
def test_the_same_bits_on_ranks(mpi, tmp_path):
    assert "same bits" in mpi.compute(2, f"CA = {str(Path(CA).resolve())!r}\n{RANKS}", tmp_path)
