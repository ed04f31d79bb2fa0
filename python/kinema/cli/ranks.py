"""The command on the ranks of an MPI program: rank 0 carries it out, the others work for it and print nothing.

It is imported only where a launcher has started several processes.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace

from kinema.cli.command_line import Command
from kinema.errors import ArgumentError
from kinema.runners.mpi_launch import Launch

EXIT_BAD_INPUT = 2


def run_on_ranks(command: Command, launch: Launch, run: Callable[[Command], int]) -> int:
    """The exit code of this rank: that of the command on rank 0, else 0; 2 on all where there is no MPI that fits."""
    try:
        with warnings.catch_warnings():
            # mpi4py, too, says that the launcher is another library's; the error below says what to do
            warnings.filterwarnings("ignore", "suspicious MPI execution environment", RuntimeWarning)
            from kinema.runners.mpi import MPIRunner
        ranks = MPIRunner()
    except ArgumentError as error:
        # without MPI no rank knows of the others, but each knows its number from the launcher
        if launch.rank == 0:
            print(f"kinema: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    with ranks:
        return run(replace(command, ranks=ranks)) if ranks.leads else 0
