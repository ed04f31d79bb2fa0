"""Allowed names of arguments, each list in one place, for checks, the command line and its help.

Access methods are in `kinema.runners.access`, compressions with their levels in `kinema.storage.hdf5`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection
from numbers import Real
from typing import Any, Literal, ParamSpec, TypeVar, get_args

from kinema import _core
from kinema.base.errors import ArgumentError

__all__ = [
    "ALIGN",
    "BY",
    "CENTERS_OF",
    "CIRCULAR",
    "COMPOUND",
    "DIALECTS",
    "DISTANCE_TYPE",
    "EXTERNAL",
    "FITS",
    "GATHER",
    "HYDROGEN_BOND_CRITERION",
    "INDEX",
    "MATCH",
    "NOJUMP_COUNT",
    "ON_REWIND",
    "ON_TRUNCATED",
    "OUTPUT_TIME_UNIT",
    "OUTPUT_UNIT",
    "OVERLAP",
    "PARTS",
    "QUANTITIES",
    "SCALE",
    "SCHEDULE",
    "TABLE_FORMATS",
    "UNIT_CELLS",
    "WEIGHTS",
    "Gather",
    "Schedule",
    "check_choice",
    "renamed",
]

P = ParamSpec("P")
R = TypeVar("R")

# which frames count if parts overlap in time
OVERLAP: tuple[str, ...] = _core.OVERLAP_VALUES
# whether an incomplete last frame of a file is an error or is left out
ON_TRUNCATED: tuple[str, ...] = _core.ON_TRUNCATED_VALUES
# what to do if frames of a followed file that were already given are rewritten
ON_REWIND: tuple[str, ...] = ("error", "restart")
# other files that an HDF5 file may draw in, by links and virtual data sets: none, those in its folder and below, any
EXTERNAL: tuple[str, ...] = ("none", "folder", "any")
# how stored frame indices and other stored data are used
INDEX: tuple[str, ...] = tuple(value for value in _core.INDEX_VALUES if value != "memory")

# "dynamic": a free worker takes the next piece; "static": every worker has its own contiguous share
Schedule = Literal["dynamic", "static"]
SCHEDULE: tuple[Schedule, ...] = get_args(Schedule)
# how results of MPI ranks are gathered
Gather = Literal["collective", "one-sided"]
GATHER: tuple[Gather, ...] = get_args(Gather)

# formats of a table that is written into a stream, or under any name
TABLE_FORMATS: tuple[str, ...] = ("csv", "xvg", "dat")
# what must agree between the atoms of a reference structure and those of the trajectory
MATCH: tuple[str, ...] = ("masses", "names", "order")

# units of lengths and times in tables and pictures
OUTPUT_UNIT: tuple[str, ...] = ("angstrom", "nm")
OUTPUT_TIME_UNIT: tuple[str, ...] = ("ps", "ns")
# units that have a centre, or form a chain; as in MDAnalysis
COMPOUND: tuple[str, ...] = ("group", "residues", "segments", "molecules", "fragments")

# units whose centres replace atoms; fragments are bonded atoms
CENTERS_OF: tuple[str, ...] = ("residues", "molecules", "fragments", "segments")

# meaning of the rows of an RMSF
BY: tuple[str, ...] = ("atom", "residue")

# reference on which frames are first superposed; Python has None for "none"
ALIGN: tuple[str, ...] = ("none", "average", "iterative", "reference")
# strings and steps of H5MD files: as in the specification, or as MDAnalysis reads them
DIALECTS: tuple[str, ...] = ("h5md", "mdanalysis")
# transformations by which frames are superposed
FITS: tuple[str, ...] = ("rot+trans", "trans", "progressive")
# shapes of the cell that atoms are wrapped into
UNIT_CELLS: tuple[str, ...] = ("rect", "tric", "compact")
# frames between which jumps are counted: all of the file, or those that are selected
NOJUMP_COUNT: tuple[str, ...] = ("all", "selected")

# criteria of hydrogen bonds, and the atom from which a limit is measured to the acceptor
HYDROGEN_BOND_CRITERION: tuple[str, ...] = ("distance-angle", "gromacs", "baker-hubbard", "wernet-nilsson")
DISTANCE_TYPE: tuple[str, ...] = ("hydrogen", "heavy")

# weight of an atom on the command line; Python has None for "none"
WEIGHTS: tuple[str, ...] = ("none", "mass")

# how angles become features, and how features are scaled
CIRCULAR: tuple[str, ...] = ("cos-sin", "none")
SCALE: tuple[str, ...] = ("none", "std")

# precision of matrices
DTYPE: tuple[str, ...] = ("float64", "float32")

# times of a run: parts of t_total, in the order of a run, which add up to it
PARTS: tuple[str, ...] = (
    "t_open", "t_plan", "t_IO", "t_compute", "t_wait", "t_communication", "t_end_loop", "t_unaccounted",
)  # fmt: skip
# t_start is not a part of t_total; those after PARTS are parts of some of them
QUANTITIES: tuple[str, ...] = (
    "t_total", "t_start", *PARTS, "t_open_topology", "t_open_trajectory", "t_read", "t_decode", "t_put", "t_get",
    "t_gather",
)  # fmt: skip


def check_choice(argument: str, value: object, allowed: Collection[object]) -> None:
    """Raises ArgumentError, which names the argument, unless the value is one of `allowed`."""
    if value not in allowed:
        names = [repr(one) for one in allowed]
        wanted = " or ".join(names) if len(names) < 3 else f"one of {', '.join(names)}"
        raise ArgumentError(f"{argument} must be {wanted}, found {value!r}")


def whole_number(name: str, value: Any) -> int:
    """`value` from 1 on; raises ArgumentError for anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise ArgumentError(f"{name} is a whole number from 1 on, found {value!r}")
    return int(value)


def positive_number(name: str, value: Any) -> float:
    """`value` as a number; raises ArgumentError, which names the argument, unless it is finite and above 0."""
    number = float(value) if not isinstance(value, bool) and isinstance(value, Real) else 0.0
    if not 0 < number < float("inf"):
        raise ArgumentError(f"{name} is a finite number above 0, found {value!r}")
    return number


def check_text(argument: str, value: object) -> None:
    """Raises ArgumentError, which names the argument, unless the value is text or None."""
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"{argument} must be a text, found {value!r}")


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator for renamed arguments, old="new": the old names still work, with a DeprecationWarning.

    Giving both names raises ArgumentError.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            name = function.__qualname__.removesuffix(".__new__").removesuffix(".__init__")
            for old, new in names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise ArgumentError(f"{name}: {old}= is the old name of {new}=; give one of them")
                    said = f"{name}: the argument {old}= is called {new}= now"
                    warnings.warn(said, DeprecationWarning, stacklevel=2)
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return called

    return decorated
