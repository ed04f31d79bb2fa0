"""Atoms of files of any format: `read_atoms`, and the topology that a user names."""

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
    """The topology that a user names.

    It is a file that MDAnalysis reads, an HDF5 trajectory or DL_POLY file that describes its atoms, a table of atoms,
    or a Universe. Files are read when first needed; `index` and errors are those of `Topology`.
    """
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
    """Reads the table of a file's atoms: names, residues, masses, charges, bonds, ...

    Parameters
    ----------
    source : path, or MDAnalysis Universe or AtomGroup
        A trajectory that describes its atoms (H5MD, MDTraj's HDF5, DL_POLY), or a topology that MDAnalysis reads.
    particles : str, optional
        The particles group of an H5MD file; required if the file has several.

    Raises
    ------
    FileNotFound, FileAccessError, CorruptFileError, ArgumentError
        ArgumentError also if the file has no data on its atoms.

    Examples
    --------
    >>> atoms = kn.read_atoms("top.psf")
    >>> atoms.n_atoms, atoms.names[:3].tolist()
    (3341, ['N', 'HT1', 'HT2'])
    """
    if is_atom_group(source):
        return Atoms.from_mdanalysis(source)
    if particles is None:
        return topology_of(source).atoms
    return Topology(h5md.atoms_source(source, h5md.H5mdOptions(particles=particles), always=True)).atoms
