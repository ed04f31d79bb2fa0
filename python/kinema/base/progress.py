"""Progress: a bar on a terminal, calls to the user's own function, lines from MPI programs, or nothing.

It measures nothing that results depend on; in a pipe it prints nothing, but for programs whose launcher reads it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol, runtime_checkable

from kinema.base.errors import ArgumentError
from kinema.base.printable import printable

__all__ = ["NamesSlowest", "ProgressChoice", "Report", "report_slowest", "reporting"]

# done, total
Report = Callable[[int, int], None]
# True, None: a bar where stderr is a terminal; False: nothing; a function: called with (done, total)
ProgressChoice = bool | None | Report


# seconds before which a worker is not called slow: some begin later than others
_SETTLED = 1.0
# seconds between two lines
_BETWEEN_LINES = 10.0
# columns of a terminal from which on there is room for a long bar, and the two lengths
_WIDE, _LONG, _SHORT = 120, 40, 10


@runtime_checkable
class NamesSlowest(Protocol):
    """A progress function that also takes the slowest worker."""

    def slowest(self, worker: str, frames_per_second: float) -> None:
        """Called about ten times a second on runners whose workers are processes."""


def report_slowest(progress: object, frames: Mapping[str, int], seconds: float) -> None:
    """Reports the worker that has done the fewest frames in so many seconds, to a function that takes it."""
    if isinstance(progress, NamesSlowest) and len(frames) > 1 and seconds >= _SETTLED:
        worker = min(frames, key=lambda name: frames[name])
        progress.slowest(worker, frames[worker] / seconds)


@contextmanager
def reporting(
    choice: ProgressChoice, description: str, total: int, unit: str = "frames", *, launched: bool = False
) -> Iterator[Report | None]:
    """The function to report to while the context lasts, or None where no progress is shown.

    A function of the user's is called from the thread that started the work, about ten times a second. `launched`:
    stderr goes to a launcher such as mpiexec, which passes it on; then a line every ten seconds takes the bar's place.
    """
    description = printable(description)
    if callable(choice):
        yield choice
    elif choice is None or isinstance(choice, bool):
        if choice is not False and sys.stderr.isatty():
            with _bar(description, total, unit) as report:
                yield report
        else:
            yield _Lines(description, unit) if launched and choice is not False else None
    else:
        raise ArgumentError(f"progress is True, False, None or a function, found {type(choice).__name__}")


class _Speed:
    """Of what is done since the first report: what an earlier run has done took no time of this one."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def at(self, done: int) -> float:
        """Units a second; 0 at the first report."""
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
        began, before = self._first
        return max(0, done - before) / max(now - began, 1e-9)


class _Lines:
    """A line on stderr now and then."""

    def __init__(self, description: str, unit: str) -> None:
        self._description = description
        self._unit = unit
        self._speed = _Speed()
        self._slowest = ""
        self._told = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        speed = self._speed.at(done)
        if time.monotonic() - self._told < _BETWEEN_LINES:
            return
        self._told = time.monotonic()
        left = f", {timedelta(seconds=round((total - done) / speed))} left" if speed else ""
        line = f"{self._description}: {done:,} of {total:,} {self._unit}, {speed:,.0f} {self._unit}/s{left}"
        sys.stderr.write(f"{line}{self._slowest}\n")
        sys.stderr.flush()

    def slowest(self, worker: str, frames_per_second: float) -> None:
        self._slowest = f", slowest {worker}: {frames_per_second:,.0f}"


@contextmanager
def _bar(description: str, total: int, unit: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Slowest(ProgressColumn):
        """What is cut where the terminal is narrow, from its end."""

        def render(self, task: Task) -> Text:
            return Text(task.fields["slowest"], no_wrap=True, overflow="ellipsis")

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=_LONG if console.width >= _WIDE else _SHORT),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TextColumn("{task.fields[speed]:,.0f} " + unit + "/s"),
        TimeRemainingColumn(),
        Slowest(),
    )
    speed = _Speed()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(description, total=total, speed=0.0, slowest="")

        class Bar:
            def __call__(self, done: int, whole: int) -> None:
                progress.update(task, completed=done, total=whole, speed=speed.at(done))

            def slowest(self, worker: str, frames_per_second: float) -> None:
                progress.update(task, slowest=f"slowest {frames_per_second:,.0f}: {worker}")

        yield Bar()
