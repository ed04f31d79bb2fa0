"""The typer application: which commands there are, and what all of them share.

The commands themselves are a file each; they import what they need when they are called.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from kinema.cli import check, demo, formats, index, info, rgyr, rmsd, rmsf

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="--quiet, --json and --debug may stand anywhere on the line. "
    "Exit codes: 0 done, 1 problems found, 2 bad input, 130 Ctrl-C, 143 SIGTERM.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        import kinema

        print(f"kinema {kinema.__version__}")
        raise typer.Exit


@app.callback()
def kinema(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    # the three below are taken out of the line before typer sees it; they stand here for --help
    _quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    _json: Annotated[bool, typer.Option("--json", help="Print a summary for machines on stdout.")] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
) -> None:
    """Read and analyse molecular-dynamics trajectories at the speed of the storage."""


_COMMANDS: dict[str, Callable[..., None]] = {
    "info": info.info,
    "rmsd": rmsd.rmsd,
    "rmsf": rmsf.rmsf,
    "rgyr": rgyr.rgyr,
    "check": check.check,
    "index": index.index,
    "formats": formats.formats,
    "demo": demo.demo,
}
for name, function in _COMMANDS.items():
    app.command(name)(function)
