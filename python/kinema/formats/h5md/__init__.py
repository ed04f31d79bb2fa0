"""H5MD and other HDF5 trajectories: descriptions of their structure, by which the decoder in Rust reads frames.

h5py is imported at the first call.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kinema.base.notes import emit
from kinema.formats.h5md.description import FieldDescription, H5mdDescription, H5mdOptions, Quantity
from kinema.storage.hdf5.stored_dataset import StoredDataset

if TYPE_CHECKING:
    from kinema.formats.h5md.read.atoms import H5mdAtoms
    from kinema.formats.h5md.read.groups import GroupSummary
    from kinema.formats.h5md.read.observables import Observables
    from kinema.model.atom_table import Atoms

__all__ = [
    "FieldDescription",
    "H5mdDescription",
    "H5mdOptions",
    "Quantity",
    "StoredDataset",
    "atoms_of",
    "atoms_source",
    "describe",
    "groups_of",
    "holds_frames",
    "observables_of",
]


def describe(
    path: str | os.PathLike[str], options: H5mdOptions | None = None, index: str = "memory"
) -> H5mdDescription:
    """Describes the trajectory in an HDF5 file: its content, and where its bytes lie. The file is closed again.

    H5MD, MDTraj's own .h5, NetCDF-4 of AMBER and DL_POLY, and with `H5mdOptions.dataset` a bare data set of any file.
    `index`: whether stored chunk maps are used and stored, see `kinema.open`.

    Raises FileNotFound, FileAccessError, TruncatedFileError, CorruptFileError for the file, or for the source of a
    virtual data set.
    Raises UnsupportedFormatError for HDF5 files without a known structure, dimensions other than 3, external storage,
    unavailable filters.
    Raises ArgumentError for options that do not fit the file: a missing group, or several groups and no choice; units
    that are missing or of another dimension.
    """
    from kinema.formats.h5md.read.describe import describe_file

    return describe_file(os.fspath(path), options or H5mdOptions(), index)


def groups_of(path: str | os.PathLike[str], options: H5mdOptions | None = None) -> tuple[GroupSummary, ...]:
    """The particles groups of an H5MD file; empty for other HDF5 files. Raises as `describe`."""
    from kinema.formats.h5md.read.describe import groups_of_file

    return groups_of_file(os.fspath(path), options or H5mdOptions())


def holds_frames(path: str | os.PathLike[str]) -> bool:
    """Whether a file of H5MD, or NetCDF-4 of AMBER or DL_POLY, has a frame; True for others. Raises as `describe`."""
    from kinema.formats.h5md.read.describe import file_holds_frames

    return file_holds_frames(os.fspath(path))


def observables_of(
    path: str | os.PathLike[str],
    options: H5mdOptions | None = None,
    *,
    time_shift: float = 0.0,
    unlike_frames: bool = False,
) -> Observables:
    """The observables of an H5MD file by name; they are listed and read on demand. `time_shift`: ps, added.

    `unlike_frames`: the times of frames differ from the file's; a note says that observables keep the file's times.
    """
    from kinema.formats.h5md.read.observables import Observables

    found = Observables(os.fspath(path), options, time_shift=time_shift)
    if unlike_frames and any(not one.fixed for one in found.values()):
        emit([f"{path}: times of observables are those of the file; dt= (--timestep) is about frames"])
    return found


def atoms_of(path: str | os.PathLike[str], options: H5mdOptions | None = None) -> Atoms | None:
    """The table of names, residues, masses, charges and bonds in a file; None if it has none.

    Raises as `describe`.
    """
    from kinema.formats.h5md.read.atoms import read_atoms

    return read_atoms(os.fspath(path), options or H5mdOptions())


def atoms_source(
    path: str | os.PathLike[str], options: H5mdOptions | None = None, *, always: bool = False
) -> H5mdAtoms | None:
    """A file's own table of atoms, read when first needed; None if it has none, unless `always`."""
    from kinema.formats.h5md.read.atoms import H5mdAtoms, has_atoms

    options = options or H5mdOptions()
    return H5mdAtoms(os.fspath(path), options) if always or has_atoms(os.fspath(path), options) else None
