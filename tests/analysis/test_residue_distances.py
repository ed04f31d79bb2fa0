"""Least distances of residues: MDTraj's values by scheme, cells, which residues count, what is refused."""

import numpy as np
import pytest

import kinema as kn
from kinema.testing import write_dcd
from kinema.testing.programs.imports import lazy

mdtraj = lazy("mdtraj")

ResidueDistances = kn.analysis.ResidueDistances
CELL = np.array([[50.0, 0.0, 0.0], [12.0, 46.0, 0.0], [-14.0, 11.0, 40.0]])


@pytest.fixture(scope="module")
def in_cell(adk_dcd, tmp_path_factory):
    """Two frames of adenylate kinase in a triclinic cell that is smaller than it."""
    path = tmp_path_factory.mktemp("cell") / "adk.dcd"
    rows = kn.open(adk_dcd.trajectory, stored=False).read([0, 50])
    write_dcd(path, rows, cell=np.broadcast_to(CELL, (2, 3, 3)).astype(np.float32))
    return kn.open(path, topology=adk_dcd.topology, stored=False)


def mdtrajs(trajectory, rows, cells=None):
    made = mdtraj.Trajectory(rows / 10, mdtraj.load_psf(trajectory.topology_name))
    if cells is not None:
        made.unitcell_vectors = cells / 10
    return made


@pytest.mark.parametrize("scheme", ["closest-heavy", "closest", "ca", "sidechain-heavy"])
def test_as_mdtraj(adk, scheme):
    ours, _ = adk
    pairs = np.random.default_rng(3).integers(0, 214, (40, 2))
    glycines = np.flatnonzero([name == "GLY" for name in adk.universe.residues.resnames])
    if scheme == "sidechain-heavy":
        pairs = pairs[~np.isin(pairs, glycines).any(axis=1)]
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    found = ResidueDistances(ours, pairs=pairs, scheme=scheme).run(frames=[0, 40])
    theirs, theirs_pairs = mdtraj.compute_contacts(
        mdtrajs(ours, ours.read([0, 40])), pairs, scheme=scheme, ignore_nonprotein=False
    )
    np.testing.assert_array_equal(found.residue_pairs, theirs_pairs)
    np.testing.assert_allclose(found.results.distances, theirs * 10, rtol=0, atol=1e-4)


def test_all_pairs_are_three_residues_apart(adk):
    ours, _ = adk
    found = ResidueDistances(ours, scheme="ca").run(stop=1)
    theirs, pairs = mdtraj.compute_contacts(mdtrajs(ours, ours.read([0])), scheme="ca")
    np.testing.assert_array_equal(found.residue_pairs, pairs)
    np.testing.assert_allclose(found.results.distances, theirs * 10, rtol=0, atol=1e-4)
    assert found.table().columns[2].name == "MET1-ILE4"
    assert len(ResidueDistances(ours, scheme="ca", min_separation=1).residue_pairs) == 214 * 213 / 2


def test_nearest_images_in_a_triclinic_cell(in_cell):
    pairs = np.random.default_rng(4).integers(0, 214, (60, 2))
    pairs = pairs[abs(pairs[:, 0] - pairs[:, 1]) > 2]
    found = ResidueDistances(in_cell, "not name H*", pairs, "closest").run()
    images = np.stack(np.meshgrid(*[range(-2, 3)] * 3), axis=-1).reshape(-1, 3) @ CELL
    rows, atoms = in_cell.read().astype(float), in_cell.atoms
    heavy = np.char.startswith(atoms.names, "H", 0) == 0
    for (i, j), values in zip(pairs[:12], found.results.distances.T, strict=False):
        first, second = (np.flatnonzero((atoms.resindices == one) & heavy) for one in (i, j))
        for row, value in zip(rows, values, strict=True):
            apart = row[second] - row[first][:, None]
            least = np.linalg.norm(apart[:, :, None] + images, axis=-1).min()
            assert abs(value - least) < 1e-4
    standing = ResidueDistances(in_cell, "not name H*", pairs, "closest", minimum_image=False).run()
    assert (standing.results.values > found.results.values - 1e-9).all()
    assert (standing.results.values > found.results.values + 1).any()


def test_residues_of_different_chains_need_not_be_apart(small, tmp_path):
    atoms = kn.Atoms(15, names=["C"] * 15, resids=np.arange(15) // 3, segids=["A"] * 6 + ["B"] * 9)
    trajectory = kn.open(small.paths[0], topology=atoms, stored=False)
    found = ResidueDistances(trajectory, scheme="closest", min_separation=2).run()
    assert found.residue_pairs.tolist() == [[0, 2], [0, 3], [0, 4], [1, 2], [1, 3], [1, 4], [2, 4]]
    rows = small.read().astype(float)
    apart = rows[:, 6:9, None] - rows[:, None, 12:15]
    np.testing.assert_allclose(
        found.results.distances[:, -1], np.linalg.norm(apart, axis=-1).min(axis=(1, 2)), rtol=1e-12
    )


def test_residues_without_an_atom_of_the_scheme_are_noted(adk):
    with pytest.warns(kn.Note, match="leaves out 20 residues without such atoms: GLY7, GLY10"):
        found = ResidueDistances(adk.ours, scheme="sidechain-heavy")
    assert any("with names in H count as hydrogens" in note for note in found.notes)
    assert len(np.unique(found.residue_pairs)) == 194


def test_a_position_that_is_none_is_an_error_with_its_frame(damaged):
    trajectory = kn.open(
        damaged.paths[0], topology=kn.Atoms(15, names=["C"] * 15, resids=np.arange(15) // 3), stored=False
    )
    with pytest.raises(kn.CorruptFileError, match=r"frame 2.*position of atom 4 \(counted from 1\) is not finite"):
        ResidueDistances(trajectory, scheme="closest").run()


def test_refused(adk, small):
    for given, message in [
        ({"scheme": "nearest"}, "scheme must be one of"),
        ({"pairs": [[0, 214]]}, r"residue 214 \(counted from 0\) of row 0"),
        ({"pairs": [[0, 1, 2]]}, r"shape \(n, 2\)"),
        ({"select": "resid 3"}, "no two residues of the selection are min_separation=3 apart"),
        ({"select": "name N", "scheme": "ca"}, "no residue of the selection has an atom for scheme 'ca'"),
    ]:
        with pytest.raises(kn.ArgumentError, match=message):
            ResidueDistances(adk.ours, **given)
    with pytest.raises(kn.ArgumentError, match="topology"):
        ResidueDistances(small)
