"""Options of experiments on standing clusters and batch systems."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass

__all__ = ["ClusterRuns", "Launcher", "words_of"]

_CLUSTERS = "Clusters"

Launcher = Annotated[
    str | None,
    typer.Option(
        "--launcher",
        help="With MPI: the program that starts ranks, with its options: 'srun --mpi=pmix'; mpiexec by default.",
        show_default=False,
        rich_help_panel=_CLUSTERS,
    ),
]


@dataclass(frozen=True, eq=False, repr=False)
class ClusterRuns:
    """Where the runs are: a Dask cluster that is there, ranks of a launcher, jobs of a batch system."""

    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            help="With the runner dask: the scheduler of a cluster that is there, tcp://host:port or its file.",
            show_default=False,
            rich_help_panel=_CLUSTERS,
        ),
    ] = None
    launcher: Launcher = None
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            help="slurm or pbs: write a job script for each number of --batch-nodes, and run nothing.",
            show_default=False,
            rich_help_panel=_CLUSTERS,
        ),
    ] = None
    batch_nodes: Annotated[
        str | None,
        typer.Option(
            "--batch-nodes", help="Numbers of nodes for --batch: 1,2,4.", show_default="1", rich_help_panel=_CLUSTERS
        ),
    ] = None
    batch_options: Annotated[
        str | None,
        typer.Option(
            "--batch-options",
            help="For the scripts of --batch: '--partition=compute --time=01:00:00'.",
            show_default=False,
            rich_help_panel=_CLUSTERS,
        ),
    ] = None
    submit: Annotated[bool, typer.Option("--submit", help="Submit the jobs of --batch.", rich_help_panel=_CLUSTERS)] = (
        False
    )
    collect: Annotated[
        Path | None,
        typer.Option(
            "--collect",
            help="Folder of --batch: show the reports of its jobs, and run nothing.",
            show_default=False,
            rich_help_panel=_CLUSTERS,
        ),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of a `Design`. Raises ArgumentError for options that do not fit together."""
        if self.batch is None:
            for name, value in (("--batch-nodes", self.batch_nodes), ("--batch-options", self.batch_options)):
                if value is not None:
                    raise ArgumentError(f"{name} is for the scripts of --batch, and there are none")
            if self.submit:
                raise ArgumentError("--submit is for the scripts of --batch, and there are none")
        return {"scheduler": self.scheduler, "launcher": words_of("--launcher", self.launcher)}


def words_of(option: str, text: str | None) -> tuple[str, ...]:
    """Words as a shell splits them. Raises ArgumentError for a quotation mark without its other."""
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as error:
        raise ArgumentError(f"{option} {text!r}: {str(error).lower()}") from None
