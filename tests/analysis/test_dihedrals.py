"""Dihedrals: MDAnalysis' and MDTraj's values by quadruples and by names, cells, angles that are none, tables."""

import numpy as np
import pytest

import kinema as kn
from kinema.model.selection.residue_dihedrals import residue_dihedrals
from kinema.testing import write_dcd


def apart(found, expected):
    """The greatest difference of angles in degrees."""
    return np.abs((found - expected + 180) % 360 - 180).max()


def test_of_quadruples(adk):
    import mdtraj
    from MDAnalysis.analysis.dihedrals import Dihedral

    ours, universe = adk
    groups = [residue.phi_selection() for residue in universe.residues[1:40]]
    expected = Dihedral(groups).run().results.angles
    results = kn.analysis.Dihedrals(ours, quadruples=groups).run().results
    assert apart(results.values, expected) < 2e-4
    quadruples = np.array([group.indices for group in groups])
    assert apart(results.values, np.degrees(mdtraj.compute_dihedrals(adk.mdtraj_trajectory(), quadruples))) < 2e-2
    np.testing.assert_array_equal(results.dihedral, results.values)


@pytest.mark.filterwarnings("ignore::kinema.Note")
def test_by_names(adk):
    import mdtraj
    from MDAnalysis.analysis.dihedrals import Dihedral

    ours, universe = adk
    names = ["phi", "psi", "omega", "chi1", "chi2", "chi3", "chi4", "chi5"]
    analysis = kn.analysis.Dihedrals(ours, **dict.fromkeys(names, True)).run(step=10)
    theirs = adk.mdtraj_trajectory()[::10]
    found = residue_dihedrals(ours.atoms, names)
    assert [one.name for one in found] == names
    start = 0
    for one in found:
        values = analysis.results[one.name]
        assert apart(values, np.degrees(mdtraj.compute_dihedrals(theirs, one.atoms))) < 2e-2
        np.testing.assert_array_equal(analysis.results.values[:, start : start + len(one.atoms)], values)
        start += len(one.atoms)
    assert start == analysis.results.values.shape[1]
    table = analysis.table()
    assert [column.label for column in table.columns[:4]] == [
        "frame",
        "time (ps)",
        "phi ARG2 (degree)",
        "phi ILE3 (degree)",
    ]
    phi = [residue.phi_selection() for residue in universe.residues[1:]]
    assert apart(analysis.results.phi, Dihedral(phi).run(step=10).results.angles) < 2e-4
    assert any("no phi of MET1 (no C before it)" in note for note in analysis.notes)


def test_names_of_some_residues(adk):
    analysis = kn.analysis.Dihedrals(adk.ours, "resid 5:7", psi=True, chi1=True).run(stop=2)
    assert [column.name for column in analysis.table().columns[2:]] == [
        *("psi LEU5", "psi LEU6", "psi GLY7"),
        *("chi1 LEU5", "chi1 LEU6"),
    ]
    assert analysis.results.psi.shape == (2, 3)


def test_nearest_images(periodic):
    rng = np.random.default_rng(7)
    quadruples = np.array([rng.choice(2000, 4, replace=False) for _ in range(200)])
    values = kn.analysis.Dihedrals(periodic.ours, quadruples=quadruples).run().results.values
    bonds = periodic.bonds(*quadruples.T)
    clear = periodic.are_clear(bonds)
    assert clear.mean() > 0.9
    before, axis, after = np.moveaxis(bonds, 2, 0)
    normal, other = np.cross(before, axis), np.cross(axis, after)
    length = np.linalg.norm(axis, axis=-1)
    expected = np.degrees(np.arctan2(length * (before * other).sum(-1), (normal * other).sum(-1)))
    assert apart(values[clear], expected[clear]) < 1e-2


def test_cis_trans_sign_and_a_line(tmp_path):
    import mdtraj

    chain = [[1, 0, 0], [0, 0, 0], [0, 0, 2]]
    # seen along z the last bond is turned clockwise by nothing, a quarter, a half; and it is in line with the axis
    ends = [[1, 0, 2], [0, -1, 2], [-1, 0, 2], [0, 1, 2], [0, 0, 3]]
    write_dcd(tmp_path / "few.dcd", np.array([[*chain, end] for end in ends], np.float32))
    trajectory = kn.open(tmp_path / "few.dcd", stored=False)
    with pytest.warns(kn.Note, match="dihedral angle 1-2-3-4 is not defined in frame 4"):
        results = kn.analysis.Dihedrals(trajectory, quadruples=[[0, 1, 2, 3]]).run().results
    np.testing.assert_allclose(np.abs(results.values[:4, 0]), [0, 90, 180, 90], atol=1e-12)
    assert results.values[1, 0] == -results.values[3, 0]
    assert np.isnan(results.values[4, 0])
    theirs = mdtraj.compute_dihedrals(_mdtraj(trajectory), [[0, 1, 2, 3]])
    assert apart(results.values[:4], np.degrees(theirs[:4])) < 1e-4


def _mdtraj(trajectory):
    import mdtraj

    topology = mdtraj.Topology()
    residue = topology.add_residue("ALL", topology.add_chain())
    for _ in range(trajectory.n_atoms):
        topology.add_atom("C", mdtraj.element.carbon, residue)
    return mdtraj.Trajectory(trajectory.read() / 10, topology)


def test_refused(small, adk):
    dihedrals = kn.analysis.Dihedrals
    for arguments, message in [
        ({}, "found neither"),
        ({"phi": True, "quadruples": [[0, 1, 2, 3]]}, "found quadruples=, phi="),
        ({"phi": True}, "nothing is known of its atoms"),
        ({"select": [1, 2], "quadruples": [[0, 1, 2, 3]]}, "select= chooses residues"),
    ]:
        with pytest.raises(kn.ArgumentError, match=message):
            dihedrals(small, **arguments)
    with pytest.raises(kn.ArgumentError, match="has the atoms of chi5"):
        dihedrals(adk.ours, "resname GLY", chi5=True)


def test_results_in_files(adk, tmp_path):
    h5py = pytest.importorskip("h5py")
    analysis = kn.analysis.Dihedrals(adk.ours, "resid 10:20", phi=True, psi=True).run()
    analysis.save(tmp_path / "angles.csv")
    lines = (tmp_path / "angles.csv").read_text().splitlines()
    head = next(line for line in lines if not line.startswith("#"))
    assert head.split(",")[:3] == ["frame", "time (ps)", "phi GLY10 (degree)"]
    assert len(head.split(",")) == 2 + 22
    analysis.save(tmp_path / "angles.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "angles.npy")[:, 2:], analysis.results.values)
    rows = kn.analysis.Dihedrals(adk.ours, "resid 10:20", phi=True, psi=True).run(out=tmp_path / "rows.h5")
    with h5py.File(tmp_path / "rows.h5") as file:
        np.testing.assert_array_equal(file["dihedrals"], analysis.results.values)
        assert file["dihedrals"].attrs["unit"] == "degree"
    np.testing.assert_array_equal(np.asarray(rows.results.psi), analysis.results.psi)
