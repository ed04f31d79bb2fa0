"""One run of an experiment, as a program: `python -m kinema.experiments.one_run SETTINGS.json`.

On the ranks of an MPI launcher rank 0 leads and the others work for it. It prints nothing; the report is its result.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kinema.analysis import RMSD, run
from kinema.errors import Error, says_enough
from kinema.opening import open as open_trajectory
from kinema.profile import report_of
from kinema.runners import Runner, choose_runner

__all__ = ["main"]


def main(path: str) -> None:
    """Runs what the file says and writes the report where it says."""
    told: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    options = {name: told[name] for name in ("schedule", "gather", "oversubscribe") if told[name]}
    if told["runner"] != "mpi":
        _run(told, choose_runner(told["runner"], **options))
        return
    from kinema.runners.mpi.runner import MPIRunner

    with MPIRunner(**options) as ranks:
        if ranks.leads:
            _run(told, ranks)


def _run(told: dict[str, Any], runner: Runner) -> None:
    trajectory = open_trajectory(told["files"], told["topology"], overlap=told["overlap"])
    # the work multiplier: the same kernel so many times over each block that is read
    analyses = [RMSD(trajectory, told["select"]) for _ in range(told["workload"])]
    frames = {name: told[name] for name in ("start", "stop", "step")}
    workers = None if told["runner"] == "mpi" else told["workers"]
    how = {name: told[name] for name in ("access", "memory")}
    run(analyses, **frames, **how, workers=workers, runner=runner, progress=False)
    report_of(analyses, extra=told["extra"]).save(told["report"])


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Error as error:
        if not says_enough(error):
            raise
        # one line, which is passed on to whoever runs the experiment
        sys.exit("; ".join([str(error), *getattr(error, "__notes__", ())]))
