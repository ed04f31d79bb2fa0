"""Transforms of periodic systems against MDAnalysis, on every trajectory of MDAnalysisTests that has a cell."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import kinema as kn
from kinema import transforms
from kinema.base.notes import collected
from kinema.testing.programs.imports import lazy
from kinema.trajectory.bonds import bonds_of, first_atoms

MDAnalysis = lazy("MDAnalysis")
timestep = lazy("MDAnalysis.coordinates.timestep")
mdamath = lazy("MDAnalysis.lib.mdamath")
transformations = lazy("MDAnalysis.transformations")
datafiles = lazy("MDAnalysisTests.datafiles")

Floats = NDArray[np.floating]

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis"),
]

# angstrom, of coordinates that are float32
NEAR = 1e-4
# as MDAnalysis takes some 20 us an atom and frame
FRAMES, MOST_ATOMS = 2, 4000
ENDS = (".xtc", ".trr", ".dcd", ".nc", ".ncdf", ".h5md", ".trc.gz", ".arc")
# topologies with bonds, for trajectories by their names in `datafiles`
TOPOLOGIES = {
    "ARC_PBC": "ARC_PBC",
    "AUX_EDR_XTC": "AUX_EDR_TPR",
    "CPPTRAJ_TRAJ": "CPPTRAJ_TRAJ_TOP",
    "DCD_TRICLINIC": "PSF_TRICLINIC",
    "H5MD_xvf": "TPR_xvf",
    "LAMMPSdcd2": "LAMMPSdata2",
    "NCDF": "PRMncdf",
    "NCDFtruncoct": "PRM7",
    "TRC_TRAJ_SOLV": "TRC_PDB_SOLV",
    "TRJ_NCBOX": "PRM_NCBOX",
    "TRR": "TPR",
    "TRR_sub_sol": "TPR_xvf",
    "XTC": "TPR",
    "XTC_sub_sol": "TPR_xvf",
    "waterDCD": "waterPSF",
}
# what MDAnalysis does not read
REFUSED = ("H5MD_malformed",)


def trajectories() -> dict[str, str]:
    """Names in `datafiles`, and paths, of the trajectories that Kinema reads and that have a cell."""
    found: dict[str, str] = {}
    for name in dir(datafiles):
        path = getattr(datafiles, name)
        if not isinstance(path, (str, os.PathLike)) or os.fspath(path) in found.values():
            continue
        if str(path).lower().endswith(ENDS) or "HISTORY" in Path(path).name:
            try:
                traj = kn.open(path, stored=False)
                cells = traj.read([0], [0], ["positions"])["cells"]
            except kn.Error:
                continue  # some are broken on purpose
            if cells.any() and name not in REFUSED:
                found[name] = os.fspath(path)
    return found


# here by name, as it takes long to look for them whenever tests are collected
NAMES = (
    "ARC_PBC", "AUX_EDR_XTC", "COORDINATES_DCD", "COORDINATES_H5MD", "COORDINATES_TRR", "COORDINATES_XTC",
    "CPPTRAJ_TRAJ", "DCD_NAMD_TRICLINIC", "DCD_TRICLINIC", "DLP_HISTORY", "DLP_HISTORY_classic",
    "DLP_HISTORY_minimal_cell", "DLP_HISTORY_order", "H5MD_energy", "H5MD_xvf", "LAMMPSdcd2", "NCDF", "NCDFtruncoct",
    "SURFACE_TRR", "TRC_TRAJ_SOLV", "TRC_TRICLINIC_SOLV", "TRJ_NCBOX", "TRR", "TRR_multi_frame", "TRR_sub_sol",
    "WIN_DLP_HISTORY", "XTC", "XTC_MEMPROT", "XTC_multi_frame", "XTC_sub_sol", "waterDCD",
)  # fmt: skip


@cache
def table_of(name: str) -> kn.Atoms:
    with collected():
        return kn.read_atoms(getattr(datafiles, name))


class Breaking:
    """A function of frames that puts each atom into the cell, of which a corner is where a molecule was at first."""

    def __init__(self, corner: Floats) -> None:
        self.corner = corner.astype(np.float64)

    def broken(self, positions: Floats, cell: Floats) -> Floats:
        moved = positions - self.corner
        return moved - np.floor(moved @ np.linalg.inv(cell)) @ cell

    def __call__(self, frame: kn.Frame) -> kn.Frame:
        frame.positions[:] = self.broken(frame.positions, frame.cell)
        return frame


class Pair:
    """A trajectory as both read it, and whole molecules of it: in MDAnalysis a system of these atoms alone.

    Attributes
    ----------
    traj : the first frames of the trajectory in Kinema
    atoms, bonds : chosen atoms, and bonds between them, by their numbers in the trajectory
    largest : the atoms of the largest molecule, or all that were chosen
    cells : (frames, 3, 3)
    raw : (frames, atoms, 3), as MDAnalysis has read them, but with each atom in the cell: molecules are broken
    """

    def __init__(self, name: str) -> None:
        path, topology = getattr(datafiles, name), TOPOLOGIES.get(name)
        self.table = None if topology is None else table_of(topology)
        self.traj = kn.open(path, topology=self.table, stored=False)
        n_atoms = self.traj.n_atoms
        bonds = np.zeros((0, 2), np.uint32) if self.table is None else bonds_of(self.traj).pairs
        number, sizes = np.unique(first_atoms(n_atoms, bonds), return_inverse=True, return_counts=True)[1:]
        largest = int(np.argmax(sizes))
        chosen = np.union1d(largest, np.arange(0, len(sizes), max(1, len(sizes) // 60)))
        assert sizes[chosen].sum() < MOST_ATOMS
        self.atoms = np.flatnonzero(np.isin(number, chosen)).astype(np.uint32)
        self.largest = np.flatnonzero(number == largest) if len(bonds) else self.atoms
        self.bonds = bonds[np.isin(bonds, self.atoms).all(axis=1)]
        self.columns = np.searchsorted(self.atoms, self.bonds)
        self._read(path)
        self._build()

    def _read(self, path: str) -> None:
        source = MDAnalysis.Universe.empty(self.traj.n_atoms, trajectory=False)
        source.load_new(path, **({"format": "HISTORY"} if "HISTORY" in Path(path).name else {}))
        steps = [(ts.positions[self.atoms], ts.dimensions.copy()) for ts in source.trajectory[:FRAMES]]
        positions, self.boxes = (np.array(one) for one in zip(*steps, strict=True))
        edges = np.array([mdamath.triclinic_vectors(box, np.float64) for box in self.boxes])
        self.cells = self.traj.read(slice(FRAMES), [0], ["positions"])["cells"]
        self.columns_of_largest = np.searchsorted(self.atoms, self.largest)
        middle = self.columns_of_largest[len(self.largest) // 2]
        self.breaking = Breaking(positions[0, middle])
        self.raw = np.array([self.breaking.broken(*one) for one in zip(positions, self.cells, strict=True)], np.float32)
        # MDAnalysis knows lengths and angles: it has the same cell, turned
        self.turns = np.linalg.inv(self.cells) @ edges
        assert_allclose(self.turns @ self.turns.transpose(0, 2, 1), [np.eye(3)] * len(self.raw), rtol=0, atol=2e-5)
        if np.abs(self.turns - np.eye(3)).max() < 1e-6:
            self.turns[:] = np.eye(3)
        self.turned = np.einsum("fax,fxc->fac", self.raw, self.turns).astype(np.float32)

    def _build(self) -> None:
        residues = np.arange(len(self.atoms)) if self.table is None else self.table.get("resindices")[self.atoms]
        residues = np.unique(residues, return_inverse=True)[1]
        self.universe = MDAnalysis.Universe.empty(
            len(self.atoms), n_residues=residues.max() + 1, atom_resindex=residues, trajectory=False
        )
        self.universe.add_TopologyAttr("bonds", [tuple(bond) for bond in self.columns])
        masses = None if self.table is None else self.table.get("masses")
        self.with_masses = masses is not None and bool(masses[self.largest].any())
        masses = masses[self.atoms] if self.with_masses else np.ones(len(self.atoms))
        self.universe.add_TopologyAttr("masses", masses)
        self.molecule = self.universe.atoms[self.columns_of_largest]

    @cached_property
    def made_whole(self) -> Floats:
        """By MDAnalysis, which takes its time."""
        return np.array(
            [ts.positions.copy() for ts in self._steps(self.turned, transformations.unwrap(self.universe.atoms))]
        )

    def _steps(self, start: Floats, *steps: Callable[..., Any]) -> Iterator[timestep.Timestep]:
        # they change the frames that are in memory
        self.universe.load_new(start.copy(), dimensions=self.boxes, order="fac")
        for ts in self.universe.trajectory:
            for step in steps:
                step(ts)
            yield ts

    def expected(self, *steps: Callable[..., Any], whole: bool = True, turned_back: bool = True) -> Floats:
        """Positions after transformations of MDAnalysis, (frames, atoms, 3)."""
        made = self._steps(self.made_whole if whole else self.turned, *steps)
        turns = self.turns if turned_back else self.turns[[0] * len(self.turns)]
        return np.array([ts.positions.astype(np.float64) @ turns[ts.frame].T for ts in made])

    def first_molecule(self) -> MDAnalysis.AtomGroup:
        """The largest molecule as it is in the first frame, whole."""
        self.universe.load_new(self.made_whole[:1].copy(), order="fac")
        return MDAnalysis.Merge(self.molecule).atoms

    def found(self, *steps: transforms.Transform) -> Floats:
        with collected():
            broken = self.traj.with_transform(transforms.function(self.breaking, self.atoms))
            return broken.with_transform(*steps).read(slice(FRAMES), self.atoms)

    def whole(self) -> transforms.Transform:
        return transforms.whole(bonds=self.bonds)

    def assert_same_images(self, found: Floats, expected: Floats, groups: NDArray[np.int64], masses: Floats) -> None:
        """The same positions, but for groups whose centre is on a face of the cell: these may be on either side."""
        apart = found.astype(np.float64) - expected
        counts = np.round(np.einsum("fax,fxc->fac", apart, np.linalg.inv(self.cells)))
        assert_allclose(np.einsum("fac,fcx->fax", counts, self.cells), apart, rtol=0, atol=NEAR)
        totals = np.bincount(groups, masses)[groups]
        masses = np.where(totals > 0, masses, 1.0)
        sums = np.array([[np.bincount(groups, masses * x) for x in row.T] for row in found.astype(np.float64)])
        centres = (sums / np.bincount(groups, masses)).transpose(0, 2, 1)[:, groups]
        reduced = np.einsum("fax,fxc->fac", centres, np.linalg.inv(self.cells))
        from_face = np.abs(reduced - np.round(reduced))
        assert from_face[counts != 0].max(initial=0.0) < 1e-5
        assert reduced.min() > -1e-5 and reduced.max() < 1 + 1e-5


@cache
def pair(name: str) -> Pair:
    with collected():
        return Pair(name)


every_trajectory = pytest.mark.parametrize("name", NAMES)


def test_there_are_so_many() -> None:
    with collected():
        found = trajectories()
    assert sorted(found) == sorted(NAMES)
    assert found.keys() >= TOPOLOGIES.keys()
    kinds = {Path(path).name.partition(".")[2] for path in found.values()}
    assert kinds >= {"xtc", "trr", "dcd", "nc", "ncdf", "h5md", "trc.gz", "arc", ""}


@every_trajectory
def test_whole_and_fit(name: str) -> None:
    one = pair(name)
    ours = one.whole()
    found = one.found(ours)
    assert_allclose(found, one.expected(), rtol=0, atol=NEAR)
    # each bond is the shortest of its images
    counts = np.stack(np.meshgrid(*[[-2, -1, 0, 1, 2]] * 3), axis=-1).reshape(-1, 3)
    for positions, raw, cell in zip(found, one.raw, one.cells, strict=True):
        bonds = np.diff(raw[one.columns].astype(np.float64), axis=1)[:, 0]
        lengths = np.linalg.norm(bonds[:, None] + counts @ cell, axis=2).min(axis=1)
        whole = np.linalg.norm(np.diff(positions[one.columns], axis=1)[:, 0], axis=1)
        assert_allclose(whole, lengths, rtol=0, atol=NEAR)
    reference = one.first_molecule()
    for mode, make in (("rot+trans", transformations.fit_rot_trans), ("trans", transformations.fit_translation)):
        found = one.found(ours, transforms.superpose(one.largest, mode=mode))
        # atoms on a line have no best rotation
        molecules = one.made_whole[:, one.columns_of_largest]
        turns = min(np.linalg.matrix_rank(row - row[0], tol=1e-2) for row in molecules) > 1
        if turns if mode == "rot+trans" else (one.turns == one.turns[0]).all():
            # onto the first frame, as that was turned
            expected = one.expected(make(one.molecule, reference), turned_back=False)
            # others turn about a small molecule with its last digits
            near = one.columns_of_largest if len(one.largest) < 20 and mode == "rot+trans" else slice(None)
            assert_allclose(found[:, near], expected[:, near], rtol=0, atol=NEAR)


@every_trajectory
def test_wrap(name: str) -> None:
    one = pair(name)
    ours = one.whole()
    atoms = one.universe.atoms
    groups = {"atoms": np.arange(len(one.atoms)), "residues": atoms.resindices, "molecules": atoms.fragindices}
    for compound, numbers in groups.items():
        if compound == "residues" and (one.table is None or one.table.get("resindices") is None):
            continue  # nothing is known of them
        wrap = transformations.wrap(atoms, compound={"molecules": "fragments"}.get(compound, compound))
        weights = "mass" if one.with_masses else None
        found = one.found(ours, transforms.wrap(compound=compound, ur="tric", weights=weights, bonds=one.bonds))
        one.assert_same_images(found, one.expected(wrap), numbers, atoms.masses)


@every_trajectory
def test_center(name: str) -> None:
    one = pair(name)
    ours = one.whole()
    for center in ("mass", "geometry"):
        weights = one.molecule.masses if center == "mass" else None
        found = one.found(ours, transforms.center(one.largest, weights=weights))
        expected = one.expected(transformations.center_in_box(one.molecule, center=center))
        assert_allclose(found, expected, rtol=0, atol=NEAR)


@every_trajectory
def test_nojump_and_all_of_them(name: str) -> None:
    one = pair(name)
    found = one.found(transforms.nojump(one.atoms))
    assert_allclose(found, one.expected(transformations.nojump.NoJump(), whole=False), rtol=0, atol=NEAR)
    # in the order that both have
    ours = one.whole()
    wrap = transforms.wrap(
        compound="molecules", ur="tric", weights="mass" if one.with_masses else None, bonds=one.bonds
    )
    found = one.found(ours, transforms.nojump(one.atoms), transforms.center(one.largest), wrap)
    expected = one.expected(
        transformations.nojump.NoJump(),
        transformations.center_in_box(one.molecule),
        transformations.wrap(one.universe.atoms, compound="fragments"),
    )
    one.assert_same_images(found, expected, one.universe.atoms.fragindices, one.universe.atoms.masses)
