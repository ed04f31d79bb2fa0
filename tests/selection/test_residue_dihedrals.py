"""Which atoms make phi, psi, omega and chi: beside MDAnalysis and MDTraj, caps, gaps, odd names."""

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.model.atom_table import Atoms
from kinema.model.selection.residue_dihedrals import DIHEDRALS, residue_dihedrals, residue_labels
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")


@pytest.fixture(scope="module")
def protein(adk_dcd):
    return MDAnalysis.Universe(adk_dcd.topology, adk_dcd.trajectory)


@pytest.mark.parametrize("name", ["phi", "psi", "omega", "chi1"])
def test_atoms_are_those_of_mdanalysis(protein, name):
    expected = [getattr(residue, f"{name}_selection")() for residue in protein.residues]
    (found,) = residue_dihedrals(Atoms.from_mdanalysis(protein), [name])
    np.testing.assert_array_equal(found.atoms, [group.indices for group in expected if group is not None])
    np.testing.assert_array_equal(found.residues, [i for i, group in enumerate(expected) if group is not None])


@pytest.fixture(scope="module")
def mdtraj_dihedrals(protein):
    import mdtraj

    atoms = Atoms.from_mdanalysis(protein)
    # MDTraj knows the CD1 of isoleucine only
    names = np.where((atoms.names == "CD") & (atoms.resnames == "ILE"), "CD1", atoms.names)
    topology = mdtraj.Topology()
    chain = topology.add_chain()
    for residue in protein.residues:
        added = topology.add_residue(residue.resname, chain)
        for index in residue.atoms.indices:
            topology.add_atom(names[index], mdtraj.element.carbon, added)
    return atoms, topology


@pytest.mark.parametrize("name", DIHEDRALS)
def test_atoms_are_those_of_mdtraj(mdtraj_dihedrals, name):
    import mdtraj

    atoms, topology = mdtraj_dihedrals
    expected = getattr(mdtraj.geometry.dihedral, f"indices_{name}")(topology)
    (found,) = residue_dihedrals(atoms, [name])
    np.testing.assert_array_equal(found.atoms, expected[np.argsort(expected[:, 1], kind="stable")])


def table(residues, **columns):
    """A table of residues, given as (name, number, names of atoms)."""
    resnames, resids, names = zip(
        *((name, number, atom) for name, number, atoms in residues for atom in atoms.split()), strict=True
    )
    return Atoms(len(names), name="made.pdb", names=names, resnames=resnames, resids=resids, **columns)


BACKBONE = "N CA C O"


def atoms_of(atoms, name):
    (found,) = residue_dihedrals(atoms, [name])
    return found.atoms.tolist()


def test_proline_isoleucine_selenium_and_d_residues():
    proline = "N CD CG CB CA C"
    side = table([("PRO", 1, proline), ("ILE", 2, "N CA CB CG2 CG1 CD C"), ("DIL", 3, "N CA CB CG2 CG1 CD1 C")])
    assert atoms_of(side, "chi1") == [[0, 4, 3, 2], [6, 7, 8, 10], [13, 14, 15, 17]]
    assert atoms_of(side, "chi2") == [[4, 3, 2, 1], [7, 8, 10, 11], [14, 15, 17, 18]]
    selenium = table([("MSE", 1, "N CA C CB CG SE CE"), ("SEC", 2, "N CA C CB SE"), ("THR", 3, "N CA C CB CG2 OG1")])
    assert atoms_of(selenium, "chi1") == [[0, 1, 3, 4], [7, 8, 10, 11], [12, 13, 15, 17]]
    assert atoms_of(selenium, "chi2") == [[1, 3, 4, 5]]
    assert atoms_of(selenium, "chi3") == [[3, 4, 5, 6]]
    with pytest.raises(kn.ArgumentError, match="no residue of the selection has the atoms of chi4"):
        residue_dihedrals(selenium, ["chi4"])


def test_residues_without_an_angle_are_noted():
    atoms = table([("MET", 1, f"{BACKBONE} CB CG"), ("ALA", 2, f"{BACKBONE} CB"), ("LYS", 5, f"{BACKBONE} CB CG CD")])
    with collected() as notes:
        phi, chi2 = residue_dihedrals(atoms, ["phi", "chi2"])
    assert phi.atoms.tolist() == [[2, 6, 7, 8]]
    assert chi2.atoms.tolist() == [[12, 15, 16, 17]]
    assert notes == [
        "made.pdb: there is no phi of MET1 (no C before it), LYS5 (no C before it)",
        "made.pdb: there is no chi2 of MET1 (atoms are missing)",
    ]


def test_caps_and_other_molecules():
    ends = [("ACE", 1, "CH3 C O"), ("GLY", 2, BACKBONE), ("NME", 3, "N CH3"), ("CA", 4, "CA"), ("SOL", 5, "OW HW1")]
    atoms = table(ends)
    assert atoms_of(atoms, "phi") == [[1, 3, 4, 5]]
    assert atoms_of(atoms, "psi") == [[3, 4, 5, 7]]
    with pytest.raises(kn.ArgumentError, match="omega"):
        residue_dihedrals(atoms, ["omega"])
    with pytest.raises(kn.ArgumentError, match="it is not a protein"):
        residue_dihedrals(atoms, ["phi"], np.array([9, 10]))


def test_neighbours_by_chain_insertion_and_bond():
    two = [("ALA", 7, BACKBONE), ("ALA", 8, BACKBONE)]
    chains = table([*two, *two], chainIDs=["A"] * 8 + ["B"] * 8)
    assert atoms_of(chains, "phi") == [[2, 4, 5, 6], [10, 12, 13, 14]]
    assert residue_labels(chains, np.array([0, 3])) == ["A:ALA7", "B:ALA8"]
    inserted = table([("ALA", 7, BACKBONE), ("ALA", 7, BACKBONE)], icodes=[""] * 4 + ["A"] * 4)
    assert atoms_of(inserted, "phi") == [[2, 4, 5, 6]]
    assert residue_labels(inserted, np.array([0, 1])) == ["ALA7", "ALA7A"]
    # a ring, numbered with a gap: bonds say what is joined
    bonds = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7), (2, 4), (0, 6)]
    ring = table([("ALA", 7, BACKBONE), ("ALA", 9, BACKBONE)], bonds=bonds)
    assert atoms_of(ring, "phi") == [[6, 0, 1, 2], [2, 4, 5, 6]]
    # bonds of something else alone say nothing of the backbone
    few = table(two, bonds=[(3, 7)])
    assert atoms_of(few, "phi") == [[2, 4, 5, 6]]
    # numbers jump, as by alignment: the bond between both decides, also if a third residue has none
    jumps = [("ALA", 26, BACKBONE), ("ALA", 32, BACKBONE), ("ALA", 33, BACKBONE), ("ALA", 40, BACKBONE)]
    assert atoms_of(table(jumps, bonds=bonds[:7]), "phi") == [[2, 4, 5, 6], [6, 8, 9, 10]]
    assert atoms_of(table(jumps, bonds=[(2, 4)]), "psi") == [[0, 1, 2, 4], [4, 5, 6, 8]]
    assert atoms_of(table(jumps), "phi") == [[6, 8, 9, 10]]
    # known bonds, but not between these two
    broken = table(two, bonds=bonds[:6])
    with pytest.raises(kn.ArgumentError, match="phi"):
        residue_dihedrals(broken, ["phi"])


def test_of_alternate_locations_the_first_is_taken_and_noted():
    atoms = table([("ALA", 1, BACKBONE), ("SER", 2, "N CA CA C CB CB OG OG")])
    with collected() as notes:
        phi, chi1 = residue_dihedrals(atoms, ["phi", "chi1"])
    assert phi.atoms.tolist() == [[2, 4, 5, 7]]
    assert chi1.atoms.tolist() == [[4, 5, 8, 10]]
    assert "made.pdb: atoms of one name several times in SER2, such as alternate locations" in notes[-1]


def test_only_residues_of_the_selection(protein):
    atoms = Atoms.from_mdanalysis(protein)
    # residues that have a CB: no glycine
    chosen = protein.select_atoms("resid 7:12 and name CB")
    phi, psi = residue_dihedrals(atoms, ["phi", "psi"], chosen.indices)
    assert residue_labels(atoms, phi.residues) == ["ALA8", "PRO9", "ALA11"]
    np.testing.assert_array_equal(phi.residues, chosen.residues.ix)
    np.testing.assert_array_equal(phi.residues, psi.residues)


def test_what_is_missing_is_said():
    with pytest.raises(kn.ArgumentError, match="has no names"):
        residue_dihedrals(Atoms(3, resids=[1, 1, 1]), ["phi"])
    with pytest.raises(kn.ArgumentError, match="has no resindices"):
        residue_dihedrals(Atoms(3, names=["N", "CA", "C"]), ["phi"])
    with pytest.raises(kn.ArgumentError, match="found chi6"):
        residue_dihedrals(Atoms(3), ["chi6"])
