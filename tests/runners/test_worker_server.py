"""The server that workers are forked from: they are as fresh interpreters would be, and nothing of it is left."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import kinema as kn
from kinema.runners.local import worker_server
from kinema.runners.local.processes import ProcessesRunner
from kinema.testing.programs.children import all_ended, start_child

pytestmark = pytest.mark.processes

if not hasattr(os, "pidfd_open"):
    pytest.skip("workers are forked on Linux alone", allow_module_level=True)


def server_of(runner: ProcessesRunner) -> psutil.Process:
    assert runner._server is not None
    return psutil.Process(runner._server._process.pid)


def _facts(_number: int) -> dict[str, Any]:
    """Facts about a worker process."""
    time.sleep(0.05)
    descriptors = {name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if name != "3"}
    return {
        "parent": os.getppid(),
        "pid": os.getpid(),
        "main": getattr(sys.modules["__main__"], "__file__", None),
        "setting": os.environ.get("KINEMA_TEST_SETTING"),
        "folder": os.getcwd(),
        "path": sys.path[0],
        "drawn": float(np.random.random()),
        "files": sorted(name for name in descriptors.values() if name.startswith("/") and "/dev/" not in name),
        "sockets": sum(name.startswith("socket:") for name in descriptors.values()),
        "ignored": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    }


def test_workers_are_forked_and_as_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # made here: pytest changes the environment between a fixture and a test
    runner = ProcessesRunner()
    server = server_of(runner)
    found = runner.map(_facts, [0, 1, 2, 3], workers=2)
    assert {one["parent"] for one in found} == {server.pid}
    assert len({one["pid"] for one in found}) == 2
    assert {one["main"] for one in found} == {None}
    assert len({one["drawn"] for one in found}) == 4, "each worker draws numbers of its own"
    # of the pool: its own connection, and nothing of the server's or of another worker's
    assert {one["sockets"] for one in found} == {1}
    assert all(one["files"] == found[0]["files"] for one in found)
    assert all(one["ignored"] and not one["blocked"] for one in found)
    assert server.num_threads() == 1
    # once more: other processes of the same server
    again = runner.map(_facts, [0, 1], workers=2)
    assert {one["parent"] for one in again} == {server.pid}
    assert not {one["pid"] for one in again} & {one["pid"] for one in found}
    assert not {one["drawn"] for one in again} & {one["drawn"] for one in found}
    # another environment: another server
    monkeypatch.setenv("KINEMA_TEST_SETTING", "new")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (one,) = runner.map(_facts, [0], workers=1)
    assert (one["setting"], one["folder"], one["path"]) == ("new", str(tmp_path), str(tmp_path))
    assert one["parent"] == server_of(runner).pid != server.pid
    gc.collect()
    assert all_ended([server])
    last = server_of(runner)
    del runner
    gc.collect()
    assert all_ended([last])


def test_a_server_that_is_killed() -> None:
    runner = ProcessesRunner()
    first = server_of(runner)
    first.kill()
    first.wait(60)
    assert runner.map(abs, [-1, -2], workers=2) == [1, 2]
    # at work: the workers that the server has forked continue
    with runner.session():
        assert runner.map(abs, [-1, -2], workers=2) == [1, 2]
        server_of(runner).kill()
        assert runner.map(abs, [-3, -4], workers=2) == [3, 4]
        with pytest.raises(kn.WorkerError, match="while it had part 1 of 1"):
            runner.map(os._exit, [3], workers=1)
    assert runner.map(abs, [-5], workers=1) == [5]


def test_a_worker_that_ends_says_how() -> None:
    runner = ProcessesRunner()
    with pytest.raises(kn.WorkerError, match="exit code 3"):
        runner.map(os._exit, [3], workers=1)
    with pytest.raises(kn.WorkerError, match="SIGSEGV"):
        runner.map(signal.raise_signal, [signal.SIGSEGV], workers=1)


def test_who_holds_a_worker_that_was_killed_does_not_hold_the_server(tmp_path: Path) -> None:
    runner = ProcessesRunner()
    server = server_of(runner)
    ours, theirs = Pipe()
    with ours, theirs:
        assert runner._server is not None
        worker = runner._server.start(theirs.fileno(), str(tmp_path))
        assert worker.pid
        # so that it cannot say how the worker has ended before that is waited for
        server.suspend()
        worker.kill()
        assert worker.wait(60) == worker.poll() == -signal.SIGKILL
    del runner
    gc.collect()
    assert all_ended([server])


def test_modules_that_start_threads_are_not_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kinema_test_threads.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    (tmp_path / "kinema_test_broken.py").write_text("raise SystemError('nobody needs it')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    runner = ProcessesRunner()
    runner.preload(["kinema_test_broken", "kinema_test_threads", "no_such_module"])
    found = runner.map(_modules, [0, 1], workers=2)
    assert server_of(runner).num_threads() == 2
    assert {one for one, _ in found} == {server_of(runner).pid}
    assert not any(preloaded for _, preloaded in found), "a fresh interpreter imports what it needs"
    monkeypatch.undo()
    other = ProcessesRunner()
    other.preload(["kinema.analysis.plotting"])
    ((_, preloaded),) = other.map(_modules, [0], workers=1)
    assert preloaded


class _Where:
    """A function that says in which process it was called; it may be called in the caller's."""

    may_run_in_caller = True

    def __call__(self, number: int) -> tuple[int, int]:
        time.sleep(0.02)
        if number < 0:
            raise ValueError(f"no number, found {number}")
        return number, os.getpid()


def test_the_caller_computes_while_workers_start() -> None:
    found = ProcessesRunner().map(_Where(), range(200), workers=2)
    assert [number for number, _ in found] == list(range(200))
    by = [process for _, process in found]
    # workers have two each before, and all when they are ready
    assert os.getpid() not in by[:4] + by[-4:] and 0 < by.count(os.getpid()) < 196
    assert len({*by}) == 3
    assert os.getpid() not in {one for _, one in ProcessesRunner().map(_Where(), range(4), workers=2)}
    with pytest.raises(ValueError, match="found -1") as caught:
        ProcessesRunner().map(_Where(), [0, 1, 2, 3, -1], workers=2)
    assert any("in this process, part 5 of 5" in note for note in caught.value.__notes__)
    # those that run already are as quick
    runner = ProcessesRunner()
    with runner.session():
        runner.map(abs, [1, 2], workers=2)
        assert os.getpid() not in {one for _, one in runner.map(_Where(), range(20), workers=2)}


def _modules(_number: int) -> tuple[int, bool]:
    time.sleep(0.05)
    return os.getppid(), bool({"kinema_test_threads", "kinema.analysis.plotting"} & set(sys.modules))


def test_what_workers_print_goes_where_the_caller_prints_now(capfd: Any) -> None:
    ProcessesRunner().map(print, ["one"], workers=1)
    assert capfd.readouterr().out == "one\n"


def test_systems_without_descriptors_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    runner = ProcessesRunner()
    assert runner._server is None and worker_server.start_server() is None
    ((parent, _),) = runner.map(_modules, [0], workers=1)
    assert parent == os.getpid()


PARENT = r"""
import os, sys, time
import psutil
from kinema.runners.local.processes import ProcessesRunner
runner = ProcessesRunner()
if sys.argv[1] == "at work":
    import threading
    threading.Thread(target=lambda: runner.map(time.sleep, [600.0], workers=1), daemon=True).start()
    server = psutil.Process(runner._server._process.pid)
    while not server.children():
        time.sleep(0.1)
if os.fork() == 0:
    # holds copies of all that the parent has open
    os.write(1, f"{os.getpid()}\n".encode())
    time.sleep(600)
os.write(1, f"{runner._server._process.pid}\n".encode())
sys.stdin.read()
"""


@pytest.mark.parametrize("when", ["idle", "at work"])
def test_the_server_ends_with_its_parent(when: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = start_child([sys.executable, "-c", PARENT, when], stdin=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    found = [psutil.Process(int(parent.stdout.readline())) for _ in range(2)]
    try:
        (server,) = [one for one in found if "server_process" in " ".join(one.cmdline())]
        workers = server.children()
        assert len(workers) == (when == "at work")
        parent.kill()
        assert all_ended([server])
        # a worker whose connection is held open by a copy is ended with that
        for one in found:
            if one.is_running():
                one.kill()
        assert all_ended(workers)
    finally:
        for one in found:
            if one.is_running():
                one.kill()
    parent.wait(60)
    assert list(tmp_path.iterdir()) == []
