"""Options of commands that emulate a cluster."""

from functools import partial
from typing import Annotated

import typer

from kinema.cli import numbers
from kinema.studies.lab import PLATFORMS

laboratory = partial(typer.Option, rich_help_panel="Laboratory")

Lab = Annotated[str | None, laboratory("--lab", help=f"Emulate a cluster: {', '.join(PLATFORMS)} or FILE.toml.")]

Nodes = Annotated[
    int | None,
    laboratory(
        "--nodes",
        **numbers.whole(1, numbers.MOST_WORKERS),
        help="Its nodes; a core for each rank by default.",
    ),
]
