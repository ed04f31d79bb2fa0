"""Progress: a bar on a terminal or in a notebook, calls of a user's function, lines from MPI programs, or nothing.

No result depends on progress. In a pipe, such as a batch log, nothing is printed, unless a launcher reads the pipe.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

from kinema.base.errors import ArgumentError
from kinema.base.printable import printable

# done, total
Report = Callable[[int, int], None]
# True, None: a bar on a terminal and in a notebook; False: nothing; a function: called with (done, total)
ProgressChoice = bool | None | Report


# seconds before a worker is called slow: some begin later than others
_SETTLED = 1.0
# seconds between two lines, and between two updates of a notebook's bar
_BETWEEN_LINES, _BETWEEN_PICTURES = 10.0, 0.2
# least columns of a terminal with room for a long bar, and the two lengths
_WIDE, _LONG, _SHORT = 120, 40, 10


@runtime_checkable
class NamesSlowest(Protocol):
    """A progress function that also takes the slowest worker."""

    def slowest(self, worker: str, frames_per_second: float) -> None:
        """Called about ten times a second on runners whose workers are processes."""


def report_slowest(progress: object, frames: Mapping[str, int], seconds: float) -> None:
    """Reports the worker that has done the fewest frames in `seconds`, to a function that takes the slowest worker."""
    if isinstance(progress, NamesSlowest) and len(frames) > 1 and seconds >= _SETTLED:
        worker = min(frames, key=lambda name: frames[name])
        progress.slowest(worker, frames[worker] / seconds)


@contextmanager
def reporting(
    choice: ProgressChoice, description: str, total: int, unit: str = "frames", *, launched: bool = False
) -> Iterator[Report | None]:
    """Context with the function to report to, or None if no progress is shown.

    A user's function is called from the thread that started the work, about ten times a second. `launched`: stderr goes
    to a launcher such as mpiexec, which passes it on; then a line every ten seconds replaces the bar.
    """
    description = printable(description)
    if callable(choice):
        yield choice
    elif choice is None or isinstance(choice, bool):
        if choice is not False and sys.stderr.isatty():
            with _bar(description, total, unit) as report:
                yield report
        elif choice is not False and (display := _notebook_display()) is not None:
            bar = _NotebookBar(display, description, unit)
            try:
                yield bar
            finally:
                bar.clear()
        else:
            yield _Lines(description, unit, _BETWEEN_LINES) if launched and choice is not False else None
    else:
        raise ArgumentError(f"progress is True, False, None or a function, found {type(choice).__name__}")


class _Speed:
    """Speed since the first report: work of an earlier run took no time of this one."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def rate(self, done: int) -> float:
        """Units a second; 0 at the first report."""
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
        began, before = self._first
        return max(0, done - before) / max(now - began, 1e-9)


class _Sentences:
    """Progress as a sentence now and then; a subclass shows it."""

    def __init__(self, description: str, unit: str, between: float) -> None:
        self._between = between
        self._description = description
        self._unit = unit
        self._speed = _Speed()
        self._slowest = ""
        self._shown = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        speed = self._speed.rate(done)
        if time.monotonic() - self._shown < self._between:
            return
        self._shown = time.monotonic()
        left = f", {timedelta(seconds=round((total - done) / speed))} left" if speed else ""
        text = f"{self._description}: {done:,} of {total:,} {self._unit}, {speed:,.0f} {self._unit}/s{left}"
        self.show(done, total, text + self._slowest)

    def show(self, done: int, total: int, text: str) -> None:
        raise NotImplementedError

    def slowest(self, worker: str, frames_per_second: float) -> None:
        self._slowest = f", slowest {worker}: {frames_per_second:,.0f}"


class _Lines(_Sentences):
    """A line on stderr now and then."""

    def show(self, done: int, total: int, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class _NotebookBar(_Sentences):
    """A bar below a notebook's cell, in one output, which is empty afterwards."""

    def __init__(self, display: Callable[..., Any], description: str, unit: str) -> None:
        super().__init__(description, unit, _BETWEEN_PICTURES)
        self._output = display({"text/plain": description}, raw=True, display_id=True)

    def show(self, done: int, total: int, text: str) -> None:
        from html import escape  # no terminal needs it

        bar = f'<progress value="{done}" max="{total}" style="width: 20em"></progress> {escape(text)}'
        self._output.update({"text/plain": text, "text/html": bar}, raw=True)

    def clear(self) -> None:
        self._output.update({"text/plain": "", "text/html": ""}, raw=True)


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's function that shows an object, if this program is a notebook; None in a terminal or a script."""
    # a notebook has imported IPython before
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display

    found: Callable[..., Any] = display
    return found


@contextmanager
def _bar(description: str, total: int, unit: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Slowest(ProgressColumn):
        """Text that is cut from its end if the terminal is narrow."""

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
                progress.update(task, completed=done, total=whole, speed=speed.rate(done))

            def slowest(self, worker: str, frames_per_second: float) -> None:
                progress.update(task, slowest=f"slowest {frames_per_second:,.0f}: {worker}")

        yield Bar()
