"""The runner with processes: the suite of all runners, and what becomes of processes and temporary files."""

from __future__ import annotations

import operator
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import psutil
import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.base.serialisation import serialize_error
from kinema.runners import Runner, choose_runner
from kinema.runners.local import processes, worker, worker_pool
from kinema.runners.local.processes import ProcessesRunner
from kinema.runners.local.worker_server import WorkerProcess
from kinema.testing import RunnerTests, random_walk, write_dcd, write_xtc
from kinema.testing.amounts import pairs
from kinema.testing.programs.children import all_ended, start_child
from kinema.testing.runner_work import Sealed, SealedCount, save_at_work

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def _nothing_left(nothing_left: Path) -> None:
    """After every test."""


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> tuple[ProcessesRunner, str]:
    """A runner whose server stays for all tests, and the cache folder that its environment has."""
    folder = str(tmp_path_factory.mktemp("cache"))
    # imports libraries that set variables
    write_xtc(Path(folder) / "a.xtc", random_walk(2, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", folder)
        patch.delenv("PYTEST_CURRENT_TEST", raising=False)
        made = ProcessesRunner()
    return made, folder


class TestProcesses(RunnerTests):
    """All tests on one server: the separate environment of each test would start a server of its own."""

    name = "processes"
    worker_counts = (None, 3)

    @pytest.fixture(autouse=True)
    def environment_of_the_server(
        self, one_server: tuple[ProcessesRunner, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`own_cache_folder` comes before."""
        self._runner, folder = one_server
        monkeypatch.setenv("XDG_CACHE_HOME", folder)

    def make(self) -> Runner:
        """The same for all tests, with workers of their own."""
        # which pytest sets between fixtures and the test
        os.environ.pop("PYTEST_CURRENT_TEST", None)
        assert self._runner.fits()
        return self._runner


class Heard:
    """Lets waiting frames continue after it was told of frames of unfinished pieces, and of the slowest worker then."""

    def __init__(self, go: Path) -> None:
        self.go = go
        self.moved = False
        self.named: list[str] = []

    def __call__(self, done: int, total: int) -> None:
        self.moved |= 0 < done <= 100

    def slowest(self, worker: str, frames_per_second: float) -> None:
        assert frames_per_second >= 0.0
        # later on anyone may be
        if self.moved and not self.go.exists():
            self.named.append(worker)
            self.go.touch()


def test_progress_moves_within_a_piece_and_names_the_slowest(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(512, 20))
    go = tmp_path / "go"

    def waiting(frame: kn.Frame) -> float:
        # the first share, which is one piece, at once, the second after some of its frames
        until = time.monotonic() + 120
        while frame.frame % 256 >= (0 if frame.frame < 256 else 100) and not go.exists():
            if time.monotonic() > until:
                raise TimeoutError("nobody was told of the frames before")
            time.sleep(0.01)
        return 1.0

    heard = Heard(go)
    runner = ProcessesRunner(schedule="static", oversubscribe=1)
    kn.analysis.from_function(waiting, kn.open(tmp_path / "a.dcd")).run(runner=runner, workers=2, progress=heard)
    (named,) = heard.named
    assert "worker 0" in named


def test_what_is_done_of_a_piece_is_saved(tmp_path: Path) -> None:
    save_at_work(ProcessesRunner(schedule="static", oversubscribe=1), tmp_path, workers=1)


def test_processes_stay_for_the_rounds_of_a_run(rmsd: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    started = worker_pool.start_worker
    count = 0

    def counted(*arguments: Any) -> WorkerProcess:
        nonlocal count
        count += 1
        return started(*arguments)

    monkeypatch.setattr(worker_pool, "start_worker", counted)
    found = kn.analysis.RMSF(rmsd.trajectory, align="average").run(runner="processes", workers=1)
    first, second = found.timings.passes
    assert count == 1
    # the second round begins with no more than opening, in seconds of its own
    assert second.workers[0].cpu < first.workers[0].cpu
    assert second.workers[0].start <= second.wall
    runner = choose_runner("processes")
    with runner.session():
        for workers, expected in ((1, 2), (1, 2), (3, 4)):
            rmsd.run(runner=runner, workers=workers)
            assert count == expected


@pytest.fixture
def second_is_late(monkeypatch: pytest.MonkeyPatch) -> list[WorkerProcess]:
    """The workers that the test starts. The second one is stopped before it is ready."""
    started = worker_pool.start_worker
    found: list[WorkerProcess] = []

    def start_and_stop_the_second(*arguments: Any) -> WorkerProcess:
        found.append(started(*arguments))
        if len(found) == 2:
            found[1].send_signal(signal.SIGSTOP)
        return found[-1]

    monkeypatch.setattr(worker_pool, "start_worker", start_and_stop_the_second)
    return found


def test_a_worker_that_is_late_takes_part_in_the_next_round(
    tmp_path: Path, second_is_late: list[WorkerProcess]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    runner = ProcessesRunner()
    with runner.session():
        assert runner.map(abs, [-1, -2, -3], workers=2) == [1, 2, 3]
        second_is_late[1].send_signal(signal.SIGCONT)
        # each waits for the other one
        computations = [partial(Path(pipe).read_text), partial(Path(pipe).write_text, "both")]
        assert runner.map(operator.call, computations, workers=2) == ["both", 4]
        assert len(second_is_late) == 2


@pytest.mark.usefixtures("second_is_late")
def test_a_worker_that_never_was_ready_has_planning_and_start(rmsd: Analysis) -> None:
    timings = rmsd.run(runner=ProcessesRunner(), workers=2).timings
    early, late = timings.passes[0].workers
    assert (early.frames, late.frames) == (timings.frames, 0)
    assert 0.0 < late.plan <= early.plan
    assert late.plan + late.start == pytest.approx(late.total)


# -- workers that end ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_killed_at_work(rmsd: Analysis, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    order = processes._ProcessesPass._order
    killed: list[int] = []

    def order_and_kill(self: processes._ProcessesPass, handle: worker_pool.WorkerHandle) -> None:
        order(self, handle)
        if not killed:
            killed.append(handle.process.pid)
            handle.process.send_signal(number)

    monkeypatch.setattr(processes._ProcessesPass, "_order", order_and_kill)
    with pytest.raises(
        kn.WorkerError, match=rf"\(process \d+\) was ended by {number.name} while it had leaves"
    ) as caught:
        rmsd.run(runner="processes", workers=2)
    assert f"process {killed[0]}" in str(caught.value)
    assert ("memory" in str(caught.value)) == (number is signal.SIGKILL)
    assert not rmsd.results


def test_a_worker_killed_in_a_computation() -> None:
    kill = partial(signal.raise_signal, signal.SIGKILL)
    # called without arguments by the third computation alone
    computations = [str, str, kill, str]
    with pytest.raises(kn.WorkerError, match="SIGKILL while it had part 3 of 4"):
        ProcessesRunner().map(operator.call, computations, workers=2)


def test_a_worker_killed_before_it_is_ready(rmsd: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    started = worker_pool.start_worker

    def start_and_kill(*arguments: object) -> WorkerProcess:
        process = started(*arguments)  # type: ignore[arg-type]
        process.send_signal(signal.SIGKILL)
        return process

    monkeypatch.setattr(worker_pool, "start_worker", start_and_kill)
    with pytest.raises(kn.WorkerError, match="SIGKILL before it was ready"):
        rmsd.run(runner="processes", workers=2)


def test_a_worker_that_cannot_start(rmsd: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(kn.WorkerError, match="before it was ready, exit code 1"):
        rmsd.run(runner="processes", workers=2)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(kn.FileNotFound, match="cannot start a worker process"):
        rmsd.run(runner="processes", workers=2)
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(kn.ArgumentError, match="interpreter"):
        rmsd.run(runner="processes", workers=2)


def test_no_place_for_temporary_files(rmsd: Analysis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        with pytest.raises(kn.FileNotFound, match="temporary folder"):
            rmsd.run(runner="processes", workers=2)


# -- the parent that ends -----------------------------------------------------------------------------------------

# The workers are told by number when all are ready, or just started: no test has to guess how long to wait.
SCRIPT = """
import os, signal, sys
import kinema as kn
from kinema.cli import main
from kinema.runners.local import processes

def end(self):
    print(*[one.process.pid for one in self._workers], flush=True)
    sys.stdin.read()
    {then}

def ready(self, _worker):
    self.ready = getattr(self, "ready", 0) + 1
    if self.ready == len(self._workers):
        end(self)

if {when!r} == "ready":
    processes._ProcessesPass._order = ready
else:
    processes._ProcessesPass.run = lambda self, progress: end(self)
main(["rgyr", "-f", {path!r}, "--weights", "none", "--runner", "processes", "-j", "3"])
"""


def _run_script(then: str, when: str, path: str, folder: Path) -> tuple[int, str, list[psutil.Process]]:
    """Exit code, stderr and workers of a process that does `then` when its workers are "ready" or "started"."""
    package = str(Path(kn.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": package, "TMPDIR": str(folder)}
    script = SCRIPT.format(then=then, when=when, path=path)
    process = start_child([sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        # it waits for its stdin to end
        workers = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        process.stdin.close()
        said = process.stderr.read()
        code = process.wait(timeout=120)
    return code, said, workers


@pytest.mark.parametrize(
    ("when", "whom", "name"),
    pairs(["started", "ready"], ["os.killpg(0, {})", "os.kill(os.getpid(), {})"], ["SIGINT", "SIGTERM"]),
)
def test_a_signal_ends_all(rmsd: Analysis, nothing_left: Path, when: str, whom: str, name: str) -> None:
    then = whom.format(f"signal.{name}") + "; signal.pause()"
    found, said, workers = _run_script(then, when, rmsd.trajectory.paths[0], nothing_left)
    assert (found, said) == (128 + signal.Signals[name], "kinema: stopped, nothing was written\n")
    assert len(workers) == 3
    assert all_ended(workers)


@pytest.mark.parametrize("when", ["started", "ready"])
def test_workers_die_with_their_parent(rmsd: Analysis, nothing_left: Path, when: str) -> None:
    then = "os.kill(os.getpid(), signal.SIGKILL)"
    found, said, workers = _run_script(then, when, rmsd.trajectory.paths[0], nothing_left)
    assert (found, said) == (-signal.SIGKILL, "")
    assert len(workers) == 3
    assert all_ended(workers)


@pytest.mark.parametrize("how", ["file", "stdin", "words"])
def test_scripts_need_no_guard(rmsd: Analysis, tmp_path: Path, how: str) -> None:
    script = (
        "import kinema as kn\n"
        "print('once')\n"
        f"found = kn.analysis.RMSD(kn.open({rmsd.trajectory.paths[0]!r})).run(runner='processes', workers=2)\n"
        "print(found.timings.frames)\n"
    )
    path = tmp_path / "script.py"
    path.write_text(script)
    words = {"file": [str(path)], "stdin": ["-"], "words": ["-c", script]}[how]
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, *words], input=script, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("once\n300\n", "")


# -- what travels -------------------------------------------------------------------------------------------------


def test_a_file_that_has_changed(rmsd: Analysis) -> None:
    path = rmsd.trajectory.paths[0]
    assert rmsd.trajectory.n_frames == 300
    write_dcd(path, random_walk(300, 20, seed=2))
    with pytest.raises(kn.CorruptFileError, match="has changed since it was opened") as caught:
        rmsd.run(runner="processes", workers=2)
    assert (caught.value.path, caught.value.format) == (path, "DCD")


def test_indices_go_through_the_folder_and_memory_is_divided(
    tmp_path: Path, nothing_left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.xtc"
    write_xtc(path, random_walk(50, 20))
    stored: list[worker.WorkerSetup] = []
    origins: list[str] = []
    store = worker.WorkerSetup.store

    def look(self: worker.WorkerSetup, folder: str) -> None:
        store(self, folder)
        loaded = worker._load(folder)
        assert isinstance(loaded, worker.WorkerSetup)
        stored.append(loaded)
        ours, theirs = Pipe()
        with ours, theirs:
            opened = worker._Worker(theirs, folder, stored[0], time.monotonic())
            assert isinstance(ours.recv(), worker.Ready)
        origins.extend(part["index"] for part in opened._trajectory.parts())

    monkeypatch.setattr(worker.WorkerSetup, "store", look)
    kn.analysis.RMSD(kn.open(path, stored=False)).run(runner="processes", workers=2, memory="60 MiB")
    assert origins == ["stored"]
    assert stored[0].work_plan.memory == 30 << 20
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.xtc"]


def test_an_exception_of_the_users_says_which_worker(rmsd: Analysis) -> None:
    def fails(frame: kn.Frame) -> float:
        return 1.0 / (frame.frame - 77)

    with pytest.raises(ZeroDivisionError) as caught:
        kn.analysis.from_function(fails, rmsd.trajectory).run(runner="processes", workers=2)
    notes = "\n".join(caught.value.__notes__)
    assert re.search(r"^worker [01] \(process \d+\):\nTraceback", notes, flags=re.MULTILINE), notes
    assert "raised by" in notes


def test_a_failure_is_raised_where_the_next_work_comes_too_late(
    rmsd: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = worker_pool.WorkerHandle.receive
    ended: list[bool] = []

    def late(handle: worker_pool.WorkerHandle) -> worker.Message:
        message = receive(handle)
        # the piece after this one, which it has already, is the first that fails
        if isinstance(message, worker.Done) and len(handle.pieces) > 1:
            last = re.findall(r"\d+", handle._describe(handle.pieces[1]))[-1]
            if int(last) >= 200:
                handle.process.wait(60)
                ended.append(True)
        return message

    def fails(frame: kn.Frame) -> float:
        return 1.0 / (frame.frame < 200)

    monkeypatch.setattr(worker_pool.WorkerHandle, "receive", late)
    with pytest.raises(ZeroDivisionError):
        kn.analysis.from_function(fails, rmsd.trajectory).run(runner="processes", workers=1)
    assert ended


def test_exceptions_that_cannot_travel_send_their_text() -> None:
    class Local(Exception):
        def __init__(self, frame: int, reason: str) -> None:
            super().__init__(f"{reason} in {frame}")

    for error, kind in ((Local(3, "here"), kn.InternalError), (KeyError("x"), KeyError), (MemoryError(), MemoryError)):
        ours, theirs = Pipe()
        with ours, theirs:
            try:
                raise error
            except Exception as caught:
                worker._give_up(theirs, caught)
            found = ours.recv()
        assert type(pickle.loads(found.error)) is kind
        assert "Traceback" in found.text
        assert type(error).__name__ in found.text


@pytest.mark.parametrize(
    ("error", "attributes"),
    [
        (SystemExit(5), ("code",)),
        (SystemExit("enough"), ("code",)),
        (OSError(28, "No space left on device", "a.xtc"), ("errno", "filename")),
        (StopIteration(3), ("value",)),
        (UnicodeDecodeError("ascii", b"\xff", 0, 1, "wrong"), ("object", "start", "reason")),
        (kn.CorruptFileError("a.xtc: broken", path="a.xtc", frame=3), ("path", "frame")),
    ],
)
def test_exceptions_keep_what_they_hold(error: BaseException, attributes: tuple[str, ...]) -> None:
    # its import has tblib pickle all exceptions, without what C code keeps of them
    import distributed  # noqa: F401

    error.add_note("of the user")
    found = pickle.loads(serialize_error(error, "in a test"))
    assert type(found) is type(error) and found.__notes__ == ["of the user"]
    for name in attributes:
        assert getattr(found, name) == getattr(error, name) is not None


def test_what_is_packed_for_the_parent_counts_as_messages(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(200, 10))
    found = kn.analysis.Custom(kn.open(tmp_path / "a.dcd"), SealedCount()).run(runner="processes", workers=1)
    assert found.results.frames == 200
    (worker,) = found.timings.workers
    assert worker.communicate >= Sealed.SECONDS
    assert worker.start > 0 and worker.cpu > 0
    assert found.report().quantities.R_comp_comm is not None
