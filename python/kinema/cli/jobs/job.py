"""`Job`: a checked job file; each mistake is an error that names its key."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import typer

from kinema.analysis.registry import ANALYSES
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.cli.jobs.keys import RUN, TRAJECTORY, Key, keys_of
from kinema.cli.jobs.text import JobText, Place, shown
from kinema.cli.jobs.untrusted import check_untrusted

if TYPE_CHECKING:
    from kinema.analysis.declared import DeclaredAnalysis

_TABLES = ("trajectory", "run", "analysis")
# in one pass
_MOST_ANALYSES = 1000


@dataclass(frozen=True, eq=False)
class JobAnalysis:
    """One [[analysis]].

    `number`: from 0, as in the file.
    `given`: values from the file, as options and arguments take them.
    """

    number: int
    name: str
    analysis: type[DeclaredAnalysis]
    given: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Job:
    """A job.

    `trajectory`, `run`: values from these tables, as options take them.
    """

    text: JobText
    trajectory: Mapping[str, Any]
    run: Mapping[str, Any]
    analyses: list[JobAnalysis]

    def error(self, number: int, what: str, key: str | None = None) -> ArgumentError:
        """An error that names an analysis, or one of its keys."""
        return self.text.error(("analysis", number) if key is None else ("analysis", number, key), what)


def checked_job(text: JobText) -> Job:
    """Checks a job file. Raises ArgumentError with the path of the first wrong key."""
    for name in text.data:
        if name not in _TABLES:
            raise text.error((name,), _unknown(name, _TABLES, "in a job file"))
    trajectory = _checked(text, ("trajectory",), text.data.get("trajectory", {}), TRAJECTORY, "[trajectory]")
    run = _checked(text, ("run",), text.data.get("run", {}), RUN, "[run]")
    tables = text.data.get("analysis", [])
    if not isinstance(tables, list) or not tables or len(tables) > _MOST_ANALYSES:
        what = "none" if tables == [] else shown(tables)
        raise text.error(("analysis",), f"expected a table [[analysis]] for each analysis, found {what}")
    return Job(text, trajectory, run, [_analysis(text, number, table) for number, table in enumerate(tables)])


def _analysis(text: JobText, number: int, table: Any) -> JobAnalysis:
    place: Place = ("analysis", number)
    if not isinstance(table, dict):
        raise text.error(place, f"expected a table [[analysis]], found {shown(table)}")
    name = table.get("name")
    if name is None:
        raise text.error(place, f"name is missing in [[analysis]], expected one of {', '.join(ANALYSES)}")
    if not isinstance(name, str) or name not in ANALYSES:
        raise text.error((*place, "name"), _unknown(name, tuple(ANALYSES), "as the name of an analysis"))
    analysis = ANALYSES[name]
    others = {key: value for key, value in table.items() if key != "name"}
    given = _checked(text, place, others, keys_of(analysis), f"[[analysis]] of {name}")
    arguments = {key: value for key, value in given.items() if keys_of(analysis)[key].argument is not None}
    try:
        analysis.check_arguments({key: None if value == "none" else value for key, value in arguments.items()})
    except ArgumentError as error:
        raise text.error(place, f"[[analysis]] of {name}: {error}") from None
    return JobAnalysis(number, name, analysis, given)


def _checked(text: JobText, place: Place, table: Any, keys: Mapping[str, Key], where: str) -> dict[str, Any]:
    """The values of a table as options take them."""
    if not isinstance(table, dict):
        raise text.error(place, f"expected a table {where}, found {shown(table)}")
    found = {}
    for name, value in table.items():
        if name not in keys:
            raise text.error((*place, name), _unknown(name, tuple(keys), f"in {where}"))
        try:
            found[name] = keys[name].convert(value)
        except (typer.BadParameter, ArgumentError) as error:
            message = error.message if isinstance(error, typer.BadParameter) else str(error)
            raise text.error((*place, name), f"{name} in {where}: {message}") from None
        check_untrusted(text, (*place, name), found[name])
    for key in keys.values():
        if key.required and key.name not in found:
            raise text.error(place, f"{key.name} is missing in {where}: {key.help}")
    return found


def _unknown(name: Any, names: tuple[str, ...], where: str) -> str:
    near = get_close_matches(str(name)[:100], names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{shown(name)} is not known {where}, expected one of {', '.join(names)}{hint}"
