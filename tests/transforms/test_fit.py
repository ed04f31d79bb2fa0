"""Fits on the frame before, and on structures: against MDAnalysis and a loop of our own."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema import transforms
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.cli.in_process import call_kinema
from kinema.testing import random_walk
from kinema.testing.programs.children import start_child
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
transformations = lazy("MDAnalysis.transformations")
datafiles = lazy("MDAnalysisTests.datafiles")

FITTED = "name CA"


@pytest.fixture(scope="module")
def traj():
    return kn.open(datafiles.DCD, datafiles.PSF, stored=False)


@pytest.fixture(scope="module")
def progressive(traj):
    return traj.with_transform(transforms.superpose(FITTED, reference="previous"))


@pytest.fixture
def few_stations(monkeypatch):
    """Stations at every 16th frame of the trajectory."""
    monkeypatch.setattr("kinema.transforms.first_passes.kinds.Rotations.most_bytes", 72 * 10)


def best_rotation(mobile, reference):
    """Kabsch: the rotation that brings `mobile` nearest to `reference`, both centred; for columns."""
    u, _, vt = np.linalg.svd(mobile.T @ reference)
    return vt.T @ np.diag([1.0, 1.0, np.sign(np.linalg.det(vt.T @ u.T))]) @ u.T


def fitted_one_by_one(frames, atoms, weights):
    """The progressive fit by its definition: each frame on the one before, as it was fitted. Rotations beside."""
    fitted, rotations = [frames[0]], [np.eye(3)]
    for frame in frames[1:]:
        centre, to = (np.average(one[atoms], axis=0, weights=weights) for one in (frame, fitted[-1]))
        root = np.sqrt(weights)[:, None]
        rotations.append(best_rotation(root * (frame[atoms] - centre), root * (fitted[-1][atoms] - to)))
        fitted.append((frame - centre) @ rotations[-1].T + to)
    return np.array(fitted), np.array(rotations)


@pytest.mark.parametrize("weights", [None, "mass"])
def test_the_progressive_fit_is_that_of_its_definition(traj, weights):
    atoms = traj.select("name CA CB").indices
    masses = np.ones(len(atoms)) if weights is None else traj.atoms[atoms].masses
    expected, _ = fitted_one_by_one(traj.read().astype(np.float64), atoms, masses)
    moved = traj.with_transform(transforms.superpose("name CA CB", reference="previous", weights=weights))
    assert_allclose(moved.read(), expected, rtol=0, atol=1e-4)
    assert_array_equal(moved.read([0]), traj.read([0]))
    onto_first = traj.with_transform(transforms.superpose("name CA CB", weights=weights)).read()
    assert np.abs(expected - onto_first).max() > 0.1, "it is another fit than that on the first frame"


def test_frames_have_the_same_bits_however_they_are_read(traj, progressive, few_stations):
    every = progressive.read(workers=1)
    run_up = traj.with_transform(transforms.superpose(FITTED, reference="previous"))
    own = progressive.core.transforms[0].arguments["every"], run_up.core.transforms[0].arguments["every"]
    assert own == (1, 16)
    for workers in (1, 2, 3, 7):
        assert_array_equal(run_up.read(workers=workers), every)
    order = [97, 3, 16, 15, 17, 96, 0]
    assert_array_equal(run_up.read(order, [7, 2]), every[order][:, [7, 2]])
    assert_array_equal(np.concatenate([block.positions for block in run_up.blocks("20 MiB")]), every)
    assert_array_equal(pickle.loads(pickle.dumps(run_up[5::7])).read(), every[5::7])
    # of a view all frames of the file count
    view = traj[50:].with_transform(transforms.superpose(FITTED, reference="previous"))
    assert_array_equal(view.read(), every[50:])


def test_stages_before_count(traj):
    def doubled(frame):
        frame.positions[:] = 2 * frame.positions
        return frame

    first = traj.with_transform(transforms.function(doubled))
    moved = first.with_transform(transforms.superpose(FITTED, reference="previous"))
    atoms = traj.select(FITTED).indices
    expected, _ = fitted_one_by_one(first.read(slice(20)).astype(np.float64), atoms, np.ones(len(atoms)))
    assert_allclose(moved.read(slice(20)), expected, rtol=0, atol=2e-4)
    # a transform that needs earlier frames gets them from another transform that needs them too
    again = moved.with_transform(transforms.superpose("name CB", reference="previous"))
    assert_array_equal(again.read([60]), again.read()[[60]])


def test_cell_velocities_and_forces_turn(tmp_path):
    rng = np.random.default_rng(5)
    fields = ["positions", "velocities", "forces"]
    start, cell = rng.normal(size=(9, 3)), np.diag([30.0, 31.0, 32.0])
    with kn.Writer(tmp_path / "t.trr", 9, fields=fields) as writer:
        for number in range(12):
            start = start + 0.1 * rng.normal(size=(9, 3))
            more = {"velocities": rng.normal(size=(9, 3)), "forces": rng.normal(size=(9, 3))}
            writer.write(start, cell=cell, time=float(number), **more)
    plain = kn.open(tmp_path / "t.trr")
    raw = plain.read(fields=fields)
    found = plain.with_transform(transforms.superpose(reference="previous")).read(fields=fields)
    expected, rotations = fitted_one_by_one(raw["positions"].astype(np.float64), np.arange(9), np.ones(9))
    assert_allclose(found["positions"], expected, rtol=0, atol=1e-4)
    for name in ("velocities", "forces", "cells"):
        assert_allclose(found[name], np.einsum("fax,fyx->fay", raw[name], rotations), rtol=0, atol=1e-4)


def test_structures_as_references(traj):
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    reference = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    reference.trajectory[40]
    structure = reference.atoms.positions.copy()
    chosen = universe.select_atoms(FITTED)
    for mode, made in (("rot+trans", transformations.fit_rot_trans), ("trans", transformations.fit_translation)):
        transform = made(chosen, reference.select_atoms(FITTED), weights="mass")
        expected = np.array([transform(ts).positions.copy() for ts in universe.trajectory[:6]])
        for given in (structure, structure[chosen.indices], reference):
            fit = transforms.superpose(FITTED, mode=mode, reference=given, ref_frame=40, weights="mass")
            assert_allclose(traj.with_transform(fit).read(slice(6)), expected, rtol=0, atol=2e-4)


def test_words_for_references(traj):
    first = traj.with_transform(transforms.superpose(FITTED, reference="first"))
    assert_array_equal(first.read([9]), traj.with_transform(transforms.superpose(FITTED)).read([9]))
    # without a rotation the centre of the frame before is that of the first one
    along = traj.with_transform(transforms.superpose(FITTED, mode="trans", reference="previous"))
    assert_array_equal(along.read(), traj.with_transform(transforms.superpose(FITTED, mode="trans")).read())
    with pytest.raises(ArgumentError, match="begins with the first frame"):
        transforms.superpose(FITTED, reference="previous", ref_frame=3)


def test_what_is_not_finite_is_named(tmp_path):
    with kn.Writer(tmp_path / "nan.trr", 3) as writer:
        for number in range(3):
            writer.write([[0, 0, 0], [1, 0, 0], [np.nan if number == 2 else 0, 1, 0]], time=float(number))
    with pytest.raises(kn.Error, match=r"nan\.trr: TRR frame 2.*atom 3 .*not finite"):
        kn.open(tmp_path / "nan.trr").with_transform(transforms.superpose(reference="previous"))


def test_the_command_line(traj, tmp_path):
    out = tmp_path / "out.dcd"
    files = [datafiles.DCD, "-s", datafiles.PSF]
    words = ["convert", *files, "--fit", "progressive", "--fit-group", FITTED, "-o", out, "--quiet"]
    assert call_kinema(*words).returncode == 0
    assert_array_equal(
        kn.open(out).read(), traj.with_transform(transforms.superpose(FITTED, reference="previous")).read()
    )
    words = ["rgyr", *files, "--centers", "residues", "--select", "resname ALA", "-o", tmp_path / "r.csv", "--quiet"]
    assert call_kinema(*words).returncode == 0
    of_centers = kn.analysis.RadiusOfGyration(traj.with_transform(transforms.centers()), "resname ALA").run()
    found = np.genfromtxt(tmp_path / "r.csv", delimiter=",", comments="#", skip_header=0)
    assert_allclose(found[~np.isnan(found).any(axis=1)][:, -1], of_centers.results.values[:, 0], rtol=1e-5)


@pytest.mark.processes
def test_results_have_the_same_bits_on_all_runners(traj, few_stations, tmp_path):
    stack = [transforms.superpose(FITTED, reference="previous"), transforms.centers("residues")]
    moved = traj.with_transform(*stack)
    expected = kn.RMSF(moved).run(runner="serial").results.values
    for how in ({"workers": n} for n in (1, 2, 3, 7)):
        assert_array_equal(kn.RMSF(moved).run(**how).results.values, expected)
    pytest.importorskip("distributed")
    for runner in ("processes", "dask"):
        assert_array_equal(kn.RMSF(moved).run(runner=runner, workers=2).results.values, expected)
    digests = set()
    for number, how in enumerate(({"workers": 1}, {"workers": 3}, {"runner": "processes", "workers": 2})):
        path = tmp_path / f"{number}.xtc"
        kn.convert(moved, path, **how)
        digests.add(hashlib.blake2b(path.read_bytes()).hexdigest())
    assert len(digests) == 1


@pytest.mark.processes
def test_ranks_have_the_same_bits(mpi, traj, tmp_path):
    stack = [transforms.superpose(FITTED, reference="previous"), transforms.centers("residues")]
    np.save(tmp_path / "expected.npy", kn.RMSF(traj.with_transform(*stack)).run(runner="serial").results.values)
    script = f"""
fit = kn.transforms.superpose({FITTED!r}, reference="previous", runner="mpi")
traj = kn.open({datafiles.DCD!r}, {datafiles.PSF!r}, stored=False)
moved = traj.with_transform(fit, kn.transforms.centers("residues"))
found = kn.RMSF(moved).run(runner=kn.runners.MPI(results="all")).results.values
assert (found == np.load("expected.npy")).all()
say("the same")
"""
    assert mpi.compute(3, script, tmp_path) == "the same\n" * 3


KILLED = f"""
import sys, time
import kinema as kn

def slowly(done, total):
    # whoever kills this has the time to
    if done > 40:
        print("at work", flush=True)
        time.sleep(120)

traj = kn.open(sys.argv[2], sys.argv[3], stored=False)
stack = [kn.transforms.superpose({FITTED!r}, reference="previous"), kn.transforms.centers("residues")]
kn.RMSF(traj.with_transform(*stack)).run(
    runner="threads", workers=2, checkpoint=sys.argv[1], checkpoint_interval=0, progress=slowly
)
"""


@pytest.mark.processes
def test_what_was_killed_goes_on(traj, tmp_path):
    saved = tmp_path / "rmsf.ckpt"
    package = str(Path(kn.__file__).parent.parent)
    child = start_child(
        [sys.executable, "-W", "ignore", "-c", KILLED, str(saved), datafiles.DCD, datafiles.PSF],
        env={**os.environ, "PYTHONPATH": package},
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "at work\n", child.communicate()
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    stack = [transforms.superpose(FITTED, reference="previous"), transforms.centers("residues")]
    moved = traj.with_transform(*stack)
    done = kn.RMSF(moved).run(checkpoint=saved)
    assert done.timings.frames_restored > 0
    assert_array_equal(done.results.values, kn.RMSF(moved).run().results.values)


@pytest.mark.parametrize("fitted", [{}, {"mode": "trans"}, {"reference": "previous"}], ids=str)
def test_behind_center_values_are_those_of_two_steps(traj, tmp_path, fitted):
    """A superposition adds the translation in front of it to all atoms, with its own motion."""
    how = {"reference": traj[3].positions} | fitted
    centered = traj.with_transform(transforms.center("resid 1:20", point=[3.1, -70.7, 11.3]))
    kn.convert(centered, tmp_path / "centered.dcd")
    again = kn.open(tmp_path / "centered.dcd", datafiles.PSF, stored=False)
    assert_array_equal(again.read(), centered.read())
    assert not np.array_equal(again.read()[0], traj[0].positions)
    for atoms in (FITTED, None):
        at_once = centered.with_transform(transforms.superpose(atoms, **how))
        in_steps = again.with_transform(transforms.superpose(atoms, **how))
        moved = at_once.read()
        # positions are below 128: a unit in the last place of float32 is at most 8e-6
        assert np.abs(moved).max() < 128
        assert_allclose(moved, in_steps.read(), rtol=0, atol=1.6e-5)
        assert_array_equal(at_once.read(select="resid 3:9"), moved[:, traj.select("resid 3:9").indices])
        assert_array_equal(at_once.read([50, 7]), moved[[50, 7]])
        # one that is between them is not handed the translation
        between = centered.with_transform(transforms.function(lambda frame: frame), transforms.superpose(atoms, **how))
        assert_array_equal(between.read(slice(0, 4)), in_steps.read(slice(0, 4)))


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ([3], "one atom: any rotation fits"),
        ([3, 5], "two atoms"),
        ([0, 1, 2, 4], "4 atoms on a line"),
        ([0, 3, 5], None),
    ],
)
def test_a_fit_that_leaves_a_rotation_free_is_noted(tmp_path: Path, select: list[int], words: str | None) -> None:
    positions = random_walk(5, 6)
    # the first atoms lie on a line in each frame
    for atom in (0, 1, 2, 4):
        positions[:, atom] = positions[:, 0] + np.float32(1.5 * atom) * np.float32([1.0, 2.0, -1.0])
    with collected(), kn.Writer(tmp_path / "a.h5md", 6) as out:
        out.write(positions)
    trajectory = kn.open(tmp_path / "a.h5md")
    with collected() as noted:
        trajectory.with_transform(kn.transforms.superpose(select))
    with collected() as of_translation:
        trajectory.with_transform(kn.transforms.superpose(select, mode="trans"))
    rmsd = kn.analysis.RMSD(trajectory, select).run(runner="serial")
    rmsf = kn.analysis.RMSF(trajectory, align="reference", align_select=select).run(runner="serial")
    for notes in (noted, rmsd.notes, rmsf.notes):
        assert [words in note for note in notes if "fits as well" in note] == ([] if words is None else [True])
    assert not any("fits as well" in note for note in of_translation)
