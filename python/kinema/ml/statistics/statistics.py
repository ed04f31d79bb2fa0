"""`Statistics`: moments of a data set, the normalisation of batches and its inverse, and their file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.base.input_files import read_regular
from kinema.formats.h5md.schema import SYMBOLS
from kinema.ml.frames import LAGGED
from kinema.ml.statistics.moments import Moments
from kinema.storage.output_checks import check_remade
from kinema.storage.output_file import write_whole

__all__ = ["ANY_ELEMENT", "EnergyStatistics", "Statistics"]

_VERSION = 1
_LARGEST = 4 << 30
ANY_ELEMENT = "any"
"""Key of all atoms, if elements are not known."""

# vectors that are divided by the root mean square of an element, so that directions stay
_SCALED = ("forces", "velocities")
# arrays that give the elements and numbers of atoms
_BESIDE = ("atomic_numbers", "ptr", "batch")


@dataclass(frozen=True, eq=False)
class EnergyStatistics:
    """Energies: the contribution of each element, and moments of the remainder, divided by the number of atoms.

    E = sum of shifts + atoms * (mean + std * x), where x is the normalised energy.
    """

    name: str
    shifts: Mapping[str, float]
    """By least squares over the compositions of the samples; zeros if all samples have the same composition."""
    per_atom: Moments


@dataclass(frozen=True, eq=False)
class Statistics:
    """Moments of a data set, or of one part of it.

    Attributes
    ----------
    arrays : mapping of str to Moments
        Moments of each feature of samples and labels, by the name of the array.
    species : mapping of str to mapping of str to Moments
        Moments of positions, forces and velocities: three components for each element, by its symbol.
    energy : EnergyStatistics, optional
    n_samples : int
    fingerprint : str
        Fingerprint of the data set, without the part.
    samples : str
        Fingerprint of the samples that were counted.
    part : str or None
        Name of the part of a split.
    """

    arrays: Mapping[str, Moments]
    species: Mapping[str, Mapping[str, Moments]]
    energy: EnergyStatistics | None
    n_samples: int
    fingerprint: str
    samples: str
    part: str | None = None
    notes: tuple[str, ...] = ()
    of_any_data: bool = field(default=False)

    def for_other_data(self) -> Statistics:
        """A copy that loaders of other data sets accept.

        For example to use the statistics of a training set for a test set in other files.
        """
        return replace(self, of_any_data=True)

    def of_arrays(self, *names: str) -> Statistics:
        """The statistics of these arrays alone; other arrays, such as times and cells of frames, are not normalised.

        Raises ArgumentError for a name that has no statistics.
        """
        energy = None if self.energy is None or self.energy.name not in names else self.energy
        known = [*self.arrays, *self.species, *([] if self.energy is None else [self.energy.name])]
        wrong = [name for name in names if name not in known]
        if wrong:
            raise ArgumentError(f"there are no statistics of {wrong[0]}, only of {', '.join(known)}")
        arrays = {name: one for name, one in self.arrays.items() if name in names}
        species = {name: one for name, one in self.species.items() if name in names}
        return replace(self, arrays=arrays, species=species, energy=energy)

    # -- application --------------------------------------------------------------------------------------------------

    def normalise(self, batch: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Normalises the arrays of a batch that have statistics.

        Features become (x - mean) / std, or x - mean if std is 0. Forces and velocities are divided by the root mean
        square of the atom's element. Energies become (E - shifts) / atoms, minus its mean, divided by its std.

        Returns
        -------
        mapping of str to array
            New arrays of the same types. The arrays that `restore` needs besides are passed on as they are: positions
            of frames, "atomic_numbers", "ptr" and "batch". All others are left out.

        Raises
        ------
        ArgumentError
            For samples of another shape, and for elements without statistics.
        """
        return self._applied(batch, inverse=False)

    def restore(self, batch: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """The inverse of `normalise`: predictions of a model in the units of the data, in the same shape.

        If elements are known, vectors and energies need "atomic_numbers" in the batch; energies of ragged batches also
        need "ptr" or "batch".

        Raises
        ------
        ArgumentError
            If these are missing or do not fit together.
        """
        return self._applied(batch, inverse=True)

    def _applied(self, batch: Mapping[str, Any], *, inverse: bool) -> dict[str, NDArray[Any]]:
        found: dict[str, NDArray[Any]] = {}
        for name in batch:
            base = name.removesuffix(LAGGED)
            values = np.asarray(batch[name])
            if name in _BESIDE and (self.species or self.energy is not None):
                found[name] = values
            elif values.dtype.kind != "f":
                continue
            elif self.energy is not None and base == self.energy.name:
                found[name] = self._energies(values, batch, inverse=inverse)
            elif base in self.species:
                scaled = base in _SCALED
                found[name] = self._scaled(base, values, batch, inverse=inverse) if scaled else values
            elif base in self.arrays:
                found[name] = _features(self.arrays[base], values, name, inverse=inverse)
        return found

    def _scaled(self, name: str, values: NDArray[Any], batch: Mapping[str, Any], *, inverse: bool) -> NDArray[Any]:
        of_element = {element: one.rms or 1.0 for element, one in self.species[name].items()}
        if set(of_element) == {ANY_ELEMENT}:
            scale: Any = of_element[ANY_ELEMENT]
        else:
            numbers = _numbers(batch)
            if numbers.shape != values.shape[:-1]:
                raise ArgumentError(
                    f"{name} needs the atomic number of each atom, expected {values.shape[:-1]}, found {numbers.shape}"
                )
            scale = _element_values(of_element, numbers)[..., None]
        factors: NDArray[Any] = np.asarray(scale, values.dtype)
        made: NDArray[Any] = values * factors if inverse else values / factors
        return made

    def _energies(self, values: NDArray[Any], batch: Mapping[str, Any], *, inverse: bool) -> NDArray[Any]:
        assert self.energy is not None
        shift, atoms = self._shift_and_atoms(batch, len(values))
        one = self.energy.per_atom
        mean, std = float(one.mean), float(one.std) or 1.0
        shape = (-1, *(1,) * (values.ndim - 1))
        shift, atoms = shift.reshape(shape), atoms.reshape(shape)
        exact = values.astype(np.float64)
        if inverse:
            exact = shift + atoms * (mean + std * exact)
        else:
            exact = ((exact - shift) / atoms - mean) / std
        return exact.astype(values.dtype)

    def _shift_and_atoms(self, batch: Mapping[str, Any], n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(n,) sums of the shifts of the atoms of each of `n` samples, and (n,) numbers of atoms."""
        assert self.energy is not None
        ptr = _ptr(batch, n)
        if ptr is not None:
            atoms = np.diff(ptr).astype(np.float64)
        else:
            of_atoms = [name for name in ("atomic_numbers", *self.species) if name in batch]
            if not of_atoms:
                raise ArgumentError(
                    "energies are normalised by the number of atoms; give positions or atomic_numbers too"
                )
            values = np.asarray(batch[of_atoms[0]])
            if values.ndim != (2 if of_atoms[0] == "atomic_numbers" else 3):
                raise ArgumentError(
                    f"energies of ragged samples need ptr or batch beside {of_atoms[0]}, found neither: the number of "
                    "atoms of each sample is not known"
                )
            atoms = np.full(len(values), float(values.shape[1]))
        if len(atoms) != n:
            raise ArgumentError(f"{self.energy.name} has {n} samples, and its atoms are of {len(atoms)}")
        if not any(self.energy.shifts.values()):
            return np.zeros(len(atoms)), atoms
        each = _element_values(self.energy.shifts, _numbers(batch))
        if ptr is None:
            return each.sum(axis=1), atoms
        if len(each) != ptr[-1]:
            raise ArgumentError(f"atomic_numbers are of {len(each)} atoms, expected {ptr[-1]} as of ptr or batch")
        shifts, there = np.zeros(len(atoms)), atoms > 0
        shifts[there] = np.add.reduceat(each, ptr[:-1][there])
        return shifts, atoms

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the statistics to a JSON file, whole or not at all.

        Parameters
        ----------
        path : path
        overwrite : bool
            Replace a file that Kinema did not write.

        Raises
        ------
        ArgumentError, FileAccessError, FileIOError
        """
        check_remade(path, overwrite=overwrite)
        content = {
            "kinema_statistics": _VERSION,
            "fingerprint": self.fingerprint,
            "samples": self.samples,
            "part": self.part,
            "n_samples": self.n_samples,
            "arrays": {name: one.to_json() for name, one in self.arrays.items()},
            "species": {
                name: {element: one.to_json() for element, one in found.items()} for name, found in self.species.items()
            },
            "energy": None
            if self.energy is None
            else {
                "name": self.energy.name,
                "shifts": dict(self.energy.shifts),
                "per_atom": self.energy.per_atom.to_json(),
            },
        }
        text = json.dumps(content) + "\n"
        write_whole(path, lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Reads the statistics from a file.

        Raises
        ------
        FileNotFound, FileAccessError, CorruptFileError
        """
        name = os.fspath(path)
        try:
            content = json.loads(read_regular(name, "statistics", _LARGEST))
            if content["kinema_statistics"] != _VERSION:
                raise ValueError(f"version {content['kinema_statistics']}, expected {_VERSION}")
            energy = content["energy"]
            return cls(
                {key: Moments.from_json(one) for key, one in content["arrays"].items()},
                {
                    key: {element: Moments.from_json(one) for element, one in found.items()}
                    for key, found in content["species"].items()
                },
                None
                if energy is None
                else EnergyStatistics(
                    str(energy["name"]),
                    {element: float(shift) for element, shift in energy["shifts"].items()},
                    Moments.from_json(energy["per_atom"]),
                ),
                int(content["n_samples"]),
                str(content["fingerprint"]),
                str(content["samples"]),
                content["part"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptFileError(f"{name}: no statistics of a data set: {error}", path=name) from None

    def __repr__(self) -> str:
        part = "" if self.part is None else f"part {self.part}, "
        names = ", ".join([*self.arrays, *self.species, *([] if self.energy is None else [self.energy.name])])
        return f"<Statistics of {self.n_samples} samples: {part}{names}>"


def _features(one: Moments, values: NDArray[Any], name: str, *, inverse: bool) -> NDArray[Any]:
    if values.shape[1:] != one.mean.shape:
        raise ArgumentError(
            f"statistics of {name} are of samples of shape {one.mean.shape}, expected that, found {values.shape[1:]}"
        )
    std = one.std
    scale = np.where(std > 0, std, 1.0)
    if values.dtype.itemsize < 4:
        # half precision is too coarse for means and deviations
        exact = values.astype(np.float64)
        half: NDArray[Any] = exact * scale + one.mean if inverse else (exact - one.mean) / scale
        return half.astype(values.dtype)
    mean, scale = one.mean.astype(values.dtype), scale.astype(values.dtype)
    made: NDArray[Any] = values * scale + mean if inverse else values - mean
    if not inverse:
        made /= scale
    return made


def _ptr(batch: Mapping[str, Any], n: int) -> NDArray[np.int64] | None:
    """(n + 1,) position at which the atoms of each sample begin; None if no array of the batch gives it."""
    if "ptr" in batch:
        return np.asarray(batch["ptr"]).astype(np.int64)
    if "batch" not in batch:
        return None
    counts = np.bincount(np.asarray(batch["batch"]).astype(np.int64), minlength=n)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _numbers(batch: Mapping[str, Any]) -> NDArray[np.int64]:
    if "atomic_numbers" not in batch:
        raise ArgumentError('statistics are of each element; make the data set with "atomic_numbers" among its fields')
    return np.asarray(batch["atomic_numbers"]).astype(np.int64)


def _element_values(values: Mapping[str, float], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each atom, the value of its element."""
    table = np.full(len(SYMBOLS) + 1, np.nan)
    for element, value in values.items():
        table[SYMBOLS.index(element) + 1] = value
    found = table[numbers]
    if np.isnan(found).any():
        number = int(numbers[np.isnan(found)].flat[0])
        raise ArgumentError(
            f"there are no statistics of element {SYMBOLS[number - 1]}; it is in no sample that they are of"
        )
    return found
