"""Native contacts: MDAnalysis' values, Best and Hummer's with MDTraj, analytic cases, references, what is refused."""

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import write_dcd
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
contacts = lazy("MDAnalysis.analysis.contacts")
datafiles = lazy("MDAnalysisTests.datafiles")

Contacts = kn.analysis.Contacts
ACIDIC = "(resname ASP GLU) and (name OE* OD*)"
BASIC = "(resname ARG LYS) and (name NH* NZ)"


@pytest.fixture
def line(tmp_path):
    """Two frames of four atoms on a line, in a cell of 20 angstrom: at 0, 3, 7 and 18, and at 0, 4, 7 and 18."""
    rows = np.zeros((2, 4, 3), np.float32)
    rows[0, :, 0], rows[1, :, 0] = [0, 3, 7, 18], [0, 4, 7, 18]
    cells = np.broadcast_to(np.diag([20.0, 30.0, 30.0]), (2, 3, 3)).astype(np.float32)
    write_dcd(tmp_path / "line.dcd", rows, cell=cells)
    return kn.open(tmp_path / "line.dcd", stored=False)


METHODS = [
    ("hard_cut", None),
    ("soft_cut", None),
    ("soft_cut", {"beta": 3.0, "lambda_constant": 1.5}),
    ("radius_cut", None),
    ("radius_cut", {"radius": 6.0}),
]


@pytest.mark.parametrize(("method", "kwargs"), METHODS)
def test_as_mdanalysis(adk, method, kwargs):
    ours, universe = adk
    universe.trajectory[3]
    for words, radius, count_self in [((ACIDIC, BASIC), 6.0, False), (("name CA", "name CA"), 8.0, True)]:
        groups = tuple(universe.select_atoms(one) for one in words)
        given = {"select": words, "method": method, "radius": radius, "kwargs": kwargs}
        found = Contacts(ours, refgroup=groups, count_self=count_self, **given).run(stop=20)
        theirs = contacts.Contacts(universe, refgroup=groups, **given)
        assert found.n_initial_contacts == theirs.n_initial_contacts
        np.testing.assert_allclose(np.sort(found.r0[0]), np.sort(theirs.r0[0][theirs.initial_contacts[0]]), atol=1e-6)
        theirs.run(stop=20)
        np.testing.assert_allclose(found.results.timeseries, theirs.results.timeseries, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(found.results.q[:, 0], found.results.timeseries[:, 1])
        universe.trajectory[3]
    # the frame of the reference has all of its contacts
    assert method == "soft_cut" or kwargs or found.results.q[3] == 1


def test_a_pair_counts_once(adk):
    ours, universe = adk
    ca = universe.select_atoms("name CA")
    given = {"refgroup": (ca, ca), "radius": 8.0, "method": "soft_cut"}
    universe.trajectory[0]
    once = Contacts(ours, "name CA", **given).run(stop=10)
    as_theirs = Contacts(ours, ("name CA", "name CA"), count_self=True, **given).run(stop=10)
    assert 2 * once.n_initial_contacts + 214 == as_theirs.n_initial_contacts
    # a distance of 0 counts 1/2 with a reference distance of 0
    expected = (as_theirs.results.q * as_theirs.n_initial_contacts - 214 / 2) / (2 * once.n_initial_contacts)
    np.testing.assert_allclose(once.results.q, expected, rtol=1e-12)
    assert (once.native[0].pairs[:, 0] != once.native[0].pairs[:, 1]).all()


@pytest.mark.parametrize("pbc", [True, False])
def test_nearest_images_as_mdanalysis(periodic, pbc):
    ours, universe = periodic
    words = ("protein and name CA", "resname SOL WAT and name O OW")
    universe.trajectory[0]
    groups = tuple(universe.select_atoms(one) for one in words)
    words = tuple(group[:400] for group in groups)
    given = {"select": words, "refgroup": words, "radius": 9.0, "pbc": pbc}
    for method in ("soft_cut", "radius_cut"):
        found = Contacts(ours, **given, method=method).run()
        universe.trajectory[0]
        theirs = contacts.Contacts(universe, **given, method=method)
        assert found.n_initial_contacts == theirs.n_initial_contacts
        # their cells are of single precision
        np.testing.assert_allclose(found.results.timeseries, theirs.run().results.timeseries, rtol=0, atol=1e-5)


def test_best_and_hummer_with_mdtraj(adk):
    import mdtraj

    # the recipe of MDTraj's documents: heavy atoms more than three residues apart, within 4.5 angstrom
    ours, universe = adk
    found = Contacts(ours, "not name H*", method="soft_cut", min_separation=4).run(step=7)
    heavy = universe.select_atoms("not name H*")
    theirs = adk.mdtraj_trajectory(heavy)
    i, j = np.triu_indices(len(heavy), 1)
    apart = abs(heavy.resindices[i] - heavy.resindices[j]) > 3
    pairs = np.column_stack([i, j])[apart]
    r0 = mdtraj.compute_distances(theirs[0], pairs)[0]
    near = r0 < 0.45
    r = mdtraj.compute_distances(theirs[::7], pairs[near])
    with np.errstate(over="ignore"):
        q = np.mean(1.0 / (1 + np.exp(50 * (r - 1.8 * r0[near]))), axis=1)
    assert found.n_initial_contacts == near.sum()
    np.testing.assert_allclose(found.results.q[:, 0], q, rtol=0, atol=1e-6)


def test_each_residue(adk):
    ours, _ = adk
    given = {"select": "name CA", "method": "soft_cut", "radius": 8.0, "min_separation": 4}
    whole, each = Contacts(ours, **given).run(step=30), Contacts(ours, **given, by="residue").run(step=30)
    residues = ours.atoms.resindices[whole.native[0].pairs]
    names = [one.name for one in each.table().columns[2:]]
    assert len(names) == len(np.unique(residues)) == each.results.q.shape[1] and "MET1" not in names[1:]
    numbers = np.array([(residues == one).any(axis=1).sum() for one in np.unique(residues)])
    # each contact is one of two residues
    np.testing.assert_allclose(each.results.q @ numbers, 2 * len(residues) * whole.results.q[:, 0], rtol=1e-12)


def test_several_references(adk):
    ours, universe = adk
    ends = []
    for frame in (0, -1):
        copy = MDAnalysis.Universe(universe.filename, ours.paths[0])
        copy.trajectory[frame]
        ends.append((copy.select_atoms("name CA"),) * 2)
    given = {"method": "radius_cut", "radius": 8.0}
    found = Contacts(ours, "name CA", refgroup=ends, **given).run()
    theirs = contacts.q1q2(universe, "name CA", radius=8.0)
    pairs = [len(one.distances) for one in found.native]
    assert found.results.timeseries.shape == theirs.run().results.timeseries.shape == (98, 3)
    for column, frame in ((1, 0), (2, -1)):
        alone = Contacts(ours, "name CA", ref_frame=frame, **given).run()
        np.testing.assert_array_equal(found.results.q[:, column - 1], alone.results.q[:, 0])
        n = pairs[column - 1]
        expected = (theirs.results.timeseries[:, column] * (2 * n + 214) - 214) / (2 * n)
        np.testing.assert_allclose(found.results.q[:, column - 1], expected, atol=1e-6)
    assert [one.name for one in found.table().columns] == ["frame", "time", "q1", "q2"]


def test_on_a_line(line):
    for given, expected in [
        # 0-1 of 3, 0-3 of 2 and 1-2 of 4 angstrom
        ({"radius": 4.0}, [1, 2 / 3]),
        ({"radius": 4.0, "method": "radius_cut"}, [1, 1]),
        ({"radius": 4.0, "pbc": False}, [1, 0.5]),
        ({"radius": 4.0, "minimum_image": False}, [1, 0.5]),
        ({"radius": 3.0, "ref_frame": 1}, [0.5, 1]),
        ({"radius": 3.0, "select": [0], "other": [1, 3]}, [1, 0.5]),
        ({"radius": 3.0, "reference": line.read(1)[0].astype(float)}, [0, 1]),
    ]:
        with collected():
            found = Contacts(line, **given).run().results.q[:, 0]
        np.testing.assert_allclose(found, expected, rtol=1e-15, err_msg=str(given))
    soft = Contacts(line, radius=2.0, method="soft_cut", kwargs={"lambda_constant": 1.0}).run()
    np.testing.assert_allclose(soft.results.q, 0.5, rtol=1e-12)


def test_transforms_apply_to_the_reference(line, tmp_path):
    # in the cell the last atom is at 2, within 4 angstrom of three others
    rows = line.read()
    rows[:, 3, 0] = 22
    write_dcd(tmp_path / "out.dcd", rows, cell=np.broadcast_to(np.diag([20.0, 30.0, 30.0]), (2, 3, 3)).astype("f4"))
    outside = kn.open(tmp_path / "out.dcd", stored=False)
    given = {"radius": 4.0, "pbc": False, "method": "radius_cut"}
    assert Contacts(outside, **given).n_initial_contacts == 2
    wrapped = outside.with_transform(kn.transforms.wrap())
    for reference in (None, outside.paths[0], outside):
        assert Contacts(wrapped, reference=reference, **given).n_initial_contacts == 4


def test_hard_cut_notes_soft_cut(line):
    with pytest.warns(kn.Note, match="about half.*soft_cut"):
        found = Contacts(line, radius=4.0)
    assert len(found.notes) == 1
    assert not Contacts(line, radius=4.0, method="radius_cut").notes


def test_a_position_that_is_none_is_an_error_with_its_frame(damaged):
    with pytest.raises(kn.CorruptFileError, match=r"frame 2.*position of atom 4 \(counted from 1\) is not finite"):
        Contacts(damaged, radius=50.0, method="radius_cut").run()


def test_refused(line):
    group = np.zeros((4, 3))
    for given, message in [
        ({"radius": 1.0}, "no native contact within radius=1 angstrom"),
        ({"radius": 0.0}, "radius is a finite number above 0, found 0"),
        ({"radius": np.nan}, "radius is a finite number above 0, found nan"),
        ({"method": "soft"}, "one of 'hard_cut', 'soft_cut', 'radius_cut', found 'soft'"),
        ({"kwargs": {"beta": 5.0}}, "kwargs of hard_cut are none, found 'beta'"),
        ({"method": "soft_cut", "beta": -1.0}, "beta is a finite number above 0"),
        ({"min_separation": -1}, "min_separation is a whole number"),
        ({"min_separation": 2, "radius": 4.0}, "topology"),
        ({"select": ([0], [1]), "other": [2]}, "pair of groups already"),
        ({"refgroup": (group, group), "ref_frame": 1}, "refgroup= excludes"),
        ({"refgroup": "protein"}, "pair of AtomGroups"),
        ({"refgroup": ("protein", "protein")}, "takes AtomGroups or arrays, found str"),
        ({"refgroup": (group[:2], group)}, "has 2 atoms, expected 4"),
        ({"by": "atom"}, "by"),
    ]:
        with pytest.raises(kn.ArgumentError, match=message):
            Contacts(line, **given)


def share_within(r, r0, slack=1.0):
    return float(np.mean(r <= slack * r0))


def test_a_function_as_mdanalysis(adk, tmp_path):
    ours, universe = adk
    universe.trajectory[3]
    groups = tuple(universe.select_atoms(one) for one in (ACIDIC, BASIC))
    given = {"select": (ACIDIC, BASIC), "method": share_within, "radius": 6.0, "kwargs": {"slack": 1.2}}
    theirs = contacts.Contacts(universe, refgroup=groups, **given)
    theirs.run(stop=20)
    for kwargs in ({}, {"workers": 3}, {"runner": "processes", "workers": 2}, {"out": tmp_path / "q.h5"}):
        universe.trajectory[3]
        found = Contacts(ours, refgroup=groups, **given).run(stop=20, **kwargs)
        np.testing.assert_allclose(np.asarray(found.results.timeseries), theirs.results.timeseries, rtol=0, atol=1e-12)
    found.save(tmp_path / "q.csv")
    of_residues = Contacts(ours, (ACIDIC, BASIC), radius=6.0, by="residue").run(stop=5)
    by_function = Contacts(ours, (ACIDIC, BASIC), radius=6.0, by="residue", method=share_within).run(stop=5)
    np.testing.assert_array_equal(by_function.results.q, of_residues.results.q)
    with pytest.raises(kn.ArgumentError, match="must return a number for the contacts of a frame"):
        Contacts(ours, (ACIDIC, BASIC), radius=6.0, method=lambda r, r0: r).run(stop=1)


def test_a_checkpoint_of_a_function_is_of_its_arguments(adk):
    def identity(**given):
        made = Contacts(adk[0], (ACIDIC, BASIC), method=share_within, **{"radius": 6.0, **given})
        _, (_, _, arguments) = made._kernel().__reduce__()
        return arguments["adapter"].identity()

    first, *others = (
        identity(**given)
        for given in ({}, {"kwargs": {"slack": 1.1}}, {"radius": 5.0}, {"ref_frame": 3}, {"by": "residue"})
    )
    assert first == identity()
    assert all(other != first for other in others)
