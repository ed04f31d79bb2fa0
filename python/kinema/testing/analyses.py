"""All registered analyses with arguments made from their declarations, for `kinema.testing.solvated`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kinema.analysis.declaration import Argument, arguments_of, takes_select
from kinema.analysis.declared import DeclaredAnalysis
from kinema.analysis.registry import ANALYSES
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.trajectory import Trajectory

__all__ = ["every_analysis", "examples_of", "option_words"]

#: atoms of a peptide for analyses that take a selection
SOME_ATOMS = "resid 2:5"


def examples_of(analysis: type[DeclaredAnalysis]) -> list[dict[str, Any]]:
    """Constructor arguments for a peptide: the required ones, alone and with each optional one."""
    arguments = arguments_of(analysis)
    given = {one.name: next(_values(one)) for one in arguments if one.required}
    choices = [{one.name: value} for one in arguments if not one.required for value in _values(one)]
    # if one of several is required, the first that may be alone
    needed = next((one for one in ({}, *choices) if _may_be({**given, **one}, analysis)), {})
    given |= needed
    found = [given, *({**given, **one} for one in choices if one != needed and _may_be({**given, **one}, analysis))]
    found += [one for one in choices if needed and one != needed and _may_be(one, analysis)]
    if takes_select(analysis):
        found += [one for one in ({**given, "select": SOME_ATOMS} for given in found) if _may_be(one, analysis)][:1]
    return found


def _may_be(given: dict[str, Any], analysis: type[DeclaredAnalysis]) -> bool:
    """Whether the arguments do not exclude each other, and none is missing."""
    try:
        analysis.check_arguments(given)
    except ArgumentError:
        return False
    return True


def every_analysis(trajectory: Trajectory) -> list[DeclaredAnalysis]:
    """All registered analyses with all of their examples; notes are left out."""
    with collected():
        return [cls(trajectory, **given) for cls in ANALYSES.values() for given in examples_of(cls)]


def _values(argument: Argument) -> Iterator[Any]:
    """Values besides the default. Files of a reference have tests of their own."""
    match argument.kind:
        case "flag":
            yield not argument.default
        case "choice":
            yield from (None if one == "none" else one for one in argument.choices if one != argument.written_default)
        case "integer":
            yield int(max(1, argument.option.least))
        case "number":
            yield float(max(2.5, argument.option.least))
        case "atoms":
            yield SOME_ATOMS
        case "list of atoms":
            yield [SOME_ATOMS, "name CA"]
        case "tuples":
            # neighbours in the chain, overlapping
            each = argument.option.atoms_each
            yield np.arange(20)[:, None] * 2 + np.arange(each)


def option_words(analysis: type[DeclaredAnalysis], given: dict[str, Any], folder: Path) -> list[str]:
    """The words of the command line for arguments from `examples_of`; files that they read are written first."""
    words = []
    for one in arguments_of(analysis):
        if one.name not in given:
            continue
        value = given[one.name]
        match one.kind:
            case "flag":
                words += [one.flag] if value else [one.option.flag.partition("/")[2]]
            case "list of atoms":
                words += [word for text in value for word in (one.flag, text)]
            case "tuples":
                path = folder / f"{one.name}.txt"
                np.savetxt(path, np.asarray(value) + 1, fmt="%d")
                words += [one.flag, str(path)]
            case _:
                words += [one.flag, "none" if value is None else str(value)]
    return [*words, "--select", given["select"]] if "select" in given else words
