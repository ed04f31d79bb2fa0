"""Options for periodic boundaries, in every analysis and in `convert`; `kinema.base.choices` lists their values."""

from typing import Annotated, Any

import typer

from kinema.base.choices import CENTERS_OF, FITS, NOJUMP_COUNT, UNIT_CELLS
from kinema.cli.options.shared import one_of

_PERIODIC = "Periodic boundaries"
_OF_PERIODIC: dict[str, Any] = {"show_default": False, "rich_help_panel": _PERIODIC}

Pbc = Annotated[
    str | None,
    typer.Option(
        "--pbc",
        metavar="LIST",
        help="Steps, separated by commas: whole; nojump or displacement; cluster; mol, res or atom (into the cell).",
        **_OF_PERIODIC,
    ),
]
NojumpCount = Annotated[
    str | None,
    typer.Option(
        "--nojump-count",
        **one_of(NOJUMP_COUNT),
        help="Frames between which --pbc nojump counts jumps: all of the file (default), or the selected ones.",
        **_OF_PERIODIC,
    ),
]
NojumpReference = Annotated[
    str | None,
    typer.Option(
        "--nojump-reference",
        metavar="TEXT",
        help="Start of --pbc nojump: first (the first frame, default), or a structure that it is put nearest to.",
        **_OF_PERIODIC,
    ),
]
UnitCell = Annotated[
    str | None,
    typer.Option(
        "--ur",
        **one_of(UNIT_CELLS),
        help="Shape of the cell that --pbc mol, res and atom fill: rect by default.",
        **_OF_PERIODIC,
    ),
]
Centered = Annotated[
    bool, typer.Option("--center", help="Move a group to the middle of the cell.", rich_help_panel=_PERIODIC)
]
CenterGroup = Annotated[
    str | None,
    typer.Option(
        "--center-group",
        metavar="TEXT",
        help="Group to centre: a selection, or a group of -n; by default that of the fit, or the largest molecule.",
        **_OF_PERIODIC,
    ),
]
ClusterGroup = Annotated[
    str | None,
    typer.Option(
        "--cluster-group",
        metavar="TEXT",
        help="Molecules that stay together: a selection, or a group of -n.",
        **_OF_PERIODIC,
    ),
]
FitMode = Annotated[
    str | None,
    typer.Option(
        "--fit",
        **one_of(FITS),
        help="Superpose frames on the first; progressive: each on the superposed frame before it.",
        **_OF_PERIODIC,
    ),
]
FitGroup = Annotated[
    str | None,
    typer.Option(
        "--fit-group",
        metavar="TEXT",
        help="Atoms to fit by: a selection, or a group of -n; by default as --select, or the largest molecule.",
        **_OF_PERIODIC,
    ),
]
CentersOf = Annotated[
    str | None,
    typer.Option(
        "--centers",
        **one_of(CENTERS_OF),
        help="Replace atoms by centres of mass, after all other steps; --select then chooses among the centres.",
        **_OF_PERIODIC,
    ),
]
BondsOption = Annotated[
    str | None,
    typer.Option(
        "--bonds",
        metavar="guess|FILE",
        help="Bonds, if the topology has none: guessed from distances, or taken from another topology.",
        **_OF_PERIODIC,
    ),
]
