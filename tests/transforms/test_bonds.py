"""Which atoms are a molecule: by bonds of topologies, of other files, guessed, and by residues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema import transforms
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.cli import main
from kinema.model.atom_table import Atoms
from kinema.testing.programs.imports import lazy
from kinema.trajectory.bonds import bonds_of, first_atoms

datafiles = lazy("MDAnalysisTests.datafiles")

EDGE = 20.0
CELL = np.diag([EDGE] * 3)


def shortest(vectors: np.ndarray) -> np.ndarray:
    return vectors - EDGE * np.round(vectors / EDGE)


def write_gro(path: Path, atoms: list[tuple[int, str, str, list[float]]]) -> Path:
    """Residue number, residue, name and position (angstrom) of each atom."""
    lines = ["made", f"{len(atoms):5d}"]
    for number, (resid, resname, name, place) in enumerate(atoms, 1):
        xyz = "".join(f"{x / 10:8.3f}" for x in place)
        lines.append(f"{resid:5d}{resname:<5s}{name:>5s}{number:5d}{xyz}")
    path.write_text("\n".join([*lines, "".join(f"{EDGE / 10:10.5f}" for _ in range(3)), ""]))
    return path


def write_pdb(path: Path, atoms: list[tuple[int, str, str, list[float]]], bonds: list[tuple[int, int]]) -> Path:
    """The same with `CONECT` records of bonds, whose atoms are counted from 1."""
    lines = [f"CRYST1{EDGE:9.3f}{EDGE:9.3f}{EDGE:9.3f}  90.00  90.00  90.00 P 1           1"]
    for number, (resid, resname, name, place) in enumerate(atoms, 1):
        xyz = "".join(f"{x:8.3f}" for x in place)
        head = f"ATOM  {number:5d}  {name:<3s} {resname:>3s} A{resid:4d}    {xyz}  1.00  0.00"
        lines.append(f"{head}{name[0]:>12s}")
    lines += [f"CONECT{a:5d}{b:5d}" for a, b in bonds]
    path.write_text("\n".join([*lines, "END", ""]))
    return path


# two residues, a ligand of one residue and two waters, all across the faces; the waters touch each other
ATOMS = [
    (1, "ALA", "N", [19.5, 5.0, 5.0]),
    (1, "ALA", "CA", [0.9, 5.0, 5.0]),
    (1, "ALA", "C", [1.6, 5.0, 6.3]),
    (2, "ALA", "N", [1.6, 5.0, 7.6]),
    (2, "ALA", "CA", [1.6, 5.0, 9.0]),
    (3, "LIG", "C1", [10.0, 19.4, 3.0]),
    (3, "LIG", "C2", [10.0, 0.8, 3.0]),
    (4, "SOL", "OW", [5.0, 5.0, 19.8]),
    (4, "SOL", "HW1", [5.0, 5.0, 0.7]),
    (4, "SOL", "HW2", [5.9, 5.0, 19.5]),
    (5, "SOL", "OW", [5.0, 5.0, 1.5]),
    (5, "SOL", "HW1", [5.0, 5.9, 1.8]),
    (5, "SOL", "HW2", [5.0, 4.1, 1.8]),
]
PLACES = np.array([place for *_, place in ATOMS], np.float32)
RESIDUES = [[0, 1], [1, 2], [3, 4], [5, 6], [7, 8], [8, 9], [10, 11], [11, 12]]
ALL_BONDS = [[0, 1], [1, 2], [2, 3], [3, 4], [5, 6], [7, 8], [7, 9], [10, 11], [10, 12]]


def made_whole(bonds: list[list[int]]) -> np.ndarray:
    """Each atom next to the one that it is bonded to, which comes before it."""
    whole = PLACES.astype(np.float64)
    for parent, child in bonds:
        whole[child] = whole[parent] + shortest(whole[child] - whole[parent])
    return whole


@pytest.fixture
def trr(tmp_path: Path) -> Path:
    with kn.Writer(tmp_path / "made.trr", len(ATOMS)) as out:
        out.write(PLACES, cell=CELL, time=0.0)
    return tmp_path / "made.trr"


def converted(trr: Path, topology: Path, *words: str) -> tuple[np.ndarray, list[str]]:
    """Positions and notes of `kinema convert --pbc whole`."""
    out = trr.with_name("out.trr")
    given = ["convert", str(trr), "-s", str(topology), "--pbc", "whole", *words, "-o", str(out), "--json"]
    with pytest.raises(SystemExit) as end:
        main([*given, "--no-stored", "--force"])
    assert end.value.code == 0
    return kn.open(out, stored=False).read()[0], given


class TestWithoutBonds:
    def test_each_atom_goes_with_the_one_before_it_in_its_residue(self, trr: Path, tmp_path: Path, capsys: Any) -> None:
        topology = write_gro(tmp_path / "made.gro", ATOMS)
        found, _ = converted(trr, topology)
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert any("made.gro has no bonds: each atom is placed next to the one before it" in note for note in notes)
        assert_allclose(found, made_whole(RESIDUES), rtol=0, atol=2e-6)
        # the second residue is another molecule for whoever wraps them
        traj = kn.open(trr, topology, stored=False)
        pairs = bonds_of(traj).pairs
        assert_array_equal(pairs, RESIDUES)
        assert_array_equal(first_atoms(len(ATOMS), pairs), [0, 0, 0, 3, 3, 5, 5, 7, 7, 7, 10, 10, 10])

    def test_bonds_are_guessed_but_not_in_water(self, trr: Path, tmp_path: Path, capsys: Any) -> None:
        topology = write_gro(tmp_path / "made.gro", ATOMS)
        # a hydrogen of one water is nearer to the oxygen of the other than guessed bonds are long
        assert np.linalg.norm(shortest(PLACES[8] - PLACES[10])) < 1.0
        found, _ = converted(trr, topology, "--bonds", "guess")
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert any("9 bonds were guessed, by distances in the first frame" in note for note in notes)
        assert_allclose(found, made_whole(ALL_BONDS), rtol=0, atol=2e-6)
        traj = kn.open(trr, topology, stored=False)
        with collected():
            pairs = bonds_of(traj, "guess").pairs
        assert sorted(map(sorted, pairs.tolist())) == ALL_BONDS

    @pytest.mark.parametrize("periodic", [True, False])
    def test_they_are_guessed_in_a_cell_that_is_turned(self, tmp_path: Path, periodic: bool) -> None:
        """Pairs across each face; along an open edge they are none."""
        cell = np.array([[9.0, 5, -3], [-2, 12, 4], [3, -1, 11]])
        places = (
            np.array([[0.5, 0.5, 0.03], [0.5, 0.5, 0.93], [0.2, 0.02, 0.4], [0.2, 0.93, 0.4], [0.8, 0.2, 0.7]]) @ cell
        )
        topology = write_gro(tmp_path / "made.gro", [(i, "LIG", f"C{i}", list(xyz)) for i, xyz in enumerate(places)])
        boundary = ["periodic", "periodic", "periodic" if periodic else "none"]
        with kn.Writer(tmp_path / "made.h5md", 5, boundary=boundary, fields=["positions"]) as out:
            out.write(places, cell=cell, step=0, time=0.0)
        with collected():
            pairs = bonds_of(kn.open(tmp_path / "made.h5md", topology, stored=False), "guess").pairs
        assert sorted(map(sorted, pairs.tolist())) == ([[0, 1]] if periodic else []) + [[2, 3]]

    def test_bonds_of_another_file(self, trr: Path, tmp_path: Path, capsys: Any) -> None:
        topology = write_gro(tmp_path / "made.gro", ATOMS)
        other = tmp_path / "bonds.txyz"
        lines = [f"{len(ATOMS)} made"]
        for number in range(len(ATOMS)):
            bonded = [str(a + b - number + 1) for a, b in ALL_BONDS if number in (a, b)]
            lines.append(f"{number + 1} {ATOMS[number][2][0]} 0.0 0.0 {number:.1f} 1 {' '.join(bonded)}")
        other.write_text("\n".join([*lines, ""]))
        found, _ = converted(trr, topology, "--bonds", str(other))
        assert not [note for note in json.loads(capsys.readouterr().out)["notes"] if "bonds" in note]
        assert_allclose(found, made_whole(ALL_BONDS), rtol=0, atol=2e-6)
        # H5MD, which MDAnalysis does not read the bonds of
        kn.convert(kn.open(trr, Atoms(len(ATOMS), bonds=ALL_BONDS), stored=False), tmp_path / "bonds.h5md")
        traj = kn.open(trr, topology, stored=False)
        assert sorted(map(sorted, bonds_of(traj, tmp_path / "bonds.h5md").pairs.tolist())) == ALL_BONDS
        with pytest.raises(ArgumentError, match=r"made\.gro: this topology has no bonds; give one that has them"):
            bonds_of(traj, topology)
        fewer = write_gro(tmp_path / "fewer.gro", ATOMS[:-1])
        with pytest.raises(ArgumentError, match=r"fewer\.gro: bonds are of 12 atoms, expected 13 as in the trajectory"):
            bonds_of(traj, fewer)
        with pytest.raises(ArgumentError, match=r"bonds name atoms from 0 to 12, found 0 to 13"):
            bonds_of(traj, [[0, 13]])


def test_bonds_that_a_pdb_file_states_are_some_of_them(trr: Path, tmp_path: Path) -> None:
    """`CONECT` of a ligand alone: what has none of them goes by residues, as without any."""
    topology = write_pdb(tmp_path / "made.pdb", ATOMS, [(6, 7), (3, 4)])
    traj = kn.open(trr, topology, stored=False)
    with pytest.warns(kn.Note, match=r"made\.pdb states bonds of 4 of 13 atoms, as PDB files do"):
        whole = traj.with_transform(transforms.whole())
    assert_allclose(whole.read()[0], made_whole([*RESIDUES[:2], [2, 3], *RESIDUES[2:]]), rtol=0, atol=2e-6)


class TestVirtualSites:
    """Water of four points in a TPR: the site on its axis has neither a mass nor bonds."""

    @pytest.fixture(scope="class")
    @classmethod
    def traj(cls, tmp_path_factory: pytest.TempPathFactory) -> kn.Trajectory:
        """A frame in which the faces go through molecules."""
        path = tmp_path_factory.mktemp("sites") / "broken.trr"
        source = kn.open(datafiles.XTC_sub_sol, stored=False)
        broken = source[:1].with_transform(transforms.center([0], point=[1.0, 2.0, 3.0]), transforms.wrap())
        kn.convert(broken, path)
        return kn.open(path, datafiles.TPR_xvf, stored=False)

    def test_molecules_are_those_of_gromacs(self, traj: kn.Trajectory) -> None:
        table = traj.atoms
        with_bonds = np.unique(table.get("bonds"))
        sites = np.setdiff1d(np.flatnonzero(table.get("masses") == 0), with_bonds)
        assert len(sites) > 4000
        molecules = first_atoms(traj.n_atoms, bonds_of(traj).pairs)
        _, first, number = np.unique(table.get("molnums"), return_index=True, return_inverse=True)
        assert_array_equal(molecules, first[number])

    @pytest.mark.parametrize("steps", [(), (transforms.wrap(compound="molecules", ur="compact"),)])
    def test_they_stay_in_their_water(self, traj: kn.Trajectory, steps: tuple[transforms.Transform, ...]) -> None:
        oxygens, sites = (traj.select(f"resname SOL and name {name}").indices for name in ("OW", "MW"))
        raw = np.linalg.norm(np.diff(traj.read([0], np.stack([oxygens, sites], 1).ravel())[0], axis=0)[::2], axis=1)
        assert raw.max() > 20
        whole = traj.with_transform(transforms.whole(), *steps)
        # of all atoms, and of those that are asked for
        everything = whole.read([0])[0]
        apart = np.linalg.norm(everything[oxygens] - everything[sites], axis=1)
        assert_allclose(apart, 0.155, rtol=0, atol=0.02)
        assert_array_equal(whole.read([0], sites)[0], everything[sites])


class TestComplexThatIsSplitAtFirst:
    """Two molecules that are bound, in the first frame across a face; later one goes through another face."""

    BONDS = ((0, 1), (2, 3))

    @pytest.fixture
    def traj(self, tmp_path: Path) -> tuple[kn.Trajectory, np.ndarray]:
        rng = np.random.default_rng(9)
        path = np.cumsum(rng.uniform(-2, 2, (300, 1, 3)), axis=0)
        complex_ = np.array([[1.0, 1, 1], [2, 1, 1], [-1, 1, 1], [-2, 1, 1]]) + path - path[0]
        with kn.Writer(tmp_path / "split.trr", 4) as out:
            for time, positions in enumerate(complex_ % EDGE):
                out.write(positions, cell=CELL, time=float(time))
        return kn.open(tmp_path / "split.trr"), complex_

    def test_it_does_not_stay_split(self, traj: tuple[kn.Trajectory, np.ndarray]) -> None:
        raw, expected = traj
        bonds = np.array(self.BONDS)
        with collected():
            whole = raw.with_transform(transforms.whole(bonds=bonds))
            split = whole.with_transform(transforms.nojump()).read()
            first = transforms.cluster([0, 2], anchor=[0], bonds=bonds)
            together = whole.with_transform(transforms.nojump(first=first))
        apart = np.linalg.norm(split[:, 2] - split[:, 0], axis=1)
        assert_allclose(apart, EDGE - 2, rtol=0, atol=1e-4)
        found = together.read()
        assert_allclose(found - found[0, 0], expected - expected[0, 0], rtol=0, atol=1e-4)
        # also where later frames are read alone, or a view begins with them
        assert_array_equal(together[250:].read([7])[0], found[257])
        assert_array_equal(together.read([299, 3], [3, 0]), found[[299, 3]][:, [3, 0]])
