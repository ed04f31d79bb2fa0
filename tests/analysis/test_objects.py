"""Analyses as objects: what they print as, and that they pickle; of registered ones see `test_laws`."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import kinema as kn
from kinema.base.printable import html_table


def restored(analysis):
    return pickle.loads(pickle.dumps(analysis))


class Sum(kn.analysis.PythonKernel):
    """The sum of all coordinates."""

    def empty(self):
        return 0.0

    def accumulate(self, partial, block):
        return partial + float(block.positions.sum(dtype=np.float64))

    def merge(self, left, right):
        return left + right

    def finish(self, partial):
        return {"sum": partial}


@pytest.mark.parametrize(
    "make",
    [
        lambda traj: kn.analysis.RMSD(traj, reference=traj[3].positions),
        lambda traj: kn.analysis.from_function(lambda frame: frame.positions.sum(), traj),
        lambda traj: kn.analysis.Custom(traj, Sum()),
    ],
    ids=["rmsd-reference", "function", "custom"],
)
def test_analyses_pickle(small, make):
    expected = make(small).run()
    before, after = restored(make(small)).run(), restored(expected)
    for name in expected.results:
        np.testing.assert_array_equal(before.results[name], expected.results[name])
        np.testing.assert_array_equal(after.results[name], expected.results[name])
    assert repr(after) == repr(expected)
    assert after.timings.frames == 20
    assert after.notes == expected.notes
    assert after.provenance().json() == expected.provenance().json()
    assert len(after.run(step=5).record.frames) == 4
    assert not restored(make(small)).results


def test_results_are_of_the_moment_in_which_the_run_ended(small):
    rmsd = kn.analysis.RMSD(small).run()
    rmsd.record = replace(rmsd.record, date="2001-02-03T04:05:06+00:00")
    assert rmsd.provenance().date == rmsd.report().run["date"] == restored(rmsd).provenance().date == rmsd.record.date
    assert rmsd.run().provenance().date == rmsd.record.date > "2026"


def test_repr(small):
    rmsd = kn.analysis.RMSD(small)
    assert repr(rmsd).startswith("<RMSD of all 15 atoms (select='all', ref_frame=0, ")
    assert repr(rmsd).endswith("): not run yet>")
    assert repr(rmsd.run(step=2)).endswith("): 10 frames>")
    assert repr(kn.analysis.RMSF(small, select=[1])) == "<RMSF of 1 atom (select='1 indices', align=None): not run yet>"


@pytest.mark.parametrize("given", ["a.dcd", None, [1.0]])
def test_what_is_no_trajectory(given):
    makers = [kn.analysis.RMSD, kn.analysis.RMSF, kn.analysis.RadiusOfGyration]
    for make in (*makers, lambda one: kn.analysis.from_function(len, one)):
        with pytest.raises(
            kn.ArgumentError, match=f"takes a Trajectory first, found {type(given).__name__}; kinema.open"
        ):
            make(given)


def test_what_mdanalysis_takes_is_answered_with_what_makes_a_trajectory_of_it():
    import MDAnalysis

    universe = MDAnalysis.Universe.empty(3)
    for given, how in (
        (universe, r"found Universe; kinema.open\(universe\) makes one"),
        (universe.atoms[:2], r"found AtomGroup; kinema.open\(group.universe\) makes one, and select=group names"),
        ("md.xtc", r"found str; kinema.open\('md.xtc'\) makes one"),
    ):
        with pytest.raises(kn.ArgumentError, match=how):
            kn.RMSD(given)


def test_files_in_the_order_of_mdanalysis_are_answered_with_ours(small, tmp_path):
    (tmp_path / "top.psf").write_text("PSF\n")
    for files, how in (
        (
            (tmp_path / "top.psf", small.paths[0]),
            "given as topology, is a trajectory .DCD.: trajectories are the first",
        ),
        (
            ([small.paths[0], tmp_path / "top.psf"],),
            "by its name it is a topology: the trajectory is the first argument",
        ),
    ):
        with pytest.raises(kn.Error, match=how):
            kn.open(*files)


def test_notebooks_show_tables(small):
    rmsd = kn.analysis.RMSD(small)
    assert "none yet" in rmsd.results._repr_html_()
    shown = rmsd.run().results._repr_html_()
    n = small.n_frames
    for name, shape, kind in (("rmsd", (n, 3), "float64"), ("frames", (n,), "int64"), ("time", (n,), "float64")):
        assert f"<td>{name}</td><td>{shape}</td><td>{kind}</td>" in shown
    shown = small.with_transform(kn.transforms.center(weights=None))._repr_html_()
    for name, value in (("format", "DCD"), ("frames", str(n)), ("atoms", "15"), ("transforms", "center")):
        assert f"<td>{name}</td><td>{value}" in shown
    # a name is text, whatever is in it
    assert "<b>" not in html_table("a<b>", [("<b>",)])
