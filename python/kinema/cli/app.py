"""The typer application: the list of commands, and what they share.

Each command is a file, each group (`kinema ml ...`) a folder of files; one file makes the commands of all analyses from
their declarations. Only the called command is imported, because typer is slow to build each.
"""

import difflib
import functools
import os
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

import kinema
from kinema.analysis.registry import ANALYSES
from kinema.base.errors import ArgumentError
from kinema.cli.options.single import SingleOptionsCommand

# in the order of --help; each, except the analyses, is a function in a module of its name, with _ for -
COMMANDS = (
    "info", *ANALYSES, "summarise", "histogram2d", "run", "check", "index", "convert", "repack", "split", "join",
    "formats", "demo", "report", "trace", "scaling", "bench-write", "cache", "ml", "doctor",
)  # fmt: skip
# commands that are groups: packages with COMMANDS of their own, and a docstring for --help
GROUPS = ("cache", "ml")
# folders of modules of commands that are not groups
_FOLDERS = {"summarise": "results", "histogram2d": "results"}
# options that have another name now
_RENAMED = {(command, "--group"): "--particles" for command in ("info", "repack", "split", "join")} | {
    ("scaling", "--cache"): "--page-cache"
}
# names that other programs (gmx, cpptraj, MDAnalysis, MDTraj, VMD) use for a command, without hyphens and underscores
_CALLED_OTHERWISE = {
    "analyze": "the command of a quantity, such as rmsd", "trajectory": "info", "dump": "info", "stat": "info",
    "rms": "rmsd", "rmsdtraj": "rmsd", "rmsfluct": "rmsf", "fluct": "rmsf", "atomicfluct": "rmsf", "bfactor": "rmsf",
    "averagestructure": "average", "mean": "average",
    "gyrate": "rgyr", "radgyr": "rgyr", "rg": "rgyr", "radiusofgyration": "rgyr",
    "principal": "gyration", "inertia": "gyration", "shape": "gyration", "asphericity": "gyration",
    "traj": "centers", "com": "centers", "cog": "centers", "centre": "centers", "centerofmass": "centers",
    "distance": "distances", "dist": "distances", "pairdist": "distances", "atomicdistances": "distances",
    "polystat": "end-to-end", "e2e": "end-to-end",
    "angle": "angles", "gangle": "angles or vectors", "bundle": "vectors", "tilt": "vectors", "vector": "vectors",
    "principalaxes": "vectors",
    "dihedral": "dihedrals", "chi": "dihedrals", "torsion": "dihedrals", "torsions": "dihedrals",
    "rama": "ramachandran",
    "hbond": "hbonds", "hydrogenbonds": "hbonds", "hbondanalysis": "hbonds", "waterbridge": "water-bridges",
    "densityanalysis": "density", "volmap": "density", "spatial": "density", "densmap": "density",
    "lineardensity": "density-profile", "potential": "density-profile --potential",
    "densityprofile": "density-profile", "sq": "structure-factor", "saxs": "structure-factor",
    "rms2d": "rmsd-matrix", "2drms": "rmsd-matrix", "distancematrix": "rmsd-matrix", "diffusionmap": "rmsd-matrix",
    "clustering": "cluster", "cluster2": "cluster", "clusters": "cluster",
    "correl": "dccm", "crosscorrelation": "dccm",
    "surf": "sasa", "molsurf": "sasa", "shrakerupley": "sasa", "buried": "buried-area",
    "covar": "pca", "anaeig": "pca", "dodssp": "dssp", "secstruct": "dssp", "helix": "dssp",
    "contacts": "native-contacts", "contact": "native-contacts", "saltbr": "salt-bridges", "watershell": "shells",
    "radial": "rdf", "gofr": "rdf", "interrdf": "rdf", "interrdfs": "rdf-sites",
    "neighbours": "neighbors", "mdmat": "contact-map", "contactmap": "contact-map",
    "summarize": "summarise", "stats": "summarise", "statistics": "summarise", "averages": "summarise",
    "blocks": "summarise", "sham": "histogram2d", "hist": "histogram2d", "histogram": "histogram2d",
    "freeenergy": "histogram2d", "fes": "histogram2d",
    "trjconv": "convert, to which --pbc, --fit, --select, -b, -e and --dt belong", "trajout": "convert",
    "mdconvert": "convert", "catdcd": "convert or join", "editconf": "convert", "write": "convert",
    "strip": "convert --select",
    "trjcat": "join", "cat": "join", "concat": "join", "merge": "join",
    "bench": "scaling, bench-write or ml bench", "benchmark": "scaling, bench-write or ml bench",
    "profile": "any command with --report, and report", "job": "run", "batch": "run", "export": "ml export",
    "fit": "the option --fit", "align": "the option --fit", "superpose": "the option --fit",
    "wrap": "the option --pbc", "unwrap": "the option --pbc", "image": "the option --pbc",
    "autoimage": "the options --pbc and --center", "pbc": "the option --pbc", "nojump": "the option --pbc nojump",
    "center": "the option --center", "select": "the option --select", "makendx": "the option --select",
    "version": "the option --version", "help": "the option --help",
}  # fmt: skip
# quantities without a command
_ABSENT = {
    "mean square displacements": ("msd", "diffusion"),
    "energies": ("energy", "eneconv"),
}
# options of GROMACS that have another name here
_SHORT = {"sel": "select", "skip": "step", "tu": "output-time-unit"}


def refuse_unknown(words: list[str]) -> None:
    """Raises ArgumentError for a word that is not a command; the message suggests Kinema's name for it."""
    if not words or words[0].startswith("-") or words[0] in COMMANDS:
        return
    word = words[0]
    plain = word.lower().replace("-", "").replace("_", "")
    absent = next((what for what, names in _ABSENT.items() if plain in names), None)
    if absent is not None:
        raise ArgumentError(
            f"{word!r} is not a command, as kinema computes no {absent} yet; it computes {', '.join(ANALYSES)}, and in "
            "Python any function of a frame: kinema.analysis.from_function (see kinema --help)"
        )
    near = difflib.get_close_matches(word.lower(), COMMANDS, n=3)
    here = _CALLED_OTHERWISE.get(plain) or next((name for name in COMMANDS if name.replace("-", "") == plain), None)
    if here is not None:
        hint = f"here it is {here}"
    else:
        hint = f"did you mean {' or '.join(near)}?" if near else f"expected one of {', '.join(COMMANDS)}"
    raise ArgumentError(f"{word!r} is not a command; {hint} (see kinema --help)")


def refuse_single_hyphens(words: list[str], options: Collection[str]) -> None:
    """Raises ArgumentError for -select and the like, as GROMACS and VMD spell the command's `options`."""
    own = words[: words.index("--")] if "--" in words else words
    for word in own[1:]:
        given = word.partition("=")[0]
        name = _SHORT.get(given[1:], given[1:])
        if word.startswith("-") and len(name) > 1 and f"--{name}" in options:
            raise ArgumentError(f"{given} is --{name} here: options of several letters begin with two hyphens")


def refuse_renamed(words: list[str]) -> None:
    """Raises ArgumentError for a renamed option, with the new name."""
    for word in words[1:]:
        new = _RENAMED.get((words[0], word.partition("=")[0]))
        if new is not None:
            raise ArgumentError(f"{word.partition('=')[0]} of kinema {words[0]} is called {new} now")


@functools.cache
def parser_of(words: tuple[str, ...]) -> Any:
    """The parser for a line that begins with these words; cached, because typer is slow and notes need it again."""
    return typer.main.get_command(application(list(words)))


def complete(variable: str) -> int:
    """Prints the words that may complete a shell's line, in the form of typer's script for that shell.

    `variable` is the environment variable that names the shell. Returns the exit code.
    """
    from typer._completion_classes import completion_init
    from typer.completion import shell_complete

    completion_init()
    # bash gives the line in the first of these, the others in the second
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()[1:]
    # the last word is still being typed: it may be the beginning of another command
    return int(shell_complete(parser_of(path_of(words[:-1])), {}, "kinema", variable, os.environ[variable]))


def print_or_install_completion(words: list[str], variable: str) -> bool:
    """Does what `--show-completion SHELL` and `--install-completion SHELL` ask for; False for all other words.

    Without a name, typer finds out the shell that called. `variable` is the one that the script sets when it asks
    `complete`. Raises ArgumentError for an unknown shell.
    """
    if len(words) != 2 or words[0] not in ("--show-completion", "--install-completion"):
        return False
    from typer._completion_shared import Shells, get_completion_script, install

    shell = words[1]
    if shell not in (known := [one.value for one in Shells]):
        raise ArgumentError(f"{shell!r} is not a shell that {words[0]} knows; expected one of {', '.join(known)}")
    if words[0] == "--show-completion":
        print(get_completion_script(prog_name="kinema", complete_var=variable, shell=shell))
    else:
        _, path = install(shell=shell, prog_name="kinema", complete_var=variable)
        print(f"written: {path}; start a new shell to use it")
    return True


def application(words: list[str]) -> typer.Typer:
    """The application with the command that the words name, or with all commands if they name none."""
    app = typer.Typer(
        no_args_is_help=True,
        # --install-completion and --show-completion, which stand before any command
        add_completion=not path_of(words),
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="--quiet, --json, --debug and --trace may stand anywhere on the line. "
        "Exit codes: 0 done, 1 problems found, 2 bad input, 130 Ctrl-C, 143 SIGTERM.",
    )
    app.callback()(_kinema)
    # to make all commands takes twice as long as the rest of a start
    if words[:1] != ["--version"]:
        _add_commands(app, "kinema.cli.commands", COMMANDS, words)
    return app


def path_of(words: list[str]) -> tuple[str, ...]:
    """The words that name a command: one, or a group and one of its commands; () if there is no such command."""
    if words[:1] and words[0] in GROUPS:
        return tuple(words[:2]) if words[1:] and words[1] in _commands_of(words[0]) else ()
    return tuple(words[:1]) if words[:1] and words[0] in COMMANDS else ()


def _commands_of(group: str) -> Sequence[str]:
    found: Sequence[str] = import_module(f"kinema.cli.commands.{group}").COMMANDS
    return found


def _add_commands(app: typer.Typer, package: str, commands: Sequence[str], words: list[str]) -> None:
    """Adds the command that the first word names, or all commands if it names none."""
    for name in words[:1] if words[:1] and words[0] in commands else commands:
        python_name = name.replace("-", "_")
        if commands is COMMANDS and name in ANALYSES:
            analyses = import_module(f"{package}.analyses")
            of = analyses.listed_command if words[:1] in (["--help"], ["-h"]) else analyses.command_of
            app.command(name, cls=SingleOptionsCommand)(of(ANALYSES[name]))
            continue
        folder = f".{_FOLDERS[name]}" if commands is COMMANDS and name in _FOLDERS else ""
        module = import_module(f"{package}{folder}.{python_name}")
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
        print(f"kinema {kinema.__version__}")
        raise typer.Exit


def _kinema(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    # the next four are for --help only: `prepare` takes them out of the line before typer sees it
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
