"""Workers that are stopped or hang: they are noted with their frames, and a signal ends them all the same."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.base import notes
from kinema.cli import main
from kinema.runners import stalls
from kinema.runners.local import worker, worker_pool
from kinema.runners.local.processes import ProcessesRunner
from kinema.runners.local.worker_server import WorkerProcess
from kinema.runners.stalls import Activity, Stall
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.children import all_ended, start_child

pytestmark = pytest.mark.usefixtures("nothing_left")

# seconds after which something that is waited for does not come any more
PATIENCE = 120


# -- when a note is due -----------------------------------------------------------------------------------------------


def test_a_note_is_due_once_after_ten_seconds_without_progress() -> None:
    stall = Stall()
    assert [stall.is_due(2.0) for _ in range(4)] == [False] * 4
    stall.progressed()
    assert [stall.is_due(2.0) for _ in range(4)] == [False] * 4
    assert stall.is_due(2.0)
    stall.noted()
    assert not stall.is_due(60.0)
    stall.progressed()
    assert stall.is_due(10.0)


def test_a_worker_without_reports_makes_progress_while_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([*(Activity(False, ticks) for ticks in range(100)), *[Activity(False, 99)] * 100])
    monkeypatch.setattr(stalls, "activity", lambda _pid: next(found))
    stall = Stall()
    due = [stall.is_due(1.0, 1, reports=False) for _ in range(111)]
    # it computes for 100 s, and then it does not
    assert due.index(True) == 109
    assert "uses no CPU time" in stall.reason(1)


def test_nobody_knows_what_a_process_does_that_is_not_there() -> None:
    assert stalls.activity(None) is None
    stall = Stall()
    assert not any(stall.is_due(5.0, None, reports=False) for _ in range(10))
    assert stall.is_due(10.0)
    assert stall.reason(None) == "see whether it still runs"


# -- workers that are stopped -----------------------------------------------------------------------------------------


class Resuming:
    """Lets workers continue, by `action`, when the worker that is `meant` has been noted; other notes are dropped.

    On a machine that is busy with something else, other workers may make no progress for as long.
    """

    def __init__(self, emit: Callable[[list[str]], None]) -> None:
        self._emit = emit
        self.meant: Callable[[str], object] = re.compile("SIGCONT|no CPU time").search
        self.action: Callable[[], object] = lambda: None

    def emit(self, texts: list[str]) -> None:
        if of_meant := [text for text in texts if self.meant(text)]:
            self._emit(of_meant)
            self.resume()

    def resume(self) -> None:
        action, self.action = self.action, lambda: None
        action()


@pytest.fixture
def resuming(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resuming]:
    """Notes come early; workers continue after two minutes at the latest."""
    monkeypatch.setattr(stalls, "NO_PROGRESS", 0.3)
    resuming = Resuming(notes.emit)
    monkeypatch.setattr(worker_pool, "emit", resuming.emit)
    unnoted = threading.Timer(PATIENCE, resuming.resume)
    unnoted.start()
    yield resuming
    unnoted.cancel()


def _stop(process: WorkerProcess) -> None:
    """Stops a process, and waits until it is."""
    process.send_signal(signal.SIGSTOP)
    until = time.monotonic() + PATIENCE
    while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < until, "the process does not stop"
        time.sleep(0.001)


@pytest.mark.processes
@pytest.mark.parametrize("of", ["pass", "command", "map"])
def test_a_worker_that_is_stopped_is_noted(
    rmsd: Analysis, resuming: Resuming, monkeypatch: pytest.MonkeyPatch, capsys: Any, of: str
) -> None:
    expected = rmsd.run(runner="serial").results.values
    order = worker_pool.WorkerHandle.order
    stopped: list[int] = []

    def order_and_stop(self: worker_pool.WorkerHandle, piece: tuple[int, int]) -> None:
        if not stopped:
            # before the piece is sent, so that it cannot be done
            stopped.append(self.process.pid)
            resuming.action = partial(os.kill, self.process.pid, signal.SIGCONT)
            _stop(self.process)
        order(self, piece)

    # the other one may have to wait for a core
    resuming.meant = re.compile("SIGCONT").search
    monkeypatch.setattr(worker_pool.WorkerHandle, "order", order_and_stop)
    if of == "pass":
        with pytest.warns(kn.Note, match="SIGCONT"):
            rmsd.run(runner="processes", workers=2)
        assert rmsd.results.values.tobytes() == expected.tobytes()
        found: Sequence[str] = rmsd.notes
    elif of == "command":
        with pytest.raises(SystemExit, match="0"):
            main(["rmsd", "-f", rmsd.trajectory.paths[0], "--runner", "processes", "-j", "2", "--json"])
        found = json.loads(capsys.readouterr().out)["notes"]
    else:
        with notes.collected() as found:
            assert ProcessesRunner().map(abs, [-1, -2, -3], workers=2) == [1, 2, 3]
    (note,) = [note for note in found if "SIGCONT" in note]
    piece = r"part \d of 3" if of == "map" else r"leaves \d+ to \d+ \(frames \d+ to \d+\)"
    words = (
        rf"worker \d \(process {stopped[0]}\) has made no progress for \d+ s while it had {piece}; it is stopped, "
        "SIGCONT"
    )
    assert re.match(words, note), note


@pytest.mark.processes
def test_a_worker_that_is_stopped_within_a_message_is_noted(
    resuming: Resuming, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = worker_pool.WorkerHandle.receive
    stopped: list[int] = []

    def stop_and_receive(self: worker_pool.WorkerHandle) -> worker.Message:
        if self.pieces and not stopped:
            # what it sends is longer than what a socket holds
            stopped.append(self.process.pid)
            resuming.action = partial(os.kill, self.process.pid, signal.SIGCONT)
            _stop(self.process)
        return receive(self)

    resuming.meant = re.compile("SIGCONT").search
    monkeypatch.setattr(worker_pool.WorkerHandle, "receive", stop_and_receive)
    with notes.collected() as found:
        (value,) = ProcessesRunner().map(bytes, [20_000_000], workers=1)
    assert len(value) == 20_000_000
    (note,) = found
    assert "SIGCONT" in note


# -- workers that hang ------------------------------------------------------------------------------------------------


@pytest.fixture
def pipe(tmp_path: Path, resuming: Resuming) -> Path:
    """A pipe: a worker that reads it hangs until a worker has been noted."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    resuming.action = lambda: path.write_text("go on")
    return path


@pytest.mark.processes
def test_a_function_that_hangs_is_noted_with_its_frames(tmp_path: Path, pipe: Path, resuming: Resuming) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(64, 3))

    def has_it(note: str) -> bool:
        found = re.search(r"leaves \d+ to \d+ \(frames (\d+) to (\d+)\); ", note)
        return found is not None and int(found[1]) <= 42 <= int(found[2])

    def hangs(frame: kn.Frame) -> float:
        if frame.frame == 42:
            pipe.read_text()
        return 1.0

    resuming.meant = has_it
    analysis = kn.analysis.from_function(hangs, kn.open(tmp_path / "a.dcd"))
    with pytest.warns(kn.Note, match="no progress"):
        analysis.run(start=10, runner="processes", workers=2)
    # it has reported all the while that it has done no more frames
    (note,) = analysis.notes
    assert "has made no progress" in note


class _Reads:
    """A function of parts, of which one hangs."""

    def __call__(self, path: Path | None) -> str:
        return "" if path is None else path.read_text()

    @staticmethod
    def describe(path: Path | None) -> str:
        """See `Runner.map`."""
        return "no frames" if path is None else "frames 3 to 5"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("function", "words"), [(Path.read_text, "part 2 of 2;"), (_Reads(), r"part 2 of 2 \(frames 3 to 5\);")]
)
def test_a_call_that_hangs_is_noted_with_its_part(pipe: Path, function: Any, words: str) -> None:
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        with notes.collected() as found:
            first = Path("/dev/null") if function is Path.read_text else None
            assert ProcessesRunner().map(function, [first, pipe], workers=2) == ["", "go on"]
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    (note,) = found
    assert re.search(rf"no progress for \d+ s while it had {words} it uses no CPU time", note), note


# -- signals ----------------------------------------------------------------------------------------------------------

# stops its workers, or all its processes, when these are ready, and then sends itself a signal
SCRIPT = """
import os, signal, sys
import kinema as kn
from kinema.runners.local import processes

def stop(self, _worker):
    self.ready = getattr(self, "ready", 0) + 1
    if self.ready < len(self._workers):
        return
    workers = [one.process.pid for one in self._workers]
    server = self._workers[0].process._server._process.pid
    stopped = workers if {whom!r} == "workers" else [*workers, server]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    print(server, *workers, flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.{name})
    signal.pause()

processes._ProcessesPass._order = stop
{run}
"""
COMMAND = (
    'from kinema.cli import main; main(["rgyr", "-f", {!r}, "--weights", "none", "--runner", "processes", "-j", "2"])'
)
CALL = 'kn.analysis.RMSD(kn.open({!r})).run(runner="processes", workers=2)'


@pytest.mark.processes
@pytest.mark.parametrize(
    ("run", "whom", "name", "code"),
    [
        (COMMAND, "workers", "SIGINT", 130),
        (COMMAND, "all", "SIGINT", 130),
        (COMMAND, "all", "SIGTERM", 143),
        # by its usual action, so that nothing of the program itself runs any more
        (CALL, "workers", "SIGTERM", -signal.SIGTERM),
        (CALL, "workers", "SIGKILL", -signal.SIGKILL),
    ],
)
def test_a_signal_ends_workers_that_are_stopped(
    rmsd: Analysis, nothing_left: Path, run: str, whom: str, name: str, code: int
) -> None:
    script = SCRIPT.format(whom=whom, name=name, run=run.format(rmsd.trajectory.paths[0]))
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent), "TMPDIR": str(nothing_left)}
    process = start_child([sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        started = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        process.stdin.close()
        # which the stopped ones hold open as well
        said = process.stderr.read()
        assert process.wait(timeout=PATIENCE) == code
    assert len(started) == 3
    assert all_ended(started)
    assert said == ("kinema: stopped, nothing was written\n" if code > 0 else "")
