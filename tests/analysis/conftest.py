"""Systems that tests of several analyses share, as Kinema, MDAnalysis and MDTraj have them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
distances = lazy("MDAnalysis.lib.distances")
datafiles = lazy("MDAnalysisTests.datafiles")

if TYPE_CHECKING:
    import mdtraj


class Peers(NamedTuple):
    """One system for three programs."""

    ours: kn.Trajectory
    universe: Any

    def mdtraj_trajectory(self, chosen: Any = None) -> mdtraj.Trajectory:
        """Positions of the first 4000 atoms, or others, in nm, and cells; all are carbons of one residue."""
        import mdtraj

        atoms = self.universe.atoms[:4000] if chosen is None else chosen
        positions, cells = [], []
        for step in self.universe.trajectory:
            positions.append(atoms.positions / 10)
            if step.dimensions is not None:
                cells.append(step.triclinic_dimensions / 10)
        topology = mdtraj.Topology()
        residue = topology.add_residue("ALL", topology.add_chain())
        for _ in range(len(atoms)):
            topology.add_atom("C", mdtraj.element.carbon, residue)
        made = mdtraj.Trajectory(np.array(positions), topology)
        if cells:
            made.unitcell_vectors = np.array(cells)
        return made

    def bonds(self, *columns: Any, nearest: bool = True) -> np.ndarray:
        """(frames, n, columns - 1, 3) float64 vectors from atom to atom, of the nearest images by MDAnalysis."""
        found = []
        for step in self.universe.trajectory:
            points = self.universe.atoms.positions.astype(np.float64)
            vectors = np.stack([points[b] - points[a] for a, b in itertools.pairwise(columns)], axis=1)
            if nearest and step.dimensions is not None:
                # float32 in MDAnalysis, unless the vectors are float64
                flat = distances.minimize_vectors(vectors.reshape(-1, 3), step.dimensions)
                vectors = flat.reshape(vectors.shape)
            found.append(vectors)
        return np.array(found)

    def are_clear(self, bonds: np.ndarray) -> np.ndarray:
        """(frames, n): whether each bond has no other image of nearly its length, of which any may be taken."""
        images = np.array([image for image in itertools.product((-1, 0, 1), repeat=3) if any(image)])
        found = []
        for step, vectors in zip(self.universe.trajectory, bonds, strict=True):
            others = vectors[..., None, :] + images @ step.triclinic_dimensions
            longer = np.linalg.norm(others, axis=-1) - np.linalg.norm(vectors, axis=-1)[..., None]
            found.append((longer > 1e-3).all(axis=(-1, -2)))
        return np.array(found)


@pytest.fixture(scope="module")
def adk(adk_dcd) -> Peers:
    """Adenylate kinase, 98 frames without a cell."""
    trajectory = kn.open(adk_dcd.trajectory, topology=adk_dcd.topology, stored=False)
    return Peers(trajectory, MDAnalysis.Universe(adk_dcd.topology, adk_dcd.trajectory))


@pytest.fixture(scope="module", params=["orthorhombic", "triclinic"])
def periodic(request) -> Peers:
    """Proteins in water, the first atoms of them: in right-angled cells, and in rhombic dodecahedra."""
    names = {"orthorhombic": ("PRMncdf", "NCDF"), "triclinic": ("GRO", "XTC")}[request.param]
    topology, trajectory = (str(getattr(datafiles, name)) for name in names)
    return Peers(kn.open(trajectory, topology=topology, stored=False), MDAnalysis.Universe(topology, trajectory))


@pytest.fixture
def damaged(tmp_path) -> kn.Trajectory:
    """Four frames of 15 atoms, of which atom 3 has no position in frame 2."""
    from kinema.testing import random_walk, write_dcd

    positions = random_walk(4, 15)
    positions[2, 3] = np.nan
    write_dcd(tmp_path / "damaged.dcd", positions)
    return kn.open(tmp_path / "damaged.dcd", stored=False)


@pytest.fixture(scope="module")
def solvated(tmp_path_factory) -> Peers:
    """A peptide in water, 12 frames of a small triclinic cell."""
    from kinema.testing.analyses import write_solvated_peptide

    topology, trajectory = write_solvated_peptide(tmp_path_factory.mktemp("peptide"), 12)
    universe = MDAnalysis.Universe(str(topology), str(trajectory))
    return Peers(kn.open(trajectory, topology=topology, stored=False), universe)


# -- systems of which the output of other programs is stored -----------------------------------------------------------

GMX = Path(__file__).parent.parent / "data/gmx"


@pytest.fixture(scope="module")
def adk_in_water() -> kn.Trajectory:
    return kn.open(datafiles.XTC, topology=datafiles.TPR)


@pytest.fixture(scope="module")
def bulk() -> kn.Trajectory:
    return kn.open(GMX / "bulk.xtc", topology=GMX / "bulk.tpr", stored=False)


@pytest.fixture(scope="module")
def slab() -> kn.Trajectory:
    return kn.open(GMX / "slab.xtc", topology=GMX / "slab.tpr", stored=False)


@pytest.fixture(scope="module")
def transition() -> kn.Trajectory:
    """Adenylate kinase without a cell."""
    with collected():
        return kn.open(datafiles.DCD, topology=datafiles.PSF)
