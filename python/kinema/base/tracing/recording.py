"""Start and end of a trace; spans and events of Python in it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Protocol
from weakref import WeakSet

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.notes import collected, emit
from kinema.base.printable import counted

# processes started meanwhile record as well
FOLDER_VARIABLE, COMPRESS_VARIABLE = "KINEMA_TRACE", "KINEMA_TRACE_COMPRESS"
_NO_SPAN: AbstractContextManager[Any] = nullcontext()


class Trace:
    """A trace that is recorded, from the call of `kinema.trace` to the end of its `with` block or `stop`.

    `folder`: folder of the files of all processes.
    `path`: the file of this process, after the trace has ended; None if nothing happened.
    `events`, `lost`: events of this process that are in the file, and events that could not be written.
    """

    def __init__(self, folder: str | os.PathLike[str], compress: bool = False) -> None:
        # runs may change their working folder
        self.folder = os.path.abspath(os.fspath(folder))
        self.path: str | None = None
        self.events = self.lost = 0
        _core.trace_start(self.folder, compress)
        _describe_folder()
        self._before = {name: os.environ.get(name) for name in (FOLDER_VARIABLE, COMPRESS_VARIABLE)}
        os.environ[FOLDER_VARIABLE] = self.folder
        os.environ[COMPRESS_VARIABLE] = "1" if compress else "0"
        self._stopped = False

    def stop(self) -> None:
        """Ends the trace: all recorded events are then in the files. A second call does nothing."""
        if self._stopped:
            return
        self._stopped = True
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        status = _end_journal()
        self.path, self.events, self.lost = status["path"], status["events"], status["lost"]

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()

    def __str__(self) -> str:
        return f"trace: {counted(self.events, 'event')} of this process in {self.path or self.folder}"


def trace(folder: str | os.PathLike[str], compress: bool = False) -> Trace:
    """Records what Kinema does into files of a folder, one a process, until the `with` block ends or `stop` is called.

    Worker processes that Kinema starts meanwhile record as well. The files are in the Chrome dialect of DFTracer, which
    Perfetto, DFAnalyzer and `kinema report` read; a run that is killed leaves whole lines.

    Parameters
    ----------
    folder : path
        Created if it does not exist. The file `kinema-HOST-PID.pfw` is created with the first event.
    compress : bool
        `.pfw.gz`: gzip members of about 1 MiB.

    Raises
    ------
    kinema.Error
        If the folder cannot be made or written.
    ArgumentError
        If a trace is already being recorded, also by `KINEMA_TRACE`.

    Examples
    --------
    >>> with kn.trace("traces"):
    ...     rmsd = kn.analysis.RMSD(traj, select="name CA").run()
    """
    return Trace(folder, compress)


def begin_of_environment() -> None:
    """Takes over the trace that `KINEMA_TRACE` started when `_core` was imported; notes why there is none."""
    if _core.TRACE_ERROR is not None and not _is_command():
        emit([f"{FOLDER_VARIABLE}: {_core.TRACE_ERROR}; no trace is recorded"])
    elif _core.TRACE_ERROR is None:
        _describe_folder()
        atexit.register(_end_journal)


def _is_command() -> bool:
    """Whether this is the command line, which ends with the error."""
    return os.path.basename(sys.argv[0] if sys.argv else "") in ("kinema", "-m")


def _end_journal() -> _core.TraceStatus:
    """Ends the journal of this process, and notes missing events."""
    for one in list(_OPEN):
        one.finish()
    status = _core.trace_stop()
    if status["failure"] is not None:
        emit([_failure_note(status)])
    return status


@contextmanager
def traced(folder: str | None, show: Callable[[str], None]) -> Iterator[Trace | None]:
    """Context of a command with a trace in this folder, or by `KINEMA_TRACE`; `show` gets the notes at its end.

    Raises an error if the trace cannot be recorded: then the command does not begin.
    """
    if folder is None and _core.TRACE_ERROR is not None:
        raise ArgumentError(f"{FOLDER_VARIABLE}: {_core.TRACE_ERROR}")
    if folder is None and not _core.trace_enabled():
        yield None
        return
    # a trace by the environment has no file yet
    begun = _core.trace_stop()
    with collected(show), Trace(folder or begun["folder"] or "", begun["compress"]) as recording:
        yield recording


@dataclass(frozen=True)
class TraceOfRun:
    """The trace that a process records, for workers of its runs, which may have been started earlier or by others."""

    folder: str | None
    compress: bool

    @classmethod
    def current(cls) -> TraceOfRun:
        """The trace of this process."""
        status = _core.trace_flush() if _core.trace_enabled() else None
        return cls(None, False) if status is None else cls(status["folder"], status["compress"])

    def join(self, runner: str = "") -> None:
        """Makes this process, a worker, record into the same folder, and no longer into the folder of an earlier run.

        A worker that records by itself, because it was started with `KINEMA_TRACE`, continues that trace.
        """
        global _joined
        with _JOINING:
            recorded = _core.trace_enabled()
            if recorded and _joined is not None and _joined != self:
                _end_journal()
                recorded, _joined = False, None
            if self.folder is not None and not recorded:
                _core.trace_start(self.folder, self.compress)
                _describe_folder()
                _joined = self
        if runner and _core.trace_enabled():
            describe("runner", runner)

    @contextmanager
    def joined(self) -> Iterator[None]:
        """As `join`, for one call: after it, its events are in the file, however this process ends."""
        self.join()
        try:
            yield
        finally:
            if _core.trace_enabled():
                _core.trace_flush()


_JOINING = threading.Lock()
# the trace of another process into which this one records
_joined: TraceOfRun | None = None


def span(name: str, category: str, path: str | os.PathLike[str] | None = None, **numbers: Any) -> Any:
    """A `with` block recorded as an event of the trace, with these numbers (or text); costs nothing without a trace."""
    return _core.Span(name, category, path, **numbers) if _core.trace_enabled() else _NO_SPAN


def event(name: str, category: str, start_ns: int, ns: int, **numbers: Any) -> None:
    """Adds a finished event to the trace, if there is one: nanoseconds since the Unix epoch, and duration."""
    if ns < 0:
        raise ArgumentError(f"the duration of an event, expected 0 ns or more, found {ns}")
    _core.trace_event(name, category, start_ns, ns, **numbers)


def _measured_epoch() -> int:
    """Offset from the clock of `perf_counter_ns` to the clock of events; nothing came between the closest readings."""
    found = []
    for _ in range(9):
        before = time.perf_counter_ns()
        epoch = _core.trace_epoch_ns()
        after = time.perf_counter_ns()
        found.append((after - before, epoch - (before + after) // 2))
    return min(found)[1]


_EPOCH = _measured_epoch()


def lap(name: str, category: str, began: int, **numbers: Any) -> int:
    """Nanoseconds since `began`, a `time.perf_counter_ns` value; they become an event of the trace, if there is one."""
    ns = time.perf_counter_ns() - began
    if _core.trace_enabled():
        _core.trace_event(name, category, _EPOCH + began, ns, **numbers)
    return ns


class _Open(Protocol):
    """An object that becomes an event when it is over."""

    def finish(self) -> None:
        """Adds the event, once."""


_OPEN: WeakSet[_Open] = WeakSet()


def finish_with_trace(one: _Open) -> None:
    """Finishes an unfinished object when the trace of this process ends."""
    if _core.trace_enabled():
        _OPEN.add(one)


def describe(label: str, value: object) -> None:
    """Writes a fact about this process to the front of its file: its rank, its runner."""
    _core.trace_describe(label, str(value))


def _describe_folder() -> None:
    """Records the folder to which relative file names refer; nothing if the process began in a folder that is gone."""
    with suppress(FileNotFoundError):
        describe("cwd", os.getcwd())


def _failure_note(status: _core.TraceStatus) -> str:
    lost = counted(status["lost"], "event")
    return (
        f"{status['path'] or status['folder']}: the trace ends early, as it could not be written: {status['failure']}; "
        f"{lost} that had been recorded are lost, and nothing was recorded after that"
    )


def _flush_at_the_end_of(_anchor: object) -> None:
    """Writes the events of a `multiprocessing` child before it ends, because such a process ends in an unusual way."""
    from multiprocessing.util import Finalize

    Finalize(None, _core.trace_stop, exitpriority=0)


def _prepare_fork() -> None:
    """Makes children of `multiprocessing`, such as those of torch's loaders, write their events."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and _core.trace_enabled():
        util.register_after_fork(_prepare_fork, _flush_at_the_end_of)


os.register_at_fork(before=_prepare_fork)
