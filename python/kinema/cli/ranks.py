"""The command on the ranks of an MPI program: rank 0 runs it, the others work for it and print nothing."""

import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace

from kinema.base.errors import ArgumentError, MissingPackageError
from kinema.cli import exit_codes
from kinema.cli.command_line import Command
from kinema.cli.stopping import replace_handler
from kinema.runners.mpi.launcher import Launch


def run_on_ranks(command: Command, launch: Launch, run: Callable[[Command], int]) -> int:
    """Runs the command on this rank. Returns the command's exit code on rank 0, else 0; 2 on all ranks if MPI fails.

    MPI fails if none is installed that fits the launcher.
    """
    # While MPI starts, a signal ends this rank at once, even within MPI's own code, which waits endlessly for the
    # other ranks and lets no Python handler run. The launcher then ends the other ranks.
    before = {number: replace_handler(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with warnings.catch_warnings():
            # mpi4py also warns that the launcher is another library's; the error below says what to do
            warnings.filterwarnings("ignore", "suspicious MPI execution environment", RuntimeWarning)
            from kinema.runners.mpi.runner import MPIRunner
        ranks = MPIRunner()
    except (ArgumentError, MissingPackageError) as error:
        # the launcher numbers the ranks even without MPI
        if launch.rank == 0:
            print(f"kinema: {error}", file=sys.stderr)
        return exit_codes.BAD_INPUT
    with ranks:
        if not ranks.is_root:
            return exit_codes.DONE
        for number, handler in before.items():
            signal.signal(number, handler)
        code = run(replace(command, ranks=ranks))
        if code in (exit_codes.INTERRUPTED, exit_codes.TERMINATED):
            ranks.stop_code = code
        return code


def stopped_early(launch: Launch, code: int) -> int:
    """The exit code of a rank that got a signal before MPI had started; rank 0 prints a line.

    If MPI has begun to start, it aborts all ranks: some may wait for this one, and MPI's end would wait for them.
    """
    if launch.rank == 0:
        print("kinema: stopped", file=sys.stderr, flush=True)
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.Get_size() > 1:
        mpi.COMM_WORLD.Abort(code)
    return code
