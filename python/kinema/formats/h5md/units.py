"""The unit grammar of H5MD's `units` module, extended to the spellings that programs write, as exact factors.

It converts no arrays: it gives the factors that convert values to angstrom, ps, angstrom/ps or kJ/(mol angstrom).

The specification (H5MD 1.1, module "units" 1.0): factors separated by blanks, each a symbol with an optional signed
power ("kJ mol-1 nm-1", "nm+3"), before them an optional number, itself with a power ("10+3 m"). Also read: "nm^-1",
"nm**-1", "nm⁻¹", "nm3", "nm/ps", "kJ/(mol nm)", "eV * fs-1". A mole is the number 6.02214076e23, so energies per mole
and per particle convert into each other. Factors are fractions: nm to angstrom is exactly 10.

"A" is the ampere of SI; if a length is expected, an ampere makes no sense and "A" is read as angstrom.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from kinema.base.errors import ArgumentError

Dimension = Literal["length", "time", "velocity", "force", "mass", "charge"]

_AVOGADRO = Fraction(602214076) * Fraction(10) ** 15
_ELEMENTARY_CHARGE = Fraction("1.602176634e-19")
_CALORIE = Fraction("4.184")
_BOHR = Fraction("5.29177210903e-11")  # CODATA 2018
_HARTREE = Fraction("4.3597447222071e-18")  # CODATA 2018
# the gram per mole: since 2019 the two differ by a relative 3.5e-10, and programs write the one for the other
_DALTON = Fraction(1, 1000) / _AVOGADRO

# exponents of metre, kilogram, second, ampere, kelvin, candela
_Exponents = tuple[int, int, int, int, int, int]
_NONE: _Exponents = (0, 0, 0, 0, 0, 0)
_LENGTH: _Exponents = (1, 0, 0, 0, 0, 0)
_MASS: _Exponents = (0, 1, 0, 0, 0, 0)
_TIME: _Exponents = (0, 0, 1, 0, 0, 0)
_CURRENT: _Exponents = (0, 0, 0, 1, 0, 0)
_CHARGE: _Exponents = (0, 0, 1, 1, 0, 0)
_VELOCITY: _Exponents = (1, 0, -1, 0, 0, 0)
_FORCE: _Exponents = (1, 1, -2, 0, 0, 0)
_ENERGY: _Exponents = (2, 1, -2, 0, 0, 0)
_PRESSURE: _Exponents = (-1, 1, -2, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Unit:
    """A factor to SI base units and the exponents of metre, kilogram, second, ampere, kelvin, candela."""

    factor: Fraction
    exponents: _Exponents

    def times(self, other: Unit, power: int = 1) -> Unit:
        """This unit multiplied by a power of another."""
        pairs = zip(self.exponents, other.exponents, strict=True)
        m, kg, s, a, k, cd = (mine + power * theirs for mine, theirs in pairs)
        return Unit(self.factor * other.factor**power, (m, kg, s, a, k, cd))


_ONE = Unit(Fraction(1), _NONE)
_ANGSTROM = Unit(Fraction(1, 10**10), _LENGTH)

# units that may have a prefix
_PREFIXED: dict[str, Unit] = {
    "m": Unit(Fraction(1), _LENGTH),
    "g": Unit(Fraction(1, 1000), _MASS),
    "s": Unit(Fraction(1), _TIME),
    "A": Unit(Fraction(1), _CURRENT),
    "K": Unit(Fraction(1), (0, 0, 0, 0, 1, 0)),
    "cd": Unit(Fraction(1), (0, 0, 0, 0, 0, 1)),
    "mol": Unit(_AVOGADRO, _NONE),
    "N": Unit(Fraction(1), _FORCE),
    "J": Unit(Fraction(1), _ENERGY),
    "W": Unit(Fraction(1), (2, 1, -3, 0, 0, 0)),
    "Pa": Unit(Fraction(1), _PRESSURE),
    "Hz": Unit(Fraction(1), (0, 0, -1, 0, 0, 0)),
    "C": Unit(Fraction(1), _CHARGE),
    "V": Unit(Fraction(1), (2, 1, -3, -1, 0, 0)),
    "T": Unit(Fraction(1), (0, 1, -2, -1, 0, 0)),
    "L": Unit(Fraction(1, 1000), (3, 0, 0, 0, 0, 0)),
    "bar": Unit(Fraction(10**5), _PRESSURE),
    "cal": Unit(_CALORIE, _ENERGY),
    "eV": Unit(_ELEMENTARY_CHARGE, _ENERGY),
    "Da": Unit(_DALTON, _MASS),
}
_PREFIXED_WORDS: dict[str, Unit] = {
    "meter": _PREFIXED["m"],
    "metre": _PREFIXED["m"],
    "gram": _PREFIXED["g"],
    "second": _PREFIXED["s"],
    "sec": _PREFIXED["s"],
    "mole": _PREFIXED["mol"],
    "joule": _PREFIXED["J"],
    "newton": _PREFIXED["N"],
    "pascal": _PREFIXED["Pa"],
    "calorie": _PREFIXED["cal"],
    "electronvolt": _PREFIXED["eV"],
    "dalton": _PREFIXED["Da"],
}
# words in any case
_WORDS: dict[str, Unit] = {
    "angstrom": _ANGSTROM,
    "angstroem": _ANGSTROM,
    "ang": _ANGSTROM,
    "bohr": Unit(_BOHR, _LENGTH),
    "micron": Unit(Fraction(1, 10**6), _LENGTH),
    "hartree": Unit(_HARTREE, _ENERGY),
    "amu": Unit(_DALTON, _MASS),
    "min": Unit(Fraction(60), _TIME),
    "minute": Unit(Fraction(60), _TIME),
    "hour": Unit(Fraction(3600), _TIME),
    "day": Unit(Fraction(86400), _TIME),
    # for time, as CHARMM defines it
    "akma": Unit(Fraction("0.04888821") / 10**12, _TIME),
    "atm": Unit(Fraction(101325), _PRESSURE),
    "kelvin": _PREFIXED["K"],
    "coulomb": _PREFIXED["C"],
    "ampere": _PREFIXED["A"],
}
# symbols whose case matters and that take no prefix
_SYMBOLS: dict[str, Unit] = {
    "Å": _ANGSTROM,
    "u": Unit(_DALTON, _MASS),
    "e": Unit(_ELEMENTARY_CHARGE, _CHARGE),
    "Ha": Unit(_HARTREE, _ENERGY),
    "Eh": Unit(_HARTREE, _ENERGY),
    "h": Unit(Fraction(3600), _TIME),
    "d": Unit(Fraction(86400), _TIME),
    "rad": _ONE,
}
_PREFIXES: dict[str, int] = {
    "y": -24, "z": -21, "a": -18, "f": -15, "p": -12, "n": -9, "u": -6, "µ": -6, "m": -3, "c": -2, "d": -1,
    "da": 1, "h": 2, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "Z": 21, "Y": 24,
}  # fmt: skip
_PREFIX_WORDS: dict[str, int] = {
    "atto": -18, "femto": -15, "pico": -12, "nano": -9, "micro": -6, "milli": -3, "centi": -2, "deci": -1,
    "kilo": 3, "mega": 6, "giga": 9,
}  # fmt: skip

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻−μ\u212b", "0123456789+--µÅ")
_TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<symbol>[^\W\d_]+)|(?P<power>\^|\*\*)|(?P<sign>[+-])|(?P<multiply>[*·.])|(?P<divide>/)"
    r"|(?P<open>\()|(?P<close>\))|(?P<blank>\s+)"
)
# a larger power is not a unit's, and a huge one would make numbers of millions of digits
_LARGEST_POWER = 30
# powers of ten: factors to Kinema's units lie between its inverse and itself, which float32 holds too
_LARGEST_EXPONENT = 37

DIMENSIONS: dict[Dimension, Unit] = {
    "length": _ANGSTROM,
    "time": Unit(Fraction(1, 10**12), _TIME),
    "velocity": Unit(Fraction(100), _VELOCITY),
    "force": Unit(Fraction(1000) / _AVOGADRO * 10**10, _FORCE),
    "mass": Unit(_DALTON, _MASS),
    "charge": Unit(_ELEMENTARY_CHARGE, _CHARGE),
}
"""The units that Kinema gives: angstrom, ps, angstrom/ps, kJ/(mol angstrom), u, e."""


def scale_to_kinema(text: str, dimension: Dimension) -> float:
    """Factor from a unit to Kinema's own of that dimension; the nearest float64 to the exact ratio.

    Raises ArgumentError for what is not a unit, and for a unit of another dimension.
    """
    target = DIMENSIONS[dimension]
    unit = parse(text)
    if unit.exponents != target.exponents:
        unit = parse(text, length_a=True)  # "A" if an ampere makes no sense
    if unit.exponents != target.exponents:
        raise ArgumentError(f"unit {text!r} is not one of {dimension}")
    ratio = unit.factor / target.factor
    if not Fraction(10) ** -_LARGEST_EXPONENT < ratio < Fraction(10) ** _LARGEST_EXPONENT:
        raise ArgumentError(f"unit {text!r} is zero, or beyond what numbers hold")
    return float(ratio)


def parse(text: str, *, length_a: bool = False) -> Unit:
    """The unit that a text describes; with `length_a`, "A" is angstrom and not ampere.

    Raises ArgumentError, naming the part that is not understood.
    """
    normal = text.translate(_SUPERSCRIPTS).strip()
    if not normal:
        raise ArgumentError("a unit is empty")
    if len(normal) > 200:
        raise ArgumentError(f"unit {normal[:40]!r}... is too long to be one")
    return _Parser(normal, length_a).whole()


class _Parser:
    """Reads one unit from left to right; "/" divides by the one factor or parenthesis after it."""

    def __init__(self, text: str, length_a: bool) -> None:
        self.text = text
        self.length_a = length_a
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise ArgumentError(f"unit {text!r} is not understood at {text[place]!r}")
            self.tokens.append((str(match.lastgroup), match.group()))
            place = match.end()
        self.next = 0

    def whole(self) -> Unit:
        unit = self._product(depth=0)
        if self.next < len(self.tokens):
            raise self._wrong()
        return unit

    def _product(self, depth: int) -> Unit:
        """Consecutive factors, up to the end or to a closing parenthesis."""
        unit, sign, factors = _ONE, 1, 0
        while self.next < len(self.tokens):
            kind, _ = self.tokens[self.next]
            if kind in ("blank", "multiply"):
                self.next += 1
            elif kind == "divide":
                sign = -1
                self.next += 1
            elif kind == "close" and depth:
                break
            else:
                factor = self._factor(depth)
                if sign < 0 and factor.factor == 0:
                    raise ArgumentError(f"unit {self.text!r} divides by zero")
                unit = unit.times(factor, sign)
                sign = 1
                factors += 1
        if not factors or sign < 0:
            raise ArgumentError(f"unit {self.text!r} lacks a factor")
        return unit

    def _factor(self, depth: int) -> Unit:
        kind, word = self.tokens[self.next]
        self.next += 1
        if kind == "number":
            if len(word) > 40 or abs(int(word.lower().partition("e")[2] or "0")) > 100:
                raise ArgumentError(f"unit {self.text!r} has a number that is too long")
            base = Unit(Fraction(word), _NONE)
        elif kind == "symbol":
            base = self._symbol(word)
        elif kind == "open" and depth < 10:
            base = self._product(depth + 1)
            if self.next >= len(self.tokens):
                raise ArgumentError(f"unit {self.text!r} has an open parenthesis")
            self.next += 1
        else:
            self.next -= 1
            raise self._wrong()
        power = self._power()
        if power <= 0 and base.factor == 0:
            raise ArgumentError(f"unit {self.text!r} divides by zero")
        return _ONE.times(base, power)

    def _power(self) -> int:
        """The signed number after a factor, "+3", "^-1", "2"; 1 if there is none."""
        start, digits = self.next, ""
        kinds = [kind for kind, _ in self.tokens[start : start + 3]]
        if kinds[:1] == ["power"]:
            self.next += 1
            kinds = kinds[1:]
        if kinds[:1] == ["sign"]:
            digits = self.tokens[self.next][1]
            self.next += 1
            kinds = kinds[1:]
        if kinds[:1] == ["number"]:
            digits += self.tokens[self.next][1]
            self.next += 1
        elif self.next == start:
            return 1
        if not re.fullmatch(r"[+-]?\d{1,3}", digits) or abs(int(digits)) > _LARGEST_POWER:
            raise ArgumentError(f"unit {self.text!r} has a power that is not a small whole number")
        return int(digits)

    def _symbol(self, word: str) -> Unit:
        if word == "A" and self.length_a:
            return _ANGSTROM
        for unit in (_SYMBOLS.get(word), _PREFIXED.get(word), _word(word)):
            if unit is not None:
                return unit
        for length in (1, 2):
            prefix, symbol = word[:length], word[length:]
            if prefix in _PREFIXES and symbol in _PREFIXED:
                return Unit(Fraction(10) ** _PREFIXES[prefix], _NONE).times(_PREFIXED[symbol])
        raise ArgumentError(f"unit {self.text!r} has a symbol that is not known, {word!r}")

    def _wrong(self) -> ArgumentError:
        return ArgumentError(f"unit {self.text!r} is not understood at {self.tokens[self.next][1]!r}")


def _word(word: str) -> Unit | None:
    """A unit written out as a word, in any case, singular or plural, perhaps with a prefix that is also written out."""
    lower = word.lower()
    for name in (lower, lower.removesuffix("s")):
        if name in _WORDS:
            return _WORDS[name]
        if name in _PREFIXED_WORDS:
            return _PREFIXED_WORDS[name]
        for prefix, power in _PREFIX_WORDS.items():
            rest = name.removeprefix(prefix)
            if rest != name and rest in _PREFIXED_WORDS:
                return Unit(Fraction(10) ** power, _NONE).times(_PREFIXED_WORDS[rest])
    return None
