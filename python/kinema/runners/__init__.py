"""Runners spread the leaves of a plan over workers and merge what comes back.

They know no analysis by name and choose no frames.
"""

from kinema.runners.base import Outcome, Runner, choose_runner
from kinema.runners.processes import ProcessesRunner
from kinema.runners.serial import SerialRunner
from kinema.runners.threads import ThreadsRunner
from kinema.runners.timings import RoundTimings, Timings, WorkerTimings

__all__ = [
    "Outcome",
    "ProcessesRunner",
    "RoundTimings",
    "Runner",
    "SerialRunner",
    "ThreadsRunner",
    "Timings",
    "WorkerTimings",
    "choose_runner",
]
