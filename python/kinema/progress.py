"""Progress: a bar on a terminal, calls to the user's own function, or nothing.

It measures nothing that results depend on; in a pipe it prints nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from kinema.errors import ArgumentError

__all__ = ["NamesSlowest", "ProgressChoice", "Report", "reporting", "tell_slowest"]

# done, total
Report = Callable[[int, int], None]
# True, None: a bar where stderr is a terminal; False: nothing; a function: called with (done, total)
ProgressChoice = bool | None | Report


# seconds before which a worker is not called slow: some begin later than others
_SETTLED = 1.0


@runtime_checkable
class NamesSlowest(Protocol):
    """A progress function that also wants to know who is slowest."""

    def slowest(self, worker: str, frames_per_second: float) -> None:
        """Called about ten times a second on runners whose workers are processes."""


def tell_slowest(progress: object, frames: Mapping[str, int], seconds: float) -> None:
    """Tells a function that wants to know which of several workers has done the fewest frames in so many seconds."""
    if isinstance(progress, NamesSlowest) and len(frames) > 1 and seconds >= _SETTLED:
        worker = min(frames, key=lambda name: frames[name])
        progress.slowest(worker, frames[worker] / seconds)


@contextmanager
def reporting(choice: ProgressChoice, description: str, total: int, unit: str = "frames") -> Iterator[Report | None]:
    """The function to report to while the context lasts, or None where nobody looks.

    A function of the user's is called from the thread that started the work, about ten times a second.
    """
    if callable(choice):
        yield choice
    elif choice is None or isinstance(choice, bool):
        if choice is False or not sys.stderr.isatty():
            yield None
        else:
            with _bar(description, total, unit) as report:
                yield report
    else:
        raise ArgumentError(f"progress is True, False, None or a function, found {type(choice).__name__}")


@contextmanager
def _bar(description: str, total: int, unit: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    speed = "{task.fields[speed]:>12,.0f} " + unit + "/s{task.fields[slowest]}"
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TextColumn(speed),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total, speed=0.0, slowest="")

        class Bar:
            def __call__(self, done: int, whole: int) -> None:
                elapsed = max(time.monotonic() - began, 1e-9)
                progress.update(task, completed=done, total=whole, speed=done / elapsed)

            def slowest(self, worker: str, frames_per_second: float) -> None:
                progress.update(task, slowest=f", slowest {worker}: {frames_per_second:,.0f}")

        yield Bar()
