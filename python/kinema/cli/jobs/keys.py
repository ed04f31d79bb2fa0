"""`Key`: what a key of a job file takes, made of the options of the command line and of what analyses declare."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from enum import EnumType
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import typer

from kinema.analysis.declaration import Argument, arguments_of, takes_select
from kinema.base.frozen_dataclass import dataclass
from kinema.cli.jobs.text import shown
from kinema.cli.options.analyses import FrameOptions, ListOutputs, Opening, Outputs, Workers
from kinema.cli.options.cluster_outputs import ClusterOutputs
from kinema.cli.options.lifetime_outputs import LifetimeOutputs
from kinema.cli.periodic.inputs import Inputs, UnselectedInputs

# of the groups of options; `files` takes what the words of a command line take
_PERIODIC = ("pbc", "ur", "cluster_group", "center", "center_group", "fit", "fit_group", "bonds")
_OF_TRAJECTORY = ((UnselectedInputs, ("topology", "index_file", *_PERIODIC)), (FrameOptions, None), (Opening, None))
_OF_RUN = ((Workers, None), (Outputs, ("checkpoint", "checkpoint_interval", "report")))
_OF_ANALYSIS = ((Outputs, ("output", "output_format", "plot", "output_unit", "output_time_unit")),)
_OF_LISTS = ((ListOutputs, ("occupancy", "by")),)
_OF_LIFETIMES = ((LifetimeOutputs, ("lifetime", "tau_max", "window_step", "intermittency")),)
_OF_CLUSTERS = ((ClusterOutputs, ("clusters", "write_centers", "write_clusters")),)
_SELECTED = ((Inputs, ("select", "group")),)


@dataclass(frozen=True, eq=False)
class Key:
    """A key of a table.

    `convert`: returns the value for the option or argument; raises typer.BadParameter for an unsuitable value.
    `example`: a value that the key takes, for templates; the default if there is one.
    `argument`: the analysis's argument, if the key is one.
    """

    name: str
    convert: Callable[[Any], Any]
    help: str
    example: Any
    required: bool = False
    argument: Argument | None = None


def _refuse(expected: str, found: object) -> typer.BadParameter:
    return typer.BadParameter(f"expected {expected}, found {shown(found)}")


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse("true or false", value)
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refuse("a whole number", value)
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise _refuse("a number", value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise _refuse("text in quotes", value)
    return value


def _path(value: Any) -> Path:
    return Path(_text(value))


def _texts(value: Any) -> list[str]:
    if not isinstance(value, (str, list)) or not value:
        raise _refuse("text in quotes, or a list of it", value)
    return [_text(one) for one in ([value] if isinstance(value, str) else value)]


def _one_of(names: Sequence[str]) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if value not in names:
            raise _refuse(f"one of {', '.join(map(repr, names))}", value)
        return str(value)

    return convert


def _range_check(least: float, most: float, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if not least <= convert(value) <= most:
            raise _refuse(f"a number from {least:g} to {most:g}", value)
        return convert(value)

    return checked


def _or_word(words: Sequence[str], convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: value if value in words else convert(value)


def _numbers(least: float, most: float) -> Callable[[Any], list[float]]:
    checked = _range_check(least, most, _number)
    return lambda value: [checked(one) for one in (value if isinstance(value, list) else [value])]


def _two(convert: Callable[[Any], list[float]]) -> Callable[[Any], tuple[float, ...]]:
    def two(value: Any) -> tuple[float, ...]:
        if not isinstance(value, list) or len(value) != 2:
            raise _refuse("a list of two numbers", value)
        return tuple(convert(value))

    return two


def _selections(value: Any) -> list[Any]:
    """Texts as `select` takes them, and names of groups of the index file: {group = "C-alpha"}."""
    found = []
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            if list(one) != ["group"]:
                raise _refuse('{group = "NAME"}', one)
            _text(one["group"])
        found.append(one if isinstance(one, dict) else _text(one))
    return found


def _tuples(atoms_each: int) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, str):
            return _path(value)
        rows = value if isinstance(value, list) else []
        if not rows or not all(isinstance(row, list) and len(row) == atoms_each for row in rows):
            raise _refuse(f"the name of a file, or a list of lists of {atoms_each} atom numbers each", value)
        return [[_range_check(0, (1 << 32) - 1, _whole)(atom) for atom in row] for row in rows]

    return convert


# by the type of a command-line option: a check of a TOML value, and an example
_BY_TYPE: dict[Any, tuple[Callable[[Any], Any], Any]] = {
    bool: (_flag, False),
    int: (_whole, 1),
    float: (_number, 1.0),
    str: (_text, "TEXT"),
    Path: (_path, "FILE"),
    list[Path]: (lambda value: [Path(one) for one in _texts(value)], ["md.xtc"]),
}
_EXAMPLES: dict[str, Any] = {
    "topology": "top.psf", "index_file": "index.ndx", "select": "protein and name CA", "group": "C-alpha",
    "input_units": "length=nm,time=ps", "memory": "1 GiB", "node_cache": "/tmp/kinema-cache",
    "scheduler": "scheduler.json", "checkpoint": "job.checkpoint", "report": "report.json", "output": "NAME.csv",
    "plot": "NAME.png", "occupancy": "occupancy.csv", "by": "residue", "stop": -1, "particles": "all", "workers": 2,
    "clusters": "clusters.csv", "write_centers": "centers", "write_clusters": "clusters",
}  # fmt: skip


def _group_keys(groups: Sequence[tuple[type, Sequence[str] | None]]) -> Iterator[Key]:
    """The fields of groups of options."""
    for group, names in groups:
        hints = get_type_hints(group, include_extras=True)
        inherited = group.__dataclass_fields__  # type: ignore[attr-defined]
        for name in names or [one for one in inherited if one not in ("files", "trajectory")]:
            of_type, option = _option_of(hints[name])
            yield _option_key(name, of_type, option, inherited[name].default)


def _option_of(annotation: Any) -> tuple[Any, Any]:
    of_type, option = get_args(annotation)
    if get_origin(of_type) is not list and NoneType in get_args(of_type):
        (of_type,) = (one for one in get_args(of_type) if one is not NoneType)
    return of_type, option


def _option_key(name: str, of_type: Any, option: Any, default: Any) -> Key:
    if isinstance(of_type, EnumType):
        members = [str(one) for one in of_type.__members__]
        check: Callable[[Any], Any] = _one_of(members)
        parse: Any = of_type
        example: Any = members[0]
    else:
        check, example = _BY_TYPE[of_type]
        parse = option.parser
        if option.metavar and option.metavar.startswith("<"):
            example = option.metavar.strip("<>").partition("|")[0]
    given = _EXAMPLES.get(name, example) if default is None or default is False else default

    def convert(value: Any) -> Any:
        checked = check(value)
        return checked if parse is None else parse(checked)

    return Key(name, convert, option.help, given)


def _argument_key(argument: Argument) -> Key:
    option, kind = argument.option, argument.kind
    checks: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "flag": (_flag, False),
        "integer": (_range_check(option.least, option.most, _whole), max(0, int(option.least))),
        "number": (_or_word(option.choices, _range_check(option.least, option.most, _number)), max(0.0, option.least)),
        "choice": (_one_of(option.choices), option.choices[0] if option.choices else ""),
        "file": (_text, "reference.pdb"),
        "atoms": (_text, "protein and name CA"),
        "list of atoms": (_selections, ["protein and name CA", {"group": "C-alpha"}]),
        "list of numbers": (_numbers(option.least, option.most), [3.4, 5.0]),
        "two numbers": (_two(_numbers(option.least, option.most)), [max(0.0, option.least), 10.0]),
        "tuples": (_tuples(option.atoms_each), [list(range(option.atoms_each))]),
    }
    convert, example = checks[kind]
    if argument.written_default not in (None, ()):
        example = argument.written_default
    meaning = f"{option.help} Or a list of these, as atom indices from 0." if kind == "tuples" else option.help
    return Key(argument.name, convert, meaning, example, argument.required, argument)


def keys_of(analysis: Any) -> dict[str, Key]:
    """The keys of an analysis's [[analysis]], except its name."""
    selected = _group_keys(_SELECTED) if takes_select(analysis) else ()
    more = _OF_LISTS if analysis.is_list else _OF_CLUSTERS if analysis.has_clusters else ()
    outputs = (*_OF_ANALYSIS, *more, *(_OF_LIFETIMES if analysis.has_lifetime else ()))
    found = [*selected, *map(_argument_key, arguments_of(analysis)), *_group_keys(outputs)]
    return {key.name: key for key in found}


_FILES = Key("files", _BY_TYPE[list[Path]][0], "Trajectory files, parts of one in the order of time.", ["md.xtc"], True)
TRAJECTORY = {key.name: key for key in (_FILES, *_group_keys(_OF_TRAJECTORY))}
_OUT = Key("out", _path, "Values of all analyses, written to this .h5 file as they come.", "values.h5")
RUN = {key.name: key for key in (*_group_keys(_OF_RUN), _OUT)}
