"""Runs that are killed at any moment continue to the same bits; signals of a batch system save first."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kinema as kn
from kinema.execution.checkpoint.file import load
from kinema.testing import random_walk, write_dcd
from kinema.testing.amounts import each
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.processes

# in a module of its own, so that worker processes can import it
MODULE = """
import os, time

GO = os.path.join(os.path.dirname(__file__), "go")

def corner(frame):
    # a run that is to be found at work takes more than ten seconds after its first frames, unless it is let go
    waits = frame.frame >= 80 and "WAIT" in os.environ and not os.path.exists(GO)
    time.sleep(0.05 if waits else 0.002)
    return frame.positions[0].astype(float)
"""

# argv: folder, runner, out or "", signal that ends or ""; prints "at work" when first pieces have landed
RUN = """
import os, sys
folder, runner, out, interval = sys.argv[1:5]
sys.path.insert(0, folder)
import numpy as np
import kinema as kn
from kinema.testing.runner_work import NearPairs
from slow import corner

def run():
    traj = kn.open(folder + "/a.dcd")
    corners = kn.analysis.from_function(corner, traj)
    # rows of any number a frame, in some frames none
    near = NearPairs(traj, np.column_stack([np.arange(11), np.arange(1, 12)]), cutoff=12.0)
    others = [near, kn.analysis.RMSD(traj)] if out else [near, kn.analysis.RMSF(traj, align="average")]
    said = []
    def progress(done, total):
        # the first pieces are a leaf of 16 frames each, of which each worker holds two
        if done > 64 and not said:
            print("at work", flush=True)
            said.append(True)
    made = kn.run([corners, *others], runner=runner, workers=2, checkpoint=folder + "/run.ckpt",
                  checkpoint_interval=float(interval), out=out or None, progress=progress)
    arrays = {f"{i}-{name}": np.asarray(one.results[name]) for i, one in enumerate(made) for name in one.results}
    np.savez(folder + "/new.npz", **arrays)
    os.replace(folder + "/new.npz", folder + "/found.npz")
"""

# Forks after its imports: every attempt costs a few ms more than what it does. Nothing has a thread when it forks.
KILLER = (
    RUN
    + """
from kinema.testing.programs.children import kill_at_random
kill_at_random(run, int(sys.argv[5]), int(sys.argv[6]), float(sys.argv[7]))
"""
)


def _fill(folder: Path) -> Path:
    write_dcd(folder / "a.dcd", random_walk(500, 12))
    (folder / "slow.py").write_text(MODULE)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trajectory and a slow function."""
    return _fill(tmp_path)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}


def _started(script: str, *words: object, seconds: float = 200, **more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, words)]
    return start_child(command, env=_environment() | more, stdin=subprocess.PIPE, seconds=seconds)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of a run that nobody ends, with and without a file for the rows."""
    other = _fill(tmp_path_factory.mktemp("undisturbed"))
    found = {}
    for out in ("", str(other / "rows.h5")):
        process = _started(RUN + "\nrun()", other, "threads", out, 1000)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        found["out" if out else "memory"] = (other / "found.npz").read_bytes()
    return found


@pytest.mark.parametrize(
    ("runner", "where", "longest"),
    [("threads", "memory", 0.5), ("threads", "out", 0.5), ("processes", "memory", 1.5)],
)
def test_killed_at_random_moments(
    folder: Path,
    expected: dict[str, bytes],
    kills: Callable[..., int],
    runner: str,
    where: str,
    longest: float,
) -> None:
    n_kills = kills(2)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    out = str(folder / "rows.h5") if where == "out" else ""
    process = _started(KILLER, folder, runner, out, 0, seed, n_kills, longest, seconds=max(200, 10 * n_kills))
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        for line in process.stdout:
            if line != "finished\n":
                assert line == f"kills {n_kills}\n"
                break
            assert (folder / "found.npz").read_bytes() == expected[where]
            left = {"a.dcd", "slow.py", "found.npz"} | ({"rows.h5"} if out else set())
            assert {file.name for file in folder.iterdir()} == left
            (folder / "found.npz").unlink()
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize(("runner", "number"), each(["threads", "processes"], [signal.SIGTERM, signal.SIGINT]))
def test_a_signal_that_ends_saves_first(
    folder: Path, expected: dict[str, bytes], runner: str, number: signal.Signals
) -> None:
    process = _started(RUN + "\nrun()", folder, runner, "", 1000, WAIT="1")
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert process.stdout.readline() == "at work\n"
        process.send_signal(number)
        said = process.stderr.read()
    # a Python that is interrupted ends by the signal, too
    assert process.returncode in ((1, -number) if number is signal.SIGINT else (-number,))
    if number is signal.SIGINT:
        assert "KeyboardInterrupt" in said
        assert "what was done is in" in said
    else:
        assert said == ""
    content = load(str(folder / "run.ckpt"))
    assert content is not None
    assert content.passes[0].nodes
    again = _started(RUN + "\nrun()", folder, runner, "", 1000)
    assert again.communicate(timeout=120)[1] == ""
    assert (folder / "found.npz").read_bytes() == expected["memory"]
    assert not (folder / "run.ckpt").exists()


@pytest.mark.parametrize(("runner", "whom"), each(["threads", "processes"], ["process", "group"]))
def test_sigusr1_saves_and_the_run_goes_on(folder: Path, expected: dict[str, bytes], runner: str, whom: str) -> None:
    # the frames after the first hundred wait until they are told
    wait = "    while frame.frame > 100 and not os.path.exists(GO):\n        time.sleep(0.01)\n"
    waiting = MODULE.replace("    waits =", f"{wait}    waits =")
    assert waiting != MODULE
    (folder / "slow.py").write_text(waiting)
    process = _started(RUN + "\nrun()", folder, runner, "", 1000)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert process.stdout.readline() == "at work\n"
        until = time.monotonic() + 120
        while time.monotonic() < until:
            if whom == "group":
                os.killpg(process.pid, signal.SIGUSR1)
            else:
                process.send_signal(signal.SIGUSR1)
            time.sleep(0.05)
            content = load(str(folder / "run.ckpt"))
            if content is not None and content.passes and content.passes[0].nodes:
                break
        (folder / "go").touch()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert content is not None
    assert content.passes[0].nodes
    assert (folder / "found.npz").read_bytes() == expected["memory"]


def test_a_killed_worker_ends_the_run_and_the_next_goes_on(
    folder: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = RUN + (
        "\nfrom kinema.runners.local import processes\n"
        "merge = processes._ProcessesPass._merge\n"
        "def merge_and_kill(self, member, done):\n"
        "    merge(self, member, done)\n"
        "    if self._leaves_done > 20:\n"
        "        member.process.kill()\n"
        "processes._ProcessesPass._merge = merge_and_kill\n"
        "run()\n"
    )
    process = _started(script, folder, "processes", "", 1000)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert "was ended by SIGKILL" in said
    assert "the same call continues from there" in said
    content = load(str(folder / "run.ckpt"))
    assert content is not None
    covered = sum(1 << level for level, _, _ in content.passes[0].nodes)
    assert covered > 20
    again = _started(RUN + "\nrun()", folder, "threads", "", 1000)
    assert again.communicate(timeout=120)[1] == ""
    assert (folder / "found.npz").read_bytes() == expected["memory"]


def test_a_handler_of_the_programs_own_decides(folder: Path, expected: dict[str, bytes]) -> None:
    script = RUN + (
        "\nimport signal\n"
        "heard = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: heard.append('TERM'))\n"
        "signal.signal(signal.SIGUSR1, lambda *_: heard.append('USR1'))\n"
        "run()\n"
        "print(heard)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print(heard)\n"
    )
    process = _started(script, folder, "threads", "", 1000, WAIT="1")
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGUSR1)
        (folder / "go").touch()
        heard, later = process.stdout.read().splitlines()
    assert process.returncode == 0
    assert sorted(eval(heard)) == ["TERM", "USR1"]
    assert eval(later)[-1] == "TERM"
    assert len(eval(later)) == 3
    assert (folder / "found.npz").read_bytes() == expected["memory"]
