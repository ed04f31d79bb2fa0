"""Ranks that are stopped: rank 0 notes them with their frames, and a signal ends all ranks all the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kinema.execution.checkpoint.file import load
from kinema.testing import random_walk, write_dcd

pytestmark = pytest.mark.processes

# on all ranks; notes and the end come early. Rank 1 stops itself in the midst of its work
BEGIN = """
import signal, threading, time, warnings
from pathlib import Path
from kinema.runners import stalls
from kinema.runners.mpi import communicator, remote_call
stalls.NO_PROGRESS = 1.0
communicator.ANSWER = remote_call._WINDOW = 0.5

def stop():
    Path("stopped").write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)

def is_stopped():
    found = Path("stopped")
    activity = stalls.activity(int(found.read_text())) if found.exists() and found.read_text() else None
    return activity is not None and activity.stopped

def corner(frame):
    # rank 1 is given some frames, and is stopped before rank 0 has done the rest
    if frame.frame >= 100 and MPI.COMM_WORLD.Get_rank() == 1 and not os.path.exists("stopped"):
        stop()
    until = time.monotonic() + 120
    while frame.frame >= 100 and not os.path.exists("stopped"):
        assert time.monotonic() < until, "rank 1 was given nothing"
        time.sleep(0.01)
    return frame.positions[0].astype(float)
"""

NOTED = """
def resume(message, *_):
    say(message)
    os.kill(int(Path("stopped").read_text()), signal.SIGCONT)

warnings.showwarning = resume
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        found = kn.analysis.from_function(corner, kn.open("a.dcd")).run(runner=mpi, progress=PROGRESS)
        expected = kn.analysis.from_function(corner, kn.open("a.dcd")).run(runner="serial")
        say("same", found.results.values.tobytes() == expected.results.values.tobytes(), len(found.notes))
"""

# rank 0 gets the signal when rank 1 is stopped, wherever it is then
SIGNALLED = """
def send():
    while not is_stopped():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.{name})

def terminated(*_):
    raise SystemExit(143)

def part(number):
    if MPI.COMM_WORLD.Get_rank() == 1:
        stop()
    until = time.monotonic() + 120
    while not os.path.exists("stopped"):
        assert time.monotonic() < until, "rank 1 was given nothing"
        time.sleep(0.01)
    return number

if rank == 1:
    from kinema.files.conversion import workers
    encode = workers._EncodeRuns.__call__
    workers._EncodeRuns.__call__ = lambda *arguments: (stop(), encode(*arguments))[1]

with kn.runners.MPI() as mpi:
    if mpi.is_root:
        if {handled}:
            signal.signal(signal.SIGTERM, terminated)
        threading.Thread(target=send, daemon=True).start()
        {work}
"""
PASS = 'kn.analysis.from_function(corner, kn.open("a.dcd")).run(runner=mpi{})'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a trajectory."""
    write_dcd(tmp_path / "a.dcd", random_walk(400, 12))
    return tmp_path


@pytest.mark.parametrize("progress", ["None", "lambda done, total: None"])
def test_a_rank_that_is_stopped_is_noted(mpi: Any, folder: Path, progress: str) -> None:
    said = mpi.script(2, BEGIN + NOTED.replace("PROGRESS", progress), folder)
    note, same = said.splitlines()
    assert same == "same True 1"
    found = re.fullmatch(
        r"rank 1 \(process (\d+) on \S+\) has made no progress for \d+ s while it had leaves \d+ to \d+ "
        r"\(frames (\d+) to (\d+)\); it is stopped, SIGCONT continues it",
        note,
    )
    assert found is not None, note
    assert found[1] == (folder / "stopped").read_text()
    assert int(found[3]) >= 100


@pytest.mark.parametrize(
    ("work", "name", "code", "said"),
    [
        (PASS.format(""), "SIGINT", 130, "rank 1 does not answer, all ranks are ended"),
        (PASS.format(""), "SIGTERM", 143, "rank 1 does not answer, all ranks are ended"),
        ("mpi.map(part, range(8))", "SIGINT", 130, "rank 1 does not answer, all ranks are ended"),
        ('kn.convert("a.dcd", "a.xtc", runner=mpi)', "SIGTERM", 143, "a rank does not answer, all ranks are ended"),
    ],
)
def test_a_signal_ends_ranks_that_are_stopped(
    mpi: Any, folder: Path, work: str, name: str, code: int, said: str
) -> None:
    (folder / "script.py").write_text(mpi.begin + BEGIN + SIGNALLED.format(name=name, work=work, handled=code == 143))
    found, out, err = mpi.ended(mpi.started(3, ["script.py"], folder))
    # launchers have exit codes of their own after they have ended ranks: MPICH's is sometimes 9
    assert found in (code, 9) or (found and not mpi.is_mpich()), out + err
    assert f"kinema: {said}" in err
    assert mpi.is_gone(int((folder / "stopped").read_text()))
    assert not (folder / "a.xtc").exists()


def test_nothing_is_asked_of_ranks_that_did_not_answer(mpi: Any, folder: Path) -> None:
    work = """
        try:
            mpi.map(part, range(8))
        except KeyboardInterrupt:
            try:
                mpi.map(part, range(8))
            except kn.WorkerError as error:
                say(error)"""
    (folder / "script.py").write_text(mpi.begin + BEGIN + SIGNALLED.format(name="SIGINT", work=work, handled=False))
    found, out, err = mpi.ended(mpi.started(2, ["script.py"], folder))
    assert found != 0
    assert out.startswith("rank 1 did not answer after a signal"), out + err


def test_what_is_done_is_saved_although_a_rank_is_stopped(mpi: Any, folder: Path) -> None:
    work = PASS.format(', checkpoint="run.ckpt", checkpoint_interval=1000')
    text = mpi.begin + BEGIN + SIGNALLED.format(name="SIGTERM", work=work, handled=False)
    (folder / "script.py").write_text(text)
    found, _, _ = mpi.ended(mpi.started(2, ["script.py"], folder))
    assert found != 0
    content = load(str(folder / "run.ckpt"))
    assert content is not None
    assert content.passes[0].nodes
    assert mpi.is_gone(int((folder / "stopped").read_text()))
