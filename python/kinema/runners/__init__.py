"""Runners spread the leaves of a plan over workers and merge what comes back.

They know no analysis by name and choose no frames. `ProcessesRunner` is imported when it is chosen: most runs do
without what it needs to start processes.
"""

from kinema.runners.base import Outcome, Runner, TaskRunner, choose_runner
from kinema.runners.gathering import Gathering, PieceLimit
from kinema.runners.serial import SerialRunner
from kinema.runners.threads import ThreadsRunner
from kinema.runners.timings import RoundTimings, Timings, WorkerTimings

__all__ = [
    "Gathering",
    "Outcome",
    "PieceLimit",
    "RoundTimings",
    "Runner",
    "SerialRunner",
    "TaskRunner",
    "ThreadsRunner",
    "Timings",
    "WorkerTimings",
    "choose_runner",
]
