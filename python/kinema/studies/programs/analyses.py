"""The analyses of a run by Kinema: the RMSD, or a function of the user's own, several times over each frame."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from kinema.analysis import RMSD
from kinema.analysis.base import Analysis
from kinema.analysis.custom import from_function
from kinema.base.errors import ArgumentError
from kinema.execution.run import run
from kinema.report import Report
from kinema.runners import Runner
from kinema.studies.programs.held_positions import held_by_workers
from kinema.trajectory import Trajectory

__all__ = ["run_analyses"]


def run_analyses(settings: Mapping[str, Any], trajectory: Trajectory, runner: Runner) -> Report:
    """Runs the analysis as often as the work multiplier says: over each block that is read."""
    analyses = [_analysis(settings, trajectory) for _ in range(settings["workload"])]
    frames = {name: settings[name] for name in ("start", "stop", "step")}
    workers = None if settings["runner"] == "mpi" else settings["workers"]
    how = {name: settings[name] for name in ("access", "memory")}
    in_workers = settings["in_memory"] and settings["runner"] in ("processes", "dask")
    with held_by_workers(settings, runner) if in_workers else nullcontext():
        run(analyses, **frames, **how, workers=workers, runner=runner, progress=False)
    return analyses[0].report(extra=settings["extra"])


def _analysis(settings: Mapping[str, Any], trajectory: Trajectory) -> Analysis:
    name = settings["analysis"]
    if name == "rmsd":
        return RMSD(trajectory, settings["select"])
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise
        raise ArgumentError(
            f"analysis {name}: no module {module} in {', '.join(sys.path)}; is PYTHONPATH set?"
        ) from None
    except AttributeError:
        raise ArgumentError(f"analysis {name}: {module} has no {function}") from None
    return from_function(found, trajectory, settings["select"])
