"""Centres of residues, molecules, segments and groups in place of atoms."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema import transforms
from kinema.base.errors import ArgumentError
from kinema.ml import FrameDataset
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")

pytestmark = pytest.mark.filterwarnings("ignore:.*centres are of atoms where they stand", "ignore:.*masses of")


@pytest.fixture(scope="module")
def solvated():
    """A protein in water: positions, velocities and forces."""
    return kn.open(datafiles.TRR, datafiles.TPR, stored=False)


@pytest.fixture(scope="module")
def universe():
    return MDAnalysis.Universe(datafiles.TPR, datafiles.TRR)


@pytest.fixture(scope="module")
def residues(solvated):
    return solvated.with_transform(transforms.centers("residues", "protein"))


def test_centres_are_those_of_mdanalysis(solvated, universe):
    protein = universe.select_atoms("protein")
    water = universe.select_atoms("resname SOL")[:3000]
    cases = [
        ("residues", "mass", protein, "center_of_mass"),
        ("segments", "geometry", protein, "center_of_geometry"),
        ("molecules", "mass", water, "center_of_mass"),
        ("fragments", "mass", water.select_atoms("prop mass > 0"), "center_of_mass"),
    ]
    for of, weights, group, name in cases:
        traj = solvated.with_transform(transforms.centers(of, group.indices, weights=weights))
        found = traj.read(slice(2))
        for number in range(2):
            universe.trajectory[number]
            expected = getattr(group, name)(compound=of)
            assert found[number].shape == expected.shape
            assert_allclose(found[number], expected, rtol=0, atol=1e-4)


def test_the_table_of_centres_is_that_of_residues(residues, universe):
    protein = universe.select_atoms("protein")
    assert residues.n_atoms == len(protein.residues)
    assert_array_equal(residues.atoms.resnames, protein.residues.resnames)
    assert_array_equal(residues.atoms.resids, protein.residues.resids)
    assert_allclose(residues.atoms.masses, protein.total_mass(compound="residues"), rtol=1e-12)
    assert_allclose(residues.atoms.charges, protein.total_charge(compound="residues"), atol=1e-9)
    chosen = residues.select("resname ALA")
    assert_array_equal(chosen.indices, np.flatnonzero(protein.residues.resnames == "ALA"))


def test_velocities_forces_and_the_rest_of_a_frame(solvated, residues):
    raw = solvated.read([1], "protein", fields=["positions", "velocities"])
    made = residues.read([1], fields=["positions", "velocities"])
    table = solvated.atoms[solvated.select("protein")]
    firsts = np.unique(table.resindices, return_index=True)[1]
    masses = table.masses[:, None]
    for field in ("positions", "velocities"):
        expected = np.add.reduceat(masses * raw[field][0], firsts) / np.add.reduceat(masses, firsts)
        assert_allclose(made[field][0], expected, rtol=2e-6, atol=2e-6)
    for same in ("cells", "times", "steps", "frames", "periodic"):
        assert_array_equal(made[same], raw[same])


def test_forces_are_sums(tmp_path):
    forces = np.arange(12, dtype=np.float32).reshape(4, 3)
    with kn.Writer(tmp_path / "f.trr", 4, fields=["positions", "forces"]) as writer:
        writer.write(np.eye(4, 3), forces=forces, time=0.0)
    traj = kn.open(tmp_path / "f.trr").with_transform(transforms.centers([[0, 3], [2]], weights="geometry"))
    assert_array_equal(traj.read(fields=["forces"])["forces"][0], [forces[0] + forces[3], forces[2]])
    assert_array_equal(traj.read()[0], [[0.5, 0, 0], [0, 0, 1]])


def test_every_way_to_read_gives_the_same_bits(residues):
    whole = residues.read(workers=1)
    for workers in (2, 3, 7):
        assert_array_equal(residues.read(workers=workers), whole)
    assert_array_equal(residues.read([3, 0, 3], [5, 1, 5]), whole[[3, 0, 3]][:, [5, 1, 5]])
    assert_array_equal([frame.positions for frame in residues], whole)
    assert_array_equal(np.concatenate([block.positions for block in residues.blocks("20 MiB")]), whole)
    assert_array_equal(pickle.loads(pickle.dumps(residues[1::2])).read(), whole[1::2])
    assert_array_equal(residues.read(dtype="float64"), whole)
    sample = FrameDataset(residues, "resname ALA")[2]
    assert_array_equal(sample["positions"], whole[2][residues.select("resname ALA").indices])


def test_centres_of_fitted_frames(solvated):
    backbone = "protein and name CA"
    stack = [transforms.whole(), transforms.superpose(backbone)]
    traj = solvated.with_transform(*stack, transforms.centers("residues", "protein", weights="geometry"))
    atoms = solvated.with_transform(*stack).read([4], "protein")[0].astype(np.float64)
    of = np.unique(solvated.atoms[solvated.select("protein")].resindices, return_inverse=True)[1]
    expected = np.array([np.bincount(of, atoms[:, c]) for c in range(3)]).T / np.bincount(of)[:, None]
    assert_allclose(traj.read([4])[0], expected, rtol=0, atol=1e-5)


@pytest.mark.processes
def test_analyses_have_the_same_bits_on_all_runners(residues):
    make = (
        lambda: kn.RMSD(residues, "resname ALA"),
        lambda: kn.RMSF(residues, align="reference"),
        lambda: kn.analysis.RadiusOfGyration(residues),
    )
    expected = [one().run(runner="serial").results.values for one in make]
    for how in ({"workers": 3}, {"runner": "processes", "workers": 2}):
        together = kn.run([one() for one in make], **how)
        for one, values in zip(together, expected, strict=True):
            assert_array_equal(one.results.values, values)
    positions = residues.read().astype(np.float64)
    masses = residues.atoms.masses
    centre = np.average(positions, axis=1, weights=masses)
    square = np.average(((positions - centre[:, None]) ** 2).sum(axis=2), axis=1, weights=masses)
    assert_allclose(expected[2][:, 0], np.sqrt(square), rtol=1e-6)


def test_converted_files_hold_the_centres(residues, tmp_path):
    for name in ("out.dcd", "out.trr", "out.h5md"):
        first, second = tmp_path / f"1-{name}", tmp_path / f"3-{name}"
        kn.convert(residues, first, workers=1)
        kn.convert(residues, second, workers=3)
        if not name.endswith("h5md"):
            assert first.read_bytes() == second.read_bytes()
        again = kn.open(second)
        assert again.n_atoms == residues.n_atoms
        # TRR holds nanometres
        assert_allclose(again.read(), residues.read(), rtol=3e-7, atol=0)


def test_what_has_no_centre_is_refused(solvated, residues):
    with pytest.raises(ArgumentError, match="superpose comes before centers"):
        residues.with_transform(transforms.superpose())
    with pytest.raises(ArgumentError, match="of must be one of"):
        transforms.centers("atoms")
    with pytest.raises(ArgumentError, match="without select"):
        transforms.centers([[0]], "protein")
    with pytest.raises(kn.errors.OutOfRangeError, match="has 214 atoms"):
        residues.read(select=[residues.n_atoms])
    with pytest.raises(ArgumentError, match="index file, which names atoms"):
        residues.select(index_file="none.ndx")
    twice = [*residues.core.transforms, *residues.core.transforms]
    with pytest.raises(ArgumentError, match="last of all transforms"):
        solvated.core.with_transforms(twice)
    with pytest.raises(ArgumentError, match="topology"):
        kn.open(datafiles.TRR, stored=False).with_transform(transforms.centers())


def test_a_group_without_mass_is_refused_and_has_a_geometric_centre(tmp_path):
    positions = random_walk(3, 4)
    write_dcd(tmp_path / "a.dcd", positions)
    atoms = kn.Atoms(4, masses=[12.0, 1.0, 0.0, 0.0])
    traj = kn.open(tmp_path / "a.dcd", topology=atoms, stored=False)
    groups = [[0, 1], [2, 3]]
    refused = r"1 groups have no mass, the first is that of atom 3 \(counted from 1\)"
    with pytest.warns(kn.Note, match="masses of 2 atoms are zero"), pytest.raises(ArgumentError, match=refused):
        traj.with_transform(transforms.centers(groups))
    found = traj.with_transform(transforms.centers(groups, weights="geometry")).read()
    assert_allclose(found, positions.reshape(3, 2, 2, 3).mean(axis=2), rtol=1e-6)


def test_broken_molecules_are_noted(solvated):
    with pytest.warns(kn.Note, match="centres are of atoms where they stand, and 1 molecule is broken"):
        solvated.with_transform(transforms.centers("residues", "protein"))


def test_positions_that_are_not_finite_are_named(tmp_path):
    with kn.Writer(tmp_path / "nan.trr", 3) as writer:
        writer.write(np.eye(3), time=0.0)
        writer.write([[0, 0, 0], [np.nan, 0, 0], [1, 1, 1]], time=1.0)
    traj = kn.open(tmp_path / "nan.trr").with_transform(transforms.centers([[0, 2], [1]], weights="geometry"))
    assert_array_equal(traj.read(select=[0])[1], [[0.5, 0.5, 0.5]])
    with pytest.raises(kn.Error, match=r"nan\.trr: TRR frame 1.*atom 2 .*not finite"):
        traj.read()
