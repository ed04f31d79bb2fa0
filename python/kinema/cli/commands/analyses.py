"""The commands of analyses, such as `kinema rmsd`, each made from the declaration of its class.

There is no other list of their options: see `kinema.analysis.declaration`.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinema.analysis.declaration import Argument, arguments_of, takes_select
from kinema.base.errors import ArgumentError
from kinema.cli import numbers
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import (
    FollowedFiles,
    FrameOptions,
    Opening,
    Workers,
    takes_groups,
)
from kinema.cli.options.output_groups import outputs_of
from kinema.cli.periodic.inputs import Inputs, UnselectedInputs

if TYPE_CHECKING:
    import kinema as kn
    from kinema.analysis.declared import DeclaredAnalysis

# the type that typer converts a word to, by `Kind`
_TYPES: dict[str, Any] = {
    "flag": bool,
    "integer": int,
    "number": float,
    "choice": str,
    "file": Path,
    "tuples": Path,
    "atoms": str,
    "list of atoms": list[str],
    "list of numbers": list[float],
    "two numbers": tuple[float, float],
}


def command_of(analysis: "type[DeclaredAnalysis]") -> Callable[..., None]:
    """The command of an analysis as typer needs it."""
    arguments = arguments_of(analysis)

    def command(context: typer.Context, **given: Any) -> None:
        _run(context, analysis, arguments, given)

    groups: dict[str, Any] = {
        "context": typer.Context,
        "inputs": Inputs if takes_select(analysis) else UnselectedInputs,
        "window": FrameOptions,
        "workers": Workers,
        "opening": Opening,
        "following": FollowedFiles,
        "outputs": outputs_of(analysis),
    }
    parameters = [inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, annotation=groups[one]) for one in groups]
    parameters += [parameter for argument in arguments for parameter in _parameters(argument)]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__doc__ = analysis.summary
    return takes_groups(command)


def listed_command(analysis: "type[DeclaredAnalysis]") -> Callable[[], None]:
    """The command in the list of commands: its sentence without options, which are slow to build."""

    def command() -> None:
        raise AssertionError("a command that is called has options")

    command.__doc__ = analysis.summary
    return command


def _parameters(argument: Argument) -> Iterator[inspect.Parameter]:
    """The options of an argument: one; a list of atoms has a second option that names groups of the index file."""
    option, kind = argument.option, argument.kind
    shown: dict[str, Any] = {"help": option.help, "rich_help_panel": option.panel}
    default = argument.written_default if option.show_default else None
    if not option.show_default:
        shown["show_default"] = False
    if kind == "choice":
        shown |= options.one_of(option.choices)
    elif kind == "integer":
        shown |= numbers.whole(int(option.least), int(option.most))
    elif kind in ("number", "list of numbers", "two numbers"):
        shown |= numbers.decimal(option.least, option.most, option.choices)
    of_type = Any if kind == "number" and option.choices else _TYPES[kind]
    if argument.required:
        default = inspect.Parameter.empty
    elif default is None:
        of_type = of_type | None
    yield _parameter(option.flag, of_type, default, shown)
    if option.by_group:
        text = "The same, as a group of the index file; may be repeated."
        yield _parameter(option.by_group, list[str] | None, None, {**shown, "help": text})


def _parameter(flag: str, of_type: Any, default: Any, shown: dict[str, Any]) -> inspect.Parameter:
    annotation = Annotated[of_type, typer.Option(flag, **shown)]
    return inspect.Parameter(_name(flag), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _name(flag: str) -> str:
    """The parameter's name for an option: "align_select"."""
    return flag.partition("/")[0].lstrip("-").replace("-", "_")


def _run(
    context: typer.Context, analysis: "type[DeclaredAnalysis]", arguments: Sequence[Argument], given: dict[str, Any]
) -> None:
    """Opens the files, makes the analysis and runs it; `given` has the groups of options and the analysis's own."""
    from kinema.cli.analysis_run import open_inputs, run
    from kinema.model.selection.atom_tuples import read_atom_tuples

    written = {one.name: given.pop(_name(one.flag)) for one in arguments}
    groups = {one.name: given.pop(_name(one.option.by_group)) for one in arguments if one.option.by_group}
    values = {one.name: _value(one, written[one.name]) for one in arguments if _is_given(one, written[one.name])}
    analysis.check_arguments(values, followed=given["following"].follow)
    opened = {name: given[name] for name in ("inputs", "opening", "outputs", "workers", "following", "window")}
    files = [written[one.name] for one in arguments if one.kind in ("file", "tuples")]
    trajectory, atoms = open_inputs(context.obj, **opened, files=files)
    for one in arguments:
        if one.kind == "list of atoms":
            selected = _selections(trajectory, one, written[one.name], groups.get(one.name), given["inputs"].index_file)
            values |= {one.name: selected} if selected else {}
        elif one.kind == "tuples" and one.name in values:
            values[one.name] = read_atom_tuples(values[one.name], one.option.atoms_each)
    if takes_select(analysis):
        values["select"] = atoms
    run(context.obj, trajectory, analysis(trajectory, **values), **given)


def _is_given(argument: Argument, written: Any) -> bool:
    """Whether an option is on the line; if its default is shown, that value counts as not given."""
    return written is not None and not (argument.option.show_default and written == argument.written_default)


def _value(argument: Argument, written: Any) -> Any:
    """The written value as a Python value."""
    if argument.kind == "choice" and written == "none":
        return None
    return str(written) if isinstance(written, Path) else written


def _selections(
    trajectory: "kn.Trajectory",
    argument: Argument,
    texts: Sequence[str] | None,
    groups: Sequence[str] | None,
    index_file: Path | None,
) -> list["kn.Selection"]:
    if groups and index_file is None:
        raise ArgumentError(f"{argument.option.by_group} names groups of an index file; give the file with -n")
    selected = [trajectory.select(text) for text in texts or []]
    return selected + [trajectory.select(index_file=str(index_file), group=name) for name in groups or []]
