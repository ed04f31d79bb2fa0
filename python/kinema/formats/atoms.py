"""What is known of the atoms of a file of any format: `read_atoms`, and the topology that a user names."""

from __future__ import annotations

import os
from typing import Any

from kinema.base.input_files import is_hdf5
from kinema.formats import h5md
from kinema.formats.dlpoly.atoms import DlpolyAtoms
from kinema.formats.dlpoly.atoms import has_atoms as has_dlpoly_atoms
from kinema.model.atom_table import Atoms
from kinema.model.topology import Topology, is_atom_group

__all__ = ["read_atoms", "topology_of"]


def topology_of(source: str | os.PathLike[str] | Atoms | Topology | Any, *, index: str = "memory") -> Topology:
    """The topology that users name: a file that MDAnalysis reads, an HDF5 trajectory or a DL_POLY file that says of its
    atoms itself, a table of atoms, a Universe. Files are read when they are first needed; `index` and errors are those
    of `Topology`."""
    if isinstance(source, Topology):
        return source
    if isinstance(source, (str, os.PathLike)) and os.path.isfile(source) and is_hdf5(source):
        own = h5md.atoms_source(source)
        if own is not None:
            return Topology(own)
    elif isinstance(source, (str, os.PathLike)) and os.path.isfile(source) and has_dlpoly_atoms(source):
        return Topology(DlpolyAtoms(os.fspath(source)))
    return Topology(source, index=index)


def read_atoms(source: str | os.PathLike[str] | Any, *, particles: str | None = None) -> Atoms:
    """What is known of the atoms of a file: names, residues, masses, charges, bonds, ...

    Parameters
    ----------
    source : path, or MDAnalysis Universe or AtomGroup
        A trajectory that says it itself (H5MD, MDTraj's HDF5, DL_POLY), or a topology that MDAnalysis reads.
    particles : str, optional
        The particles group of an H5MD file; needed where it has several.

    Raises
    ------
    FileNotFound, FileAccessError, CorruptFileError, ArgumentError
        ArgumentError also where the file says nothing of its atoms.
    """
    if is_atom_group(source):
        return Atoms.from_mdanalysis(source)
    if particles is None:
        return topology_of(source).atoms
    return Topology(h5md.atoms_source(source, h5md.H5mdOptions(particles=particles), always=True)).atoms
