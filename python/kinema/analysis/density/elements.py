"""Numbers of electrons and neutron scattering lengths of elements, for the atoms of a topology.

Neutron lengths are bound coherent ones of the natural mixtures of isotopes, in fm; D is deuterium. Source: V. F. Sears,
Neutron News 3 (3), 26 (1992).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kinema.base.errors import ArgumentError
from kinema.model.elements import symbols_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kinema.model.atom_table import Atoms

__all__ = ["atomic_numbers", "neutron_lengths"]

_SYMBOLS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au "
    "Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr"
).split()
_NUMBERS = {symbol.upper(): number for number, symbol in enumerate(_SYMBOLS, 1)} | {"D": 1}
_NEUTRON = {
    "H": -3.7390, "D": 6.671, "He": 3.26, "Li": -1.90, "Be": 7.79, "B": 5.30, "C": 6.6460, "N": 9.36, "O": 5.803,
    "F": 5.654, "Ne": 4.566, "Na": 3.63, "Mg": 5.375, "Al": 3.449, "Si": 4.1491, "P": 5.13, "S": 2.847, "Cl": 9.5770,
    "Ar": 1.909, "K": 3.67, "Ca": 4.70, "Sc": 12.29, "Ti": -3.438, "V": -0.3824, "Cr": 3.635, "Mn": -3.73, "Fe": 9.45,
    "Co": 2.49, "Ni": 10.3, "Cu": 7.718, "Zn": 5.680, "Ga": 7.288, "Ge": 8.185, "As": 6.58, "Se": 7.970, "Br": 6.795,
    "Kr": 7.81, "Rb": 7.09, "Sr": 7.02, "Y": 7.75, "Zr": 7.16, "Nb": 7.054, "Mo": 6.715, "Ag": 5.922, "I": 5.28,
    "Xe": 4.92, "Cs": 5.42, "Ba": 5.07, "Pt": 9.60, "Au": 7.63, "Pb": 9.405,
}  # fmt: skip
_NEUTRON_UPPER = {symbol.upper(): length for symbol, length in _NEUTRON.items()}


def atomic_numbers(atoms: Atoms, what: str) -> NDArray[np.float64]:
    """(n_atoms,) protons of each atom; raises ArgumentError as `symbols_of`, and for another symbol."""
    return _looked_up(symbols_of(atoms, what), _NUMBERS, f"{atoms.name}: no atomic number is known of element")


def neutron_lengths(atoms: Atoms, what: str) -> NDArray[np.float64]:
    """(n_atoms,) coherent neutron scattering lengths, fm; raises ArgumentError as `symbols_of`, and for others."""
    problem = f"{atoms.name}: no neutron scattering length is known of element"
    return _looked_up(symbols_of(atoms, what), _NEUTRON_UPPER, problem)


def _looked_up(symbols: NDArray[np.str_], values: Mapping[str, float], problem: str) -> NDArray[np.float64]:
    distinct, of = np.unique(symbols, return_inverse=True)
    values = {"": 0.0, **values}
    unknown = [str(symbol) for symbol in distinct if symbol not in values]
    if unknown:
        raise ArgumentError(f"{problem} {unknown[0]!r}; give numbers of your own")
    return np.array([values[str(symbol)] for symbol in distinct], np.float64)[of]
