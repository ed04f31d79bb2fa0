"""Progress: a bar on a terminal, calls to the user's own function, or nothing.

It measures nothing that results depend on; in a pipe it prints nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kinema.errors import ArgumentError

__all__ = ["ProgressChoice", "Report", "reporting"]

# done, total
Report = Callable[[int, int], None]
# True, None: a bar where stderr is a terminal; False: nothing; a function: called with (done, total)
ProgressChoice = bool | None | Report


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

    speed = "{task.fields[speed]:>12,.0f} " + unit + "/s"
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TextColumn(speed),
        TimeRemainingColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total, speed=0.0)

        def report(done: int, whole: int) -> None:
            elapsed = max(time.monotonic() - began, 1e-9)
            progress.update(task, completed=done, total=whole, speed=done / elapsed)

        yield report
