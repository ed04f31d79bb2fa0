"""One run of an experiment, as a program: `python -m kinema.studies.one_run SETTINGS.json`.

On the ranks of an MPI launcher, rank 0 runs it and the others serve. It prints nothing; its result is the report.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from kinema.base.errors import Error, says_enough
from kinema.report import Report
from kinema.runners import Runner, choose_runner
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory

__all__ = ["main"]

_PROGRAMS = "kinema.studies.programs"
# task or reader -> module and function: only what the run needs is imported
_WORK = {
    "rmsd": ("analyses", "run_analyses"),
    "mdanalysis": ("mdanalysis_loop", "run_mdanalysis"),
    "split": ("tasks", "split_file"),
    "convert": ("tasks", "convert_file"),
    "empty": ("tasks", "empty_calls"),
}


def main(path: str) -> None:
    """Carries out the run that the settings file describes, and writes its report."""
    settings: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    # positions in memory are made now, in this process, and not when the run opens the trajectory
    made = open_trajectory(settings["files"], **settings["stated"]) if settings["in_memory"] else None
    options = {name: settings[name] for name in ("schedule", "gather", "oversubscribe") if settings[name]}
    if settings["scheduler"] is not None:
        from kinema.runners.dask.runner import Dask

        _run(settings, Dask(settings["scheduler"], **options))
    elif settings["runner"] != "mpi":
        _run(settings, choose_runner(settings["runner"], **options))
    else:
        from kinema.runners.mpi.runner import MPIRunner

        with MPIRunner(**options) as ranks:
            if ranks.is_root:
                _run(settings, ranks)
    del made


def _run(settings: dict[str, Any], runner: Runner) -> None:
    trajectory = open_trajectory(
        settings["files"],
        settings["topology"],
        overlap=settings["overlap"],
        **settings["stated"],
    )
    module, function = _WORK["mdanalysis" if settings["reader"] == "mdanalysis" else settings["task"]]
    work: Callable[[Mapping[str, Any], Trajectory, Runner], Report]
    work = getattr(import_module(f"{_PROGRAMS}.{module}"), function)
    work(settings, trajectory, runner).save(settings["report"])


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Exception as error:
        if not (isinstance(error, Error) and says_enough(error)):
            traceback.print_exc()
        named = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        # one line, the last, which is passed on to the user of the experiment; a worker's traceback is above it
        notes = [note.partition("Traceback (most recent")[0].strip(": \n") for note in getattr(error, "__notes__", ())]
        sys.exit(" ".join("; ".join([named, *notes]).split()))
