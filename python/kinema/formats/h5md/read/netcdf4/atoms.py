"""Atoms of a DL_POLY history in NetCDF-4: names, indices, masses and charges, stored once for all frames."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.netcdf4.conventions import DL_POLY, VECTORS
from kinema.formats.h5md.read.netcdf4.read import convention_of
from kinema.formats.h5md.schema import GUESSED
from kinema.storage.hdf5.virtual import values_of

NAMES = "atomnames"
NUMBERS = {"ids": "indices", "masses": "masses", "charges": "charges"}
"""Columns of `Atoms`, and their variables (dummy, atom)."""

# characters; DL_POLY writes 8
_LONGEST_NAME = 256
# netCDF's fill values for floats and integers; DL_POLY defines all variables, even those that it does not write
_FILLS = (9.9692099683868690e36, float(np.float32(9.9692099683868690e36)), -2147483647)


def has_variables_of_atoms(file: Any) -> bool:
    """Whether an HDF5 file is of DL_POLY's convention and may have data on its atoms."""
    return convention_of(file) is DL_POLY and any(name in file for name in (NAMES, *NUMBERS.values()))


def atoms_of_variables(opened: H5mdFile) -> dict[str, Any] | None:
    """Arguments of `Atoms`; None if nothing is known.

    Raises CorruptFileError for shapes other than a row of all atoms.
    """
    if not has_variables_of_atoms(opened.file):
        return None
    opened.format = "NetCDF"
    n_atoms = next((int(node.shape[-2]) for name in VECTORS.values() if (node := opened.file.get(name)) is not None), 0)
    known: dict[str, Any] = {}
    names = _row(opened, NAMES, n_atoms, "S", 3)
    if names is not None:
        width = names.shape[1]
        joined = np.ascontiguousarray(names).view(f"S{width}").reshape(n_atoms)
        texts = np.array([one.decode("latin-1").split("\0", 1)[0].strip() for one in joined.tolist()], np.str_)
        known |= {"names": texts} if (texts != "").any() else {}
    for column, variable in NUMBERS.items():
        values = _row(opened, variable, n_atoms, "iuf", 2)
        if values is not None and not np.isin(values, _FILLS).any():
            known[column] = values.astype(np.int64 if column == "ids" else np.float64)
    variables = {"names": NAMES} | NUMBERS
    guessed = {column for column in known if GUESSED in opened.file[variables[column]].attrs}
    return {"n_atoms": n_atoms, "guessed": guessed} | known if known else None


def _row(opened: H5mdFile, name: str, n_atoms: int, kinds: str, rank: int) -> NDArray[Any] | None:
    """The one row of a variable (dummy, atom, ...); None if there is none."""
    node = opened.file.get(name)
    if node is None:
        return None
    fits = isinstance(node, h5py.Dataset) and node.ndim == rank and node.shape[:2] == (1, n_atoms)
    if (
        not fits
        or node.dtype.kind not in kinds
        or (kinds == "S" and (node.dtype.itemsize != 1 or not 0 < node.shape[2] <= _LONGEST_NAME))
    ):
        raise opened.corrupt(f"variable {name} has {node.dtype} {node.shape}, expected one row of {n_atoms} atoms")
    return np.asarray(values_of(opened, node, 0))
