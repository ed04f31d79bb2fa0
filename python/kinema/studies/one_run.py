"""One run of an experiment, as a program: `python -m kinema.studies.one_run SETTINGS.json`.

On the ranks of an MPI launcher, rank 0 runs it and the others serve. It prints nothing; its result is the report.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kinema.analysis import RMSD
from kinema.base.errors import Error, says_enough
from kinema.execution.run import run
from kinema.runners import Runner, choose_runner
from kinema.trajectory.opening import open as open_trajectory

__all__ = ["main"]


def main(path: str) -> None:
    """Carries out the run that the settings file describes, and writes its report."""
    settings: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    options = {name: settings[name] for name in ("schedule", "gather", "oversubscribe") if settings[name]}
    if settings["scheduler"] is not None:
        from kinema.runners.dask.runner import Dask

        _run(settings, Dask(settings["scheduler"], **options))
        return
    if settings["runner"] != "mpi":
        _run(settings, choose_runner(settings["runner"], **options))
        return
    from kinema.runners.mpi.runner import MPIRunner

    with MPIRunner(**options) as ranks:
        if ranks.is_root:
            _run(settings, ranks)


def _run(settings: dict[str, Any], runner: Runner) -> None:
    trajectory = open_trajectory(
        settings["files"],
        settings["topology"],
        overlap=settings["overlap"],
        **settings["stated"],
    )
    # the work multiplier: the same kernel runs this many times over each block that is read
    analyses = [RMSD(trajectory, settings["select"]) for _ in range(settings["workload"])]
    frames = {name: settings[name] for name in ("start", "stop", "step")}
    workers = None if settings["runner"] == "mpi" else settings["workers"]
    how = {name: settings[name] for name in ("access", "memory")}
    run(analyses, **frames, **how, workers=workers, runner=runner, progress=False)
    analyses[0].report(extra=settings["extra"]).save(settings["report"])


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Error as error:
        if not says_enough(error):
            raise
        # one line, which is passed on to the user of the experiment
        sys.exit("; ".join([str(error), *getattr(error, "__notes__", ())]))
