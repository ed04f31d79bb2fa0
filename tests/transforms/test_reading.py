"""Frames of a trajectory with transforms: the same values by whatever way they are read."""

import pickle

import numpy as np
import pytest

import kinema as kn
from kinema import _core

CA = "tests/data/golden/ca.dcd"


@pytest.fixture(scope="module")
def traj():
    return kn.open(CA, stored=False)


@pytest.fixture(scope="module")
def aligned(traj):
    return traj.with_transform(kn.transforms.superpose(list(range(0, 100, 3))))


@pytest.fixture(scope="module")
def positions(aligned):
    return aligned.read(workers=1)


def test_read_blocks_frames_and_any_choice_of_atoms_give_the_same_bits(traj, aligned, positions):
    assert np.abs(positions - traj.read()).max() > 0.1, "something was moved"
    blocks = np.concatenate([block.positions for block in aligned.blocks(memory="18 MiB")])
    np.testing.assert_array_equal(blocks, positions)
    np.testing.assert_array_equal([frame.positions for frame in aligned], positions)
    for workers in (1, 2, 3, 7):
        np.testing.assert_array_equal(aligned.read(workers=workers), positions)
    # atoms beside those that are superposed, in any order, some twice; frames likewise
    atoms, frames = [200, 1, 2, 1, 0], [5, 0, 13, 5]
    np.testing.assert_array_equal(aligned.read(frames, atoms), positions[frames][:, atoms])
    np.testing.assert_array_equal(aligned[9].positions, positions[9])
    np.testing.assert_array_equal(aligned.read(dtype="float64"), positions)


def test_views_and_pickles_of_views_keep_the_transforms(aligned, positions):
    view = aligned[3::2]
    np.testing.assert_array_equal(view.read(), positions[3::2])
    again = pickle.loads(pickle.dumps(view))
    np.testing.assert_array_equal(again.read(), positions[3::2])
    assert again.transforms == aligned.transforms
    assert aligned.transforms[0].startswith("superpose(")
    assert aligned.transforms[0] in repr(again)


def test_a_trajectory_without_transforms_is_not_changed_by_one_with(traj, aligned):
    assert traj.transforms == ()
    assert not traj.same_frames(aligned)
    assert aligned.same_frames(aligned[:])
    np.testing.assert_array_equal(traj.times, aligned.times)


def test_transforms_come_one_after_the_other(traj, positions):
    first, second = kn.transforms.superpose(list(range(0, 100, 3))), kn.transforms.fit(mode="trans")
    one = traj.with_transform(first).with_transform(second)
    both = traj.with_transform(first, second)
    np.testing.assert_array_equal(one.read(), both.read())
    assert one.same_frames(both)
    # the centre of all atoms is that of the first frame
    centres = both.read().astype(np.float64).mean(axis=1)
    np.testing.assert_allclose(centres, np.broadcast_to(centres[0], centres.shape), atol=1e-4)


def test_rmsf_with_align_has_the_bits_of_rmsf_of_superposed_frames(traj):
    sugar = kn.analysis.RMSF(traj, align="reference").run(runner="serial").results
    moved = traj.with_transform(kn.transforms.superpose())
    with pytest.warns(kn.Note, match="nothing was superposed"):
        plain = kn.analysis.RMSF(moved).run(runner="threads", workers=3).results
    np.testing.assert_array_equal(sugar.rmsf, plain.rmsf)
    np.testing.assert_array_equal(sugar.mean_positions, plain.mean_positions)


def test_analyses_with_and_without_a_transform_of_their_own_have_the_results_of_each_alone(traj):
    make = (
        lambda: kn.analysis.RMSF(traj, align="reference"),
        lambda: kn.analysis.RMSF(traj, align="reference", align_select=[1, 2, 3, 4]),
        lambda: kn.analysis.RadiusOfGyration(traj, weights=None),
    )
    alone = [one().run(workers=2).results.values for one in make]
    together = [one() for one in make]
    kn.run(together, workers=2)
    for one, values in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one.results.values, values)


def test_a_plan_names_the_transforms(traj, aligned):
    (own,) = aligned.core.transforms
    job = (_core.Kernel("rmsf", traj.n_atoms, atoms=np.arange(3, dtype=np.uint32)), [own])
    plan = _core.Plan(aligned.core, aligned.choose(), [job])
    assert f"\ntransforms: {own.label}\ntransforms of single analyses: {own.label}" in plan.explain()
    assert "transforms" not in _core.Plan(traj.core, traj.choose(), [(job[0], [])]).explain()


def test_what_is_no_transform_is_refused(traj):
    with pytest.raises(kn.ArgumentError, match="a function, found 3"):
        traj.with_transform(3)
    with pytest.raises(kn.ArgumentError, match="mode must be"):
        kn.transforms.superpose(mode="both")
    with pytest.raises(kn.ArgumentError, match="has no argument colour"):
        _core.Transform("superpose", 3, atoms=np.arange(3, dtype=np.uint32), reference=np.eye(3), colour=1)
    with pytest.raises(kn.ArgumentError, match="no transform is named"):
        _core.Transform("shake", 3)
