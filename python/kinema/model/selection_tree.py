"""Expressions of selections whose atoms change with the frame, made of the tree that MDAnalysis parses.

Parts that do not change become sets of atoms once; the rest is what `_core.ChangingGroup` evaluates in each frame. All
parts are of `base`, the atoms that `select_atoms` was called on, except those after `global`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError

#: words of the selection language whose atoms depend on coordinates
GEOMETRIC_KEYWORDS = frozenset({"around", "sphlayer", "isolayer", "sphzone", "cyzone", "cylayer", "point"})
#: nested tuples, as `_core.ChangingGroup` takes them
Expression = tuple[Any, ...]
#: label of an atom that shares with no other
NO_LABEL = 0xFFFFFFFF
#: properties of `prop` and `same` that do
COORDINATES = frozenset({"x", "y", "z", "position", "positions", "velocity", "force"})
_AXES = {"x": 0, "y": 1, "z": 2}
_OPERATORS: dict[Any, str] = {
    np.less: "<",
    np.less_equal: "<=",
    np.greater: ">",
    np.greater_equal: ">=",
    np.not_equal: "!=",
}


def changing_part(node: Any, seen: set[int]) -> str | None:
    """The first keyword below a node of MDAnalysis' selection tree that uses coordinates."""
    if id(node) in seen:
        return None
    seen.add(id(node))
    tokens = _tokens(node)
    geometric = tokens & GEOMETRIC_KEYWORDS
    if geometric:
        return f"'{sorted(geometric)[0]}'"
    if tokens & {"prop", "same"} and str(getattr(node, "prop", "")) in COORDINATES:
        word = "prop" if "prop" in tokens else "same"
        return f"'{word} {node.prop}'"
    for name, child in vars(node).items():
        # every node holds the parser, which holds the groups of the last call
        if name != "parser" and type(child).__module__ == "MDAnalysis.core.selection":
            reason = changing_part(child, seen)
            if reason is not None:
                return reason
    return None


def fixed(indices: NDArray[np.integer]) -> Expression:
    """The expression of the same atoms in all frames."""
    return ("atoms", np.unique(indices).astype(np.uint32))


def expression_of(tree: Any, universe: Any, base: Expression | None = None) -> Expression:
    """The expression of a selection tree of MDAnalysis for the atoms of a Universe.

    `base` is the expression of the atoms that the tree is applied to; None: all. Raises ArgumentError for a cutoff that
    is not above 0 and finite, and for a part that cannot be evaluated in each frame.
    """
    return _Maker(universe).make(tree, base)


def intersection(*parts: Expression) -> Expression:
    """The expression of the atoms that all parts have; fixed parts become one, and come first."""
    flat = [one for part in parts for one in (part[1:] if part[0] == "and" else (part,))]
    sets = [one[1] for one in flat if one[0] == "atoms"]
    changing = [one for one in flat if one[0] != "atoms"]
    if not sets:
        return changing[0] if len(changing) == 1 else ("and", *changing)
    common = ("atoms", functools.reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), sets))
    return common if not changing else ("and", common, *changing)


def labels_of(values: NDArray[Any]) -> NDArray[np.uint32]:
    """(n,) a number for each value, the same for equal values; nan equals nothing."""
    of_text = values.astype(str) if values.dtype == object else values
    labels = np.unique(of_text, return_inverse=True)[1].astype(np.uint32)
    if values.dtype.kind == "f":
        labels[np.isnan(values)] = NO_LABEL
    return labels


def _tokens(node: Any) -> set[str]:
    return {str(token) for cls in type(node).__mro__ if (token := getattr(cls, "token", None)) is not None}


class _Maker:
    """Makes expressions for the atoms of one Universe."""

    def __init__(self, universe: Any) -> None:
        self._universe = universe
        self._words: dict[str, Callable[[Any, Expression | None], Expression]] = {
            "and": lambda node, base: intersection(self.make(node.lsel, base), self.make(node.rsel, base)),
            "or": lambda node, base: ("or", self.make(node.lsel, base), self.make(node.rsel, base)),
            "not": lambda node, base: _within(base, ("not", self.make(node.sel, base))),
            "global": lambda node, base: self.make(node.sel, None),
            "byres": lambda node, base: self._sharing(node, base, "resindices"),
            "same": self._same,
            "bonded": self._bonded,
            "prop": self._coordinate,
            "around": lambda node, base: self._near(node, base, None, node.cutoff),
            "isolayer": lambda node, base: self._near(node, base, node.inRadius, node.exRadius),
            "sphzone": lambda node, base: self._sphere(node, base, None, node.cutoff),
            "sphlayer": lambda node, base: self._sphere(node, base, node.inRadius, node.exRadius),
            "cyzone": lambda node, base: self._cylinder(node, base, None),
            "cylayer": lambda node, base: self._cylinder(node, base, node.inRadius),
            "point": self._point,
        }

    def make(self, node: Any, base: Expression | None) -> Expression:
        """The expression of a node."""
        is_leaf = not (hasattr(node, "sel") or hasattr(node, "lsel"))
        # with a base, the parts of a part are of the base as well
        if changing_part(node, seen=set()) is None and (base is None or is_leaf):
            group = getattr(node, "grp", None)
            if type(group).__name__ == "UpdatingAtomGroup":
                raise ArgumentError("'group' of an updating atom group is not supported: select with its words instead")
            return _within(base, fixed(node.apply(self._universe.atoms).indices))
        if getattr(node, "periodic", True) is False:
            raise ArgumentError("periodic=False of select_atoms is not supported: nearest images count")
        word = next((word for word in self._words if word in _tokens(node)), None)
        if word is None:
            raise ArgumentError(f"{type(node).__name__} of MDAnalysis is not supported for atoms that change")
        return self._words[word](node, base)

    def _near(self, node: Any, base: Expression | None, inner: float | None, outer: float) -> Expression:
        word = "around" if inner is None else "isolayer"
        if inner is not None:
            _check_above_zero(word, "inner radius", inner)
        _check_above_zero(word, "cutoff", outer)
        return _within(base, ("near", self.make(node.sel, base), inner, outer))

    def _sphere(self, node: Any, base: Expression | None, inner: float | None, outer: float) -> Expression:
        word = "sphzone" if inner is None else "sphlayer"
        _check_finite(word, inner)
        _check_above_zero(word, "cutoff", outer)
        return _within(base, ("sphere", self.make(node.sel, base), inner, outer))

    def _cylinder(self, node: Any, base: Expression | None, inner: float | None) -> Expression:
        word = "cyzone" if inner is None else "cylayer"
        _check_finite(word, inner, node.zmin, node.zmax)
        _check_above_zero(word, "radius", node.exRadius)
        of = self.make(node.sel, base)
        return _within(base, ("cylinder", of, inner, node.exRadius, node.zmin, node.zmax))

    def _point(self, node: Any, base: Expression | None) -> Expression:
        _check_finite("point", *node.ref)
        _check_above_zero("point", "cutoff", node.cutoff)
        return _within(base, ("point", np.asarray(node.ref, dtype=np.float64), node.cutoff))

    def _coordinate(self, node: Any, base: Expression | None) -> Expression:
        operator, tolerance = node.operator, 0.0
        if isinstance(operator, functools.partial):
            # numpy.isclose
            tolerance = operator.keywords["atol"] + operator.keywords["rtol"] * abs(node.value)
        word = "==" if isinstance(operator, functools.partial) else _OPERATORS[operator]
        _check_finite(f"prop {node.prop}", node.value)
        axis = _AXES.get(str(node.prop))
        if axis is None:
            raise ArgumentError(f"'prop {node.prop}' is not supported, expected prop x, y or z")
        return _within(base, ("coordinate", axis, bool(node.absolute), word, float(node.value), float(tolerance)))

    def _same(self, node: Any, base: Expression | None) -> Expression:
        if node.prop in _AXES:
            return _within(base, ("same coordinate", self.make(node.sel, base), _AXES[node.prop]))
        return self._sharing(node, base, node.prop_trans[node.prop] or "fragindices")

    def _sharing(self, node: Any, base: Expression | None, attribute: str) -> Expression:
        labels = labels_of(np.asarray(getattr(self._universe.atoms, attribute)))
        return _within(base, ("share", self.make(node.sel, base), labels))

    def _bonded(self, node: Any, base: Expression | None) -> Expression:
        if base is not None:
            raise ArgumentError("'bonded' of atoms that change is supported for all atoms of a Universe only")
        bonds = np.asarray(self._universe.atoms.bonds.to_indices(), dtype=np.uint32).reshape(-1, 2)
        return ("bonded", self.make(node.sel, base), bonds)


def _within(base: Expression | None, found: Expression) -> Expression:
    return found if base is None else intersection(base, found)


def _check_above_zero(word: str, what: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ArgumentError(f"the {what} of '{word}' must be above 0 and finite, found {value:g}")


def _check_finite(word: str, *values: float | None) -> None:
    if not all(value is None or math.isfinite(value) for value in values):
        raise ArgumentError(f"numbers of '{word}' must be finite, found {', '.join(map(str, values))}")
