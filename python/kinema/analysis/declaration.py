"""Declarations of analyses: arguments as options, and quantities. Reading them imports nothing.

A constructor argument is declared in its annotation:

    axes: Annotated[bool, Option("--axes", help="Also the radii about the x, y and z axis.")] = False

The command, its --help, job files and the documents are made from this; `arguments_of` returns it as data.
"""

from __future__ import annotations

import inspect
import sys
from types import SimpleNamespace
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from kinema.base.choices import ALIGN, MATCH, WEIGHTS
from kinema.base.frozen_dataclass import dataclass

# the largest number of a frame or an atom
_LARGEST = (1 << 63) - 1

#: Kinds of arguments: a flag, numbers, one of several names, the name of an input file, atoms as `select` takes them, a
#: list of these or of numbers, two numbers, or tuples of `atoms_each` atoms (an array of atom numbers, or its file).
Kind = Literal[
    "flag", "integer", "number", "choice", "file", "atoms", "list of atoms", "list of numbers", "two numbers", "tuples"
]
_PANEL = Literal["Frames", "Reading", "Output"]


@dataclass(frozen=True)
class Quantity:
    """One result of an analysis.

    Attributes
    ----------
    name : str
        Name of the result and of its column: "rgyr".
    unit : str
        "angstrom", "degree"; "1" for a number without a unit.
    description : str
        In words that fit within a sentence: "radius of gyration".
    columns : str
        Meaning of its columns, if it has or may have several: "one for each pair".
    period : float
        Period of the values: 360 for a dihedral angle; 0 for none.
    """

    name: str
    unit: str
    description: str
    columns: str = ""
    period: float = 0.0

    @property
    def title(self) -> str:
        """The words as a title."""
        return self.description[:1].upper() + self.description[1:]


@dataclass(frozen=True)
class Option:
    """The command-line option of a constructor argument; goes into `Annotated`.

    Attributes
    ----------
    flag : str
        "--axes"; for a flag that is on by default "--superposition/--no-superposition".
    help : str
    choices : tuple of str
        Names of which the option takes one. "none" is None in Python. An option that takes a number takes these too.
    takes : str
        Kind of value (`Kind`), if neither the type nor choices imply it.
    by_group : str
        For a list of atoms: the option that names groups of the index file instead, "--groups".
    atoms_each : int
        For tuples: atoms per tuple, 2 for pairs.
    least, most : float
        Range of a number.
    unit : str
        Unit of a number: "angstrom".
    show_default : bool
        False: the help gives the default in words.
    panel : str
        Another part of the help to list the option in.
    example : str
        Atoms that tests of all analyses give, if it needs special ones.
    """

    flag: str
    help: str
    choices: tuple[str, ...] = ()
    takes: Kind | None = None
    by_group: str = ""
    atoms_each: int = 0
    least: float = -_LARGEST
    most: float = _LARGEST
    unit: str = ""
    show_default: bool = True
    panel: _PANEL | None = None
    example: str = ""


@dataclass(frozen=True)
class Argument:
    """An argument of an analysis as data.

    `name`: name in Python and in job files.
    `kind`: kind of value (`Kind`).
    `default`: the Python value if it is not given; `inspect.Parameter.empty` if it is required.
    """

    name: str
    kind: Kind
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """ "--superposition" from "--superposition/--no-superposition"."""
        return self.option.flag.partition("/")[0]

    @property
    def help(self) -> str:
        """The help text of its option."""
        return self.option.help

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of which the argument takes one, as written on the command line: "none" is None in Python."""
        return self.option.choices

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def written_default(self) -> Any:
        """The default, as written on the command line."""
        return "none" if self.default is None and "none" in self.choices else None if self.required else self.default


#: Arguments that several analyses share: weights of atoms, by default their masses or none ...
MinimumImage = Annotated[bool, Option("--minimum-image/--no-minimum-image", "Use the nearest images in the cell.")]
MassWeights = Annotated[
    Any,
    Option(
        "--weights",
        "Weight of an atom; by default mass, if there is a topology.",
        choices=WEIGHTS,
        show_default=False,
    ),
]
Weights = Annotated[Any, Option("--weights", "Weight of an atom.", choices=WEIGHTS)]
#: ... and the reference structure of a superposition.
ReferenceFrame = Annotated[int, Option("--ref-frame", "Frame to superpose on; 0 by default.", show_default=False)]
ReferenceStructure = Annotated[
    Any, Option("--reference", "Structure file to superpose on, instead of a frame.", takes="file")
]
Match = Annotated[
    str,
    Option(
        "--match",
        "Property that must agree with the atoms of --reference; by default masses, if both have them.",
        choices=MATCH,
        show_default=False,
    ),
]
#: ... how frames are superposed before motions are analysed: on the reference, or on averages, until these move by less
#: than the tolerance or there were too many passes.
TOLERANCE, MOST_PASSES = 1e-4, 100
Align = Annotated[
    str | None,
    Option(
        "--align",
        "Superpose frames first: on the reference, on the average, or on averages until these converge.",
        choices=ALIGN,
    ),
]
AlignSelect = Annotated[Any, Option("--align-select", "Atoms to superpose on; by default as --select.", takes="atoms")]
AlignWeights = Annotated[Any, Option("--align-weights", "Weight of an atom in the superposition.", choices=WEIGHTS)]
Tolerance = Annotated[
    float, Option("--tolerance", "With --align iterative: how far the average may still move.", unit="angstrom")
]
MostPasses = Annotated[
    int, Option("--most-passes", "With --align iterative: how many averages are taken at most.", least=1)
]


def arguments_of(analysis: type) -> list[Argument]:
    """The declared arguments of an analysis, in the order of its constructor."""
    found = []
    for name, parameter in inspect.signature(analysis.__init__).parameters.items():  # type: ignore[misc]
        option, of_type = _declared(parameter.annotation, analysis.__module__)
        if option is not None:
            found.append(
                Argument(name, _kind(option, of_type, f"{analysis.__name__}.{name}"), parameter.default, option)
            )
    return found


def takes_select(analysis: type) -> bool:
    """Whether `select=` gives its atoms: --select, or -n and --group."""
    return "select" in inspect.signature(analysis.__init__).parameters  # type: ignore[misc]


def _declared(annotation: Any, module: str) -> tuple[Option | None, Any]:
    """The option of an annotation, and its type. Other annotations may name unimported types and are not evaluated."""
    if isinstance(annotation, str):
        names = vars(sys.modules[module])
        if not (annotation.startswith("Annotated[") or get_origin(names.get(annotation)) is Annotated):
            return None, None
        holder = SimpleNamespace(__annotations__={"it": annotation})
        annotation = get_type_hints(holder, names, include_extras=True)["it"]
    of_type, *extras = get_args(annotation) or (annotation,)
    return next((one for one in extras if isinstance(one, Option)), None), of_type


def _kind(option: Option, of_type: Any, where: str) -> Kind:
    if option.takes is not None or option.choices:
        return option.takes or "choice"
    kinds: dict[Any, Kind] = {bool: "flag", int: "integer", float: "number"}
    if of_type not in kinds:
        raise TypeError(f"{where}: an option of type {of_type} says by takes= or choices= what it takes")
    return kinds[of_type]
