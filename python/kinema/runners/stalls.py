"""`Stall`: time that a worker with work has made no progress, and when to note it."""

from __future__ import annotations

from pathlib import Path

from kinema.base.frozen_dataclass import dataclass

# seconds without progress, for a worker that has work, before a note
NO_PROGRESS = 10.0
# share of these seconds between two looks at the worker's process
_LOOK = 0.1
# share of these seconds without CPU time after which the worker counts as idle
_IDLE = 0.5


@dataclass(frozen=True)
class Activity:
    """Activity of a process: whether it is stopped, as by SIGSTOP, and its CPU time so far, in clock ticks."""

    stopped: bool
    ticks: int


def activity(pid: int | None) -> Activity | None:
    """Activity of a process of this machine; None if it has ended, and on systems without /proc."""
    try:
        # the name of the program, in brackets, may hold anything
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return Activity(fields[0] in ("T", "t"), int(fields[11]) + int(fields[12]))
    except (OSError, IndexError, ValueError):
        return None


class Stall:
    """Counts the time for which one worker has made no progress although it had work."""

    def __init__(self) -> None:
        self.progressed()

    def progressed(self) -> None:
        """Restarts the time from zero: the worker has made progress, or has no work."""
        self.seconds = self._idle = self._unlooked = 0.0
        self._noted = False
        self._last: Activity | None = None

    def is_due(self, seconds: float, pid: int | None = None, *, reports: bool = True) -> bool:
        """Adds seconds without a report of progress; whether a note is due.

        `pid`: the worker's process, if it runs on this machine.
        `reports`: whether the worker reports progress at all. If not, use of CPU time counts as progress.
        """
        self.seconds += seconds
        self._unlooked += seconds
        if self._unlooked >= _LOOK * NO_PROGRESS:
            now = activity(pid)
            is_idle = now is not None and self._last is not None and now.ticks == self._last.ticks
            if not (reports or is_idle):
                self.progressed()
            self._idle = self._idle + self._unlooked if is_idle else 0.0
            self._last, self._unlooked = now, 0.0
        return not self._noted and self.seconds >= NO_PROGRESS

    def noted(self) -> None:
        """Records that the note was given; the next is due only after new progress."""
        self._noted = True

    def reason(self, pid: int | None) -> str:
        """Says in words what the worker's process does instead."""
        now = activity(pid)
        if now is not None and now.stopped:
            return "it is stopped, SIGCONT continues it"
        if self._idle >= _IDLE * NO_PROGRESS:
            return "it uses no CPU time: it waits for something, such as a lock or the storage"
        return "see whether it still runs"
