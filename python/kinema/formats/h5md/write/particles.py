"""Time-independent properties of particles: masses, charges, species, identifiers and bonds.

Names and residues have no place in H5MD, and stay in the topology file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.errors import ArgumentError
from kinema.formats.h5md.schema import CONNECTIVITY
from kinema.formats.h5md.write.frames import real_array
from kinema.formats.h5md.write.metadata import Dialect
from kinema.formats.hdf5.storage import write_dataset

__all__ = ["Particles", "particles"]


@dataclass(frozen=True)
class Particles:
    """What is fixed for each of n atoms; None where it is not known.

    Attributes
    ----------
    masses : (n,) floats in u
    charges : (n,) floats, elementary charges
    species : (n,) whole numbers, or (n,) names, which become an enumeration
    ids : (n,) int64, unique
    bonds : (bonds, 2) int64, pairs of atom numbers from 0
    """

    masses: NDArray[Any] | None = None
    charges: NDArray[Any] | None = None
    species: NDArray[Any] | None = None
    ids: NDArray[np.int64] | None = None
    bonds: NDArray[np.int64] | None = None

    def write(self, root: h5py.Group, group: h5py.Group, dialect: Dialect) -> None:
        """Writes them into the particles group, and the bonds into `connectivity` of the root."""
        if self.masses is not None:
            dialect.write(write_dataset(group, "mass", self.masses, compact=True), "unit", "u")
        if self.charges is not None:
            dialect.write(write_dataset(group, "charge", self.charges, compact=True), "unit", "e")
        if self.species is not None:
            numbers, kind = _species(self.species)
            write_dataset(group, "species", numbers, dtype=kind, compact=True)
        if self.ids is not None:
            write_dataset(group, "id", self.ids, compact=True)
        if self.bonds is not None and len(self.bonds):
            # where particles have identifiers, tuples are made of these
            pairs = self.bonds if self.ids is None else self.ids[self.bonds]
            bonds = write_dataset(root.require_group(CONNECTIVITY), "bonds", pairs, compact=True)
            bonds.attrs.create("particles_group", group.ref, dtype=h5py.ref_dtype)


def particles(
    n_atoms: int,
    *,
    atoms: Any = None,
    masses: ArrayLike | None = None,
    charges: ArrayLike | None = None,
    species: ArrayLike | Sequence[str] | None = None,
    ids: ArrayLike | None = None,
    bonds: ArrayLike | None = None,
) -> Particles:
    """Checked properties of `n_atoms` atoms; what is given singly goes before what `atoms`, an AtomGroup, know.

    Raises ArgumentError for other lengths, identifiers that occur twice, bonds to atoms that do not exist.
    """
    known = Particles() if atoms is None else _of_atoms(atoms, n_atoms)
    return Particles(
        masses=known.masses if masses is None else _one_each("masses", masses, n_atoms, "f"),
        charges=known.charges if charges is None else _one_each("charges", charges, n_atoms, "fiu"),
        species=known.species if species is None else _species_given(species, n_atoms),
        ids=known.ids if ids is None else _unique(_one_each("ids", ids, n_atoms, "iu").astype(np.int64)),
        bonds=known.bonds if bonds is None else _pairs(bonds, n_atoms),
    )


def _of_atoms(atoms: Any, n_atoms: int) -> Particles:
    if atoms.n_atoms != n_atoms:
        raise ArgumentError(f"topology has {atoms.n_atoms} atoms, expected n_atoms={n_atoms}")
    species = _attribute(atoms, "elements")
    if species is None or not all(species):
        species = _attribute(atoms, "types")
    return Particles(
        masses=_attribute(atoms, "masses"),
        charges=_attribute(atoms, "charges"),
        species=None if species is None else np.asarray(species, dtype=np.str_),
        bonds=_bonds_within(atoms),
    )


def _attribute(atoms: Any, name: str) -> NDArray[Any] | None:
    # MDAnalysis' NoDataError is an AttributeError
    values = getattr(atoms, name, None)
    return None if values is None else np.asarray(values)


def _bonds_within(atoms: Any) -> NDArray[np.int64] | None:
    bonds = getattr(atoms, "bonds", None)
    if bonds is None:
        return None
    pairs = np.asarray(bonds.indices, dtype=np.int64).reshape(-1, 2)
    place = np.full(atoms.universe.atoms.n_atoms, -1, np.int64)
    place[atoms.indices] = np.arange(atoms.n_atoms)
    placed = place[pairs]
    # bonds to atoms outside of the group are not the file's
    return placed[(placed >= 0).all(axis=1)]


def _one_each(name: str, values: ArrayLike, n_atoms: int, kinds: str) -> NDArray[Any]:
    array = real_array(name, values)
    if kinds == "f" and array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if array.shape != (n_atoms,) or array.dtype.kind not in kinds:
        raise ArgumentError(f"{name} have shape {array.shape} and type {array.dtype}, expected {n_atoms} numbers")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name} have values that are not finite numbers")
    return array


def _unique(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    values, counts = np.unique(ids, return_counts=True)
    if len(values) < len(ids):
        raise ArgumentError(f"ids occur once each, found {int(values[np.argmax(counts > 1)])} more than once")
    return ids


def _species_given(species: ArrayLike | Sequence[str], n_atoms: int) -> NDArray[Any]:
    array = np.asarray(species)
    if array.dtype.kind not in "UOiu" or (array.dtype.kind == "O" and not all(isinstance(s, str) for s in array.flat)):
        raise ArgumentError(f"species are whole numbers or names, found {array.dtype}")
    if array.shape != (n_atoms,):
        raise ArgumentError(f"species have shape {array.shape}, expected {n_atoms}, one for each atom")
    return array.astype(np.str_) if array.dtype.kind == "O" else array


def _species(species: NDArray[Any]) -> tuple[NDArray[Any], np.dtype[Any]]:
    """Values and type in the file: an enumeration of names in alphabetical order, or int32 or int64."""
    if species.dtype.kind == "U":
        names, numbers = np.unique(species, return_inverse=True)
        kind = h5py.enum_dtype({str(name): i for i, name in enumerate(names)}, basetype="<i4")
        return numbers.astype(np.int32), kind
    small = np.iinfo(np.int32)
    fits = not species.size or (species.min() >= small.min and species.max() <= small.max)
    kind = np.dtype("<i4") if fits else np.dtype("<i8")
    return species.astype(kind), kind


def _pairs(bonds: ArrayLike, n_atoms: int) -> NDArray[np.int64]:
    array = real_array("bonds", bonds)
    if not array.size:
        return np.zeros((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ArgumentError(f"bonds have shape {array.shape} and type {array.dtype}, expected (bonds, 2) atom numbers")
    if array.min() < 0 or array.max() >= n_atoms:
        raise ArgumentError(f"bonds name atoms from {array.min()} to {array.max()}, expected 0 to {n_atoms - 1}")
    return array.astype(np.int64)
