"""Transforms of periodic systems against MDAnalysis, on every trajectory of MDAnalysisTests that has a cell."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np
import pytest
from MDAnalysis import transformations
from MDAnalysis.lib.mdamath import triclinic_vectors
from MDAnalysisTests import datafiles
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import kinema as kn
from kinema import transforms
from kinema.notes import collected
from kinema.selection.bonds import first_atoms

Floats = NDArray[np.floating]

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis"),
]

# angstrom, of coordinates that are float32
NEAR = 1e-4
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


def trajectories() -> dict[str, str]:
    """Names in `datafiles`, and paths, of the trajectories that Kinema reads and that have a cell."""
    found: dict[str, str] = {}
    for name in dir(datafiles):
        path = getattr(datafiles, name)
        if not isinstance(path, (str, os.PathLike)) or os.fspath(path) in found.values():
            continue
        if str(path).lower().endswith(ENDS) or "HISTORY" in Path(path).name:
            try:
                cells = kn.open(path, stored=False).read([0], [0], ["positions"])["cells"]
            except kn.Error:
                continue  # some are broken on purpose
            if cells.any():
                found[name] = os.fspath(path)
    return found


FOUND = trajectories()


@cache
def table_of(name: str) -> kn.Atoms:
    with collected():
        return kn.read_atoms(getattr(datafiles, name))


class Pair:
    """A trajectory as both read it, and whole molecules of it: in MDAnalysis a system of these atoms alone.

    Attributes
    ----------
    traj : the trajectory in Kinema
    atoms, bonds : chosen atoms, and bonds between them, by their numbers in the trajectory
    largest : the atoms of the largest molecule, or all
    raw, cells : (frames, atoms, 3) and (frames, 3, 3), positions and cells in MDAnalysis, turned to those of the file
    """

    def __init__(self, name: str) -> None:
        path, topology = FOUND[name], TOPOLOGIES.get(name)
        table = None if topology is None else table_of(topology)
        self.traj = kn.open(path, topology=table, stored=False)
        n_atoms = self.traj.n_atoms
        bonds = np.zeros((0, 2), np.uint32) if table is None else table.get("bonds").astype(np.uint32)
        _, number, sizes = np.unique(first_atoms(n_atoms, bonds), return_inverse=True, return_counts=True)
        chosen = np.union1d(np.argmax(sizes), np.arange(0, len(sizes), max(1, len(sizes) // 150)))
        self.atoms = np.flatnonzero(np.isin(number, chosen)).astype(np.uint32)
        self.largest = np.flatnonzero(number == np.argmax(sizes)) if len(bonds) else self.atoms
        self.bonds = bonds[np.isin(bonds, self.atoms).all(axis=1)]
        self._read(path, table)

    def _read(self, path: str, table: kn.Atoms | None) -> None:
        source = MDAnalysis.Universe.empty(self.traj.n_atoms, trajectory=False)
        source.load_new(path, **({"format": "HISTORY"} if "HISTORY" in Path(path).name else {}))
        raw, boxes = [], []
        for ts in source.trajectory:
            raw.append(ts.positions[self.atoms])
            boxes.append(ts.dimensions.copy())
        edges = np.array([triclinic_vectors(box, np.float64) for box in boxes])
        self.cells = self.traj.read(fields=["positions"], select=[0])["cells"]
        # MDAnalysis knows lengths and angles: it has the same cell, turned
        self.turns = np.linalg.inv(self.cells) @ edges
        assert_allclose(self.turns @ self.turns.transpose(0, 2, 1), [np.eye(3)] * len(raw), rtol=0, atol=2e-5)
        straight = np.abs(self.turns - np.eye(3)).max() < 1e-4
        if straight:
            self.turns[:] = np.eye(3)
        columns = np.zeros(self.traj.n_atoms, np.int64)
        columns[self.atoms] = np.arange(len(self.atoms))
        residues = np.arange(len(self.atoms)) if table is None else table.get("resindices")[self.atoms]
        _, residues = np.unique(residues, return_inverse=True)
        self.universe = MDAnalysis.Universe.empty(
            len(self.atoms), n_residues=residues.max() + 1, atom_resindex=residues, trajectory=False
        )
        self.universe.add_TopologyAttr("bonds", [tuple(columns[bond]) for bond in self.bonds])
        masses = None if table is None else table.get("masses")
        self.universe.add_TopologyAttr("masses", np.ones(len(self.atoms)) if masses is None else masses[self.atoms])
        self.raw = np.array(raw, np.float32)
        turned = np.einsum("fax,fxc->fac", self.raw, self.turns) if not straight else self.raw
        self.turned, self.boxes = turned.astype(np.float32), np.array(boxes)
        self.molecule = self.universe.atoms[np.searchsorted(self.atoms, self.largest)]

    def expected(self, *steps: Callable[..., Any]) -> Floats:
        """Positions behind transformations of MDAnalysis, (frames, atoms, 3)."""
        # they change the frames that are in memory
        self.universe.load_new(self.turned.copy(), dimensions=self.boxes, order="fac")
        positions = []
        for ts in self.universe.trajectory:
            for step in steps:
                step(ts)
            positions.append(ts.positions.astype(np.float64) @ self.turns[ts.frame].T)
        return np.array(positions)

    def at_first(self) -> MDAnalysis.AtomGroup:
        """The largest molecule as it is in the first frame, whole."""
        self.expected()
        self.universe.trajectory[0]
        transformations.unwrap(self.universe.atoms)(self.universe.trajectory.ts)
        return MDAnalysis.Merge(self.molecule).atoms

    def found(self, *steps: transforms.Transform) -> Floats:
        with collected():
            return self.traj.with_transform(*steps).read(None, self.atoms)

    def whole(self) -> tuple[transforms.Transform, Callable[..., Any]]:
        return transforms.whole(bonds=self.bonds), transformations.unwrap(self.universe.atoms)


def edges_apart(found: Floats, expected: Floats, cells: Floats) -> NDArray[np.int64]:
    """By how many edges positions differ, (frames, atoms, 3); they are within `NEAR` of whole numbers of them."""
    apart = found.astype(np.float64) - expected
    counts = np.round(np.einsum("fax,fxc->fac", apart, np.linalg.inv(cells)))
    assert_allclose(np.einsum("fac,fcx->fax", counts, cells), apart, rtol=0, atol=NEAR)
    return counts.astype(np.int64)


@cache
def pair(name: str) -> Pair:
    return Pair(name)


every_trajectory = pytest.mark.parametrize("name", FOUND)


def test_there_are_so_many() -> None:
    assert len(FOUND) >= 24
    assert FOUND.keys() >= TOPOLOGIES.keys()
    kinds = {Path(path).name.partition(".")[2] for path in FOUND.values()}
    assert kinds >= {"xtc", "trr", "dcd", "nc", "ncdf", "h5md", "trc.gz", "arc", ""}
    broken = [name for name in TOPOLOGIES if np.abs(pair(name).found(pair(name).whole()[0]) - pair(name).raw).max() > 1]
    assert len(broken) >= 8, broken


@every_trajectory
def test_whole(name: str) -> None:
    one = pair(name)
    ours, theirs = one.whole()
    found = one.found(ours)
    assert_allclose(found, one.expected(theirs), rtol=0, atol=NEAR)
    # each bond is the shortest of its images in a lattice that was reduced by nobody
    columns = np.searchsorted(one.atoms, one.bonds)
    for positions, raw, cell in zip(found, one.raw, one.cells, strict=True):
        counts = np.stack(np.meshgrid(*[[-2, -1, 0, 1, 2]] * 3), axis=-1).reshape(-1, 3)
        bonds = np.diff(raw[columns].astype(np.float64), axis=1)[:, 0]
        lengths = np.linalg.norm(bonds[:, None] + counts @ cell, axis=2).min(axis=1)
        assert_allclose(np.linalg.norm(np.diff(positions[columns], axis=1)[:, 0], axis=1), lengths, rtol=0, atol=NEAR)


@every_trajectory
@pytest.mark.parametrize("compound", ["atoms", "residues", "molecules"])
def test_wrap(name: str, compound: str) -> None:
    one = pair(name)
    ours, theirs = one.whole()
    groups = {"molecules": "fragments"}.get(compound, compound)
    wrap = transformations.wrap(one.universe.atoms, compound=groups)
    found = one.found(ours, transforms.wrap(compound=compound, ur="tric", weights="mass", bonds=one.bonds))
    assert np.abs(found - one.raw).max() >= 0
    counts = edges_apart(found, one.expected(theirs, wrap), one.cells)
    # what lies on a face may be on either side
    assert np.count_nonzero(counts.any(axis=2)) <= 3


@every_trajectory
@pytest.mark.parametrize("center", ["mass", "geometry"])
def test_center(name: str, center: str) -> None:
    one = pair(name)
    ours, theirs = one.whole()
    weights = one.molecule.masses if center == "mass" else None
    found = one.found(ours, transforms.center(one.largest, weights=weights))
    expected = one.expected(theirs, transformations.center_in_box(one.molecule, center=center))
    assert_allclose(found, expected, rtol=0, atol=NEAR)


@every_trajectory
@pytest.mark.parametrize("mode", ["rot+trans", "trans"])
def test_fit(name: str, mode: str) -> None:
    one = pair(name)
    ours, theirs = one.whole()
    make = {"rot+trans": transformations.fit_rot_trans, "trans": transformations.fit_translation}[mode]
    found = one.found(ours, transforms.superpose(one.largest, mode=mode))
    fit = make(one.molecule, one.at_first(), weights=None)
    assert_allclose(found, one.expected(theirs, fit), rtol=0, atol=NEAR)


@every_trajectory
def test_nojump(name: str) -> None:
    one = pair(name)
    found = one.found(transforms.nojump(one.atoms))
    expected = one.expected(transformations.nojump.NoJump())
    assert not edges_apart(found, expected, one.cells).any()
    assert_allclose(found, expected, rtol=0, atol=NEAR)


@every_trajectory
def test_all_of_them(name: str) -> None:
    """In the order that both have."""
    one = pair(name)
    ours, theirs = one.whole()
    found = one.found(
        ours,
        transforms.nojump(one.atoms),
        transforms.center(one.largest),
        transforms.wrap(compound="molecules", ur="tric", weights=None, bonds=one.bonds),
    )
    expected = one.expected(
        theirs,
        transformations.nojump.NoJump(),
        transformations.center_in_box(one.molecule),
        transformations.wrap(one.universe.atoms, compound="fragments"),
    )
    assert np.count_nonzero(edges_apart(found, expected, one.cells).any(axis=2)) <= 3
