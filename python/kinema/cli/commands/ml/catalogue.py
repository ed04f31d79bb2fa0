"""`kinema ml catalogue`: one file that describes many trajectories. The work is `kinema.ml.catalogue`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kinema.base.errors import ArgumentError
from kinema.base.printable import printable
from kinema.cli import exit_codes
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import FileWorkers, parse_units, takes_groups
from kinema.cli.options.shared import one_of

_ACTIONS = ("make", "add", "check", "list")
_UNREADABLE = ("error", "leave-out")


@takes_groups
def catalogue(
    context: typer.Context,
    action: Annotated[str, typer.Argument(**one_of(_ACTIONS), help="Action.")],
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Files, folders or quoted patterns, each file a trajectory; for check and list, the catalogue."
        ),
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Catalogue to make, or to add to.")] = None,
    topology: options.Topology = None,
    particles: Annotated[
        str | None,
        typer.Option(
            "--particles", help="Groups to take from files with several, such as '*/320/*' for mdCATH; all by default."
        ),
    ] = None,
    unreadable: Annotated[
        str, typer.Option("--unreadable", **one_of(_UNREADABLE), help="Action for files that cannot be opened.")
    ] = "error",
    update: Annotated[bool, typer.Option("--update", help="For check: renew trajectories that changed.")] = False,
    format: options.InputFormat = None,
    input_units: options.InputUnits = None,
    timestep: options.Timestep = None,
    no_stored: options.NoStored = False,
    force: options.Force = False,
    workers: options.Workers = None,
    runner: options.Runner = None,
) -> None:
    """One file to open thousands of trajectories with; none of them is touched before it is read.

    make DATA... -o FILE; add DATA... -o FILE; check FILE [--update]; list FILE. The exit code of check is 1 if
    trajectories have changed, or are gone.
    """
    from kinema import ml

    command: Command = context.obj
    makes = action in ("make", "add")
    opening: dict[str, Any] = {"topology": topology, "format": format, "particles": particles}
    opening |= {"units": parse_units(input_units), "dt": timestep}
    if makes != (output is not None):
        raise ArgumentError(f"kinema ml catalogue {action} takes {'-o, the catalogue' if makes else 'no -o'}")
    _refuse_needless(action, {**opening, "no-stored": no_stored or None, "force": force or None}, update)
    on: dict[str, Any] = {"workers": workers, "progress": False if command.quiet else None}
    if runner is not None or command.ranks is not None:
        on["runner"] = FileWorkers(workers=workers, runner=runner).chosen(command)
    if makes:
        more = {"overwrite": force} if action == "make" else {}
        function: Any = ml.make_catalogue if action == "make" else ml.extend_catalogue
        done = function(data, output, **opening, stored=not no_stored, unreadable=unreadable, **more, **on)
        command.print_result(lambda: asdict(done), lambda: done)
    elif action == "check":
        report = ml.check_catalogue(_one(data), update=update, **on)
        command.print_result(report.as_dict, lambda: report)
        if not report.ok:
            raise typer.Exit(exit_codes.PROBLEMS)
    else:
        named = ml.Catalogue(_one(data))
        command.print_result(
            lambda: list(named.rows()), lambda: "\n".join(printable(_line(row)) for row in named.rows())
        )


def _refuse_needless(action: str, given: dict[str, Any], update: bool) -> None:
    """Raises ArgumentError for options that the action does not use."""
    if update and action != "check":
        raise ArgumentError(f"--update is for kinema ml catalogue check, and this is {action}")
    if action == "make":
        return
    names = {"units": "--input-units", "dt": "--timestep"}
    for name, value in given.items():
        if value is not None and (action in ("check", "list") or name == "force"):
            raise ArgumentError(f"{names.get(name, f'--{name}')} is not for kinema ml catalogue {action}; leave it out")


def _one(data: list[Path]) -> Path:
    if len(data) > 1:
        raise ArgumentError(f"this takes one catalogue, found {len(data)} names")
    return data[0]


def _line(row: dict[str, Any]) -> str:
    return f"{row['name']}: {row['frames']:,} frames of {row['atoms']:,} atoms"
