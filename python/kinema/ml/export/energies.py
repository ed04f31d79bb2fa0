"""Energies and forces in eV and eV/angstrom, as programs that train potentials expect, and elements of frames."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.formats.h5md.units import DIMENSIONS, parse
from kinema.ml.export.source import ExportSource
from kinema.ml.frames import FrameDataset

# labels that are the energy if none is named
ENERGY_NAMES = ("energy", "potential_energy")
_EV_ANGSTROM = parse("eV angstrom-1")
_NUMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

FORCE_TO_EV: float = float(DIMENSIONS["force"].factor / _EV_ANGSTROM.factor)
"""From kJ/(mol angstrom) to eV/angstrom, by the exact constants of the SI."""


@dataclass(frozen=True)
class Energies:
    """The label that is the energy, and its factor to eV; `name` is None if there is no energy."""

    name: str | None
    factor: float

    @classmethod
    def from_source(cls, source: ExportSource, format: str, named: str | None, units: Mapping[str, str]) -> Energies:
        """Finds the energy among the labels of the frames.

        If neither the file nor `units` states the unit, it is taken as kJ/mol, with a note. Raises ArgumentError if
        `named` is not a label or is not an energy.
        """
        labels = source.require_frames(format).label_units
        wrong = [name for name in units if name not in labels]
        if wrong:
            raise ArgumentError(
                f"label_units= names {wrong[0]}, which is not a label; labels are {', '.join(labels) or 'none'}"
            )
        found = [name for name in ENERGY_NAMES if name in labels] if named is None else [named]
        if named is not None and named not in labels:
            raise ArgumentError(f"energy={named!r} is not a label; labels are {', '.join(labels) or 'none'}")
        if len(found) > 1:
            raise ArgumentError(f"labels {' and '.join(found)} may be the energy; say which with energy=")
        if not found:
            return cls(None, 1.0)
        name = found[0]
        unit, given = labels[name], units.get(name)
        if unit is not None and given is not None and not _same(unit, given):
            raise ArgumentError(
                f'label {name} is in {unit} as its file says, found label_units={{"{name}": "{given}"}}; leave it out'
            )
        unit = unit if given is None else given
        if unit is None:
            unit = "kJ/mol"
            stated = f'label_units={{"{name}": "eV"}}'
            emit([f"label {name} has no unit; it is taken as kJ/mol; give another unit with {stated}"])
        meaning, energy = parse(unit), parse("eV")
        if meaning.exponents != energy.exponents:
            raise ArgumentError(f"label {name} is in {unit!r}, which is not a unit of energy")
        ratio: Fraction = meaning.factor / energy.factor
        return cls(name, float(ratio))

    def convert_batch(self, batch: Mapping[str, NDArray[Any]]) -> NDArray[np.float64] | None:
        """The energies of a batch in eV, (n,). Raises ArgumentError if an energy is not a single number."""
        if self.name is None:
            return None
        values = np.asarray(batch[self.name], np.float64)
        if values.size != len(values):
            raise ArgumentError(f"label {self.name} is not an energy: it has values of shape {values.shape[1:]}")
        return values.reshape(-1) * self.factor


def _same(unit: str, other: str) -> bool:
    one, two = parse(unit), parse(other)
    return (one.exponents, one.factor) == (two.exponents, two.factor)


def converted(values: NDArray[Any], factor: float) -> NDArray[Any]:
    """The values multiplied in float64, rounded once to their own type."""
    return (values.astype(np.float64) * factor).astype(values.dtype)


def elements_of(frames: FrameDataset, format: str) -> tuple[NDArray[np.int64], ...]:
    """(atoms,) atomic numbers of each trajectory. Raises ArgumentError if they are not known."""
    numbers = frames.atomic_numbers
    if numbers is None:
        raise ArgumentError(
            f"{frames.names[0]}: {format} needs elements of the atoms; open the trajectory with a topology (-s) that "
            'has them, and make a data set with "atomic_numbers" among its fields'
        )
    return numbers


def key_of(label: str) -> str:
    """A label as a key of extended XYZ: "/" of nested observables becomes "_".

    Raises ArgumentError for other characters that a key cannot have.
    """
    key = label.replace("/", "_")
    if not _NUMBER.fullmatch(key):
        raise ArgumentError(
            f"label {label!r} cannot be a key of extxyz: letters, digits and _ alone; give it another name"
        )
    return key
