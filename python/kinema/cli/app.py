"""The typer application: which commands there are, and what all of them share.

The commands themselves are a file each, those of a group (`kinema ml ...`) in a folder; analyses are made of what they
declare, by one file. Only the one that is called is imported, as typer takes its time for each.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from kinema.analysis.registry import ANALYSES
from kinema.cli.single_options import SingleOptionsCommand
from kinema.errors import ArgumentError

# in the order of --help; each is a function in a module of its name, with _ for -, but for analyses
COMMANDS = (
    "info", *ANALYSES, "check", "index", "convert", "repack", "split", "join", "formats", "demo",
    "report", "trace", "scaling", "bench-write", "cache", "ml",
)  # fmt: skip
# those of them that are groups: packages with COMMANDS of their own, and a docstring for --help
GROUPS = ("cache", "ml")
# options that have another name now
_RENAMED = {(command, "--group"): "--particles" for command in ("info", "repack", "split", "join")} | {
    ("scaling", "--cache"): "--page-cache"
}


def refuse_renamed(words: list[str]) -> None:
    """ArgumentError with the new name of an option that has moved."""
    for word in words[1:]:
        new = _RENAMED.get((words[0], word.partition("=")[0]))
        if new is not None:
            raise ArgumentError(f"{word.partition('=')[0]} of kinema {words[0]} is called {new} now")


def application(words: list[str]) -> typer.Typer:
    """The application with the command that the words name, or with all of them where they name none."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="--quiet, --json, --debug and --trace may stand anywhere on the line. "
        "Exit codes: 0 done, 1 problems found, 2 bad input, 130 Ctrl-C, 143 SIGTERM.",
    )
    app.callback()(_kinema)
    _add_commands(app, "kinema.cli.commands", COMMANDS, words)
    return app


def path_of(words: list[str]) -> tuple[str, ...]:
    """The words that name a command: one, or a group and one of its commands; () where there is no such command."""
    if words[:1] and words[0] in GROUPS:
        return tuple(words[:2]) if words[1:] and words[1] in _commands_of(words[0]) else ()
    return tuple(words[:1]) if words[:1] and words[0] in COMMANDS else ()


def _commands_of(group: str) -> Sequence[str]:
    found: Sequence[str] = import_module(f"kinema.cli.commands.{group}").COMMANDS
    return found


def _add_commands(app: typer.Typer, package: str, commands: Sequence[str], words: list[str]) -> None:
    """Adds the command that the first word names, or all of them where it names none."""
    for name in words[:1] if words[:1] and words[0] in commands else commands:
        python_name = name.replace("-", "_")
        if commands is COMMANDS and name in ANALYSES:
            analyses = import_module(f"{package}.analyses")
            of = analyses.listed_command if words[:1] in (["--help"], ["-h"]) else analyses.command_of
            app.command(name, cls=SingleOptionsCommand)(of(ANALYSES[name]))
            continue
        module = import_module(f"{package}.{python_name}")
        if name in GROUPS:
            group = typer.Typer(no_args_is_help=True, help=module.__doc__)
            # without a callback typer would take a group of one command for that command
            group.callback()(_group)
            _add_commands(group, module.__name__, module.COMMANDS, words[1:] if words[:1] == [name] else [])
            app.add_typer(group, name=name)
        else:
            app.command(name, cls=SingleOptionsCommand)(getattr(module, python_name))


def _print_version(wanted: bool) -> None:
    if wanted:
        import kinema

        print(f"kinema {kinema.__version__}")
        raise typer.Exit


def _kinema(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    # the four below are taken out of the line before typer sees it; they stand here for --help
    _quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    _json: Annotated[bool, typer.Option("--json", help="Print a summary for machines on stdout.")] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
    _trace: Annotated[
        str | None,
        typer.Option("--trace", metavar="DIR", help="Record a trace of all events in this folder."),
    ] = None,
) -> None:
    """Read and analyse molecular-dynamics trajectories at the speed of the storage."""


def _group() -> None:
    pass
