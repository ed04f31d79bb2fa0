"""Ctrl-C and SIGTERM: the run stops, the exit code says why, no half-written file stays."""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from kinema.testing.amounts import each
from kinema.testing.h5md_files.building import add_element, start_h5md
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.processes

# exit codes are 128 and the number
SIGNALS = ["SIGINT", "SIGTERM"]

# The signal is sent when half of the file is written: no test has to guess how long to wait.
WAITS = """
import os, signal
from kinema.cli import main
import kinema.storage.tables

def half(file, table, provenance):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.{name})
    signal.pause()

kinema.storage.tables._WRITERS[".csv"] = half
main({words!r})
"""

# Python drops what comes up in a callback of a weak reference, of which h5py has one for each object.
DROPS = """
import os, signal, time, weakref
from kinema.cli import main
import kinema.storage.tables

class Something:
    pass

def signalled(file, table, provenance):
    one = Something()
    reference = weakref.ref(one, lambda _: os.kill(os.getpid(), signal.{name}))
    del one
    time.sleep(20)

kinema.storage.tables._WRITERS[".csv"] = signalled
main({words!r})
"""

# A busy machine: the thread that sends the signal again runs long before the hook that starts it continues.
DROPS_LATE = (
    """
import threading, time

start = threading.Thread.start

def slow(thread):
    start(thread)
    time.sleep(0.2)

threading.Thread.start = slow
"""
    + DROPS
)


SCRIPTS = {"half written": WAITS, "dropped by Python": DROPS, "dropped on a busy machine": DROPS_LATE}


@pytest.mark.parametrize(("script", "name"), each(list(SCRIPTS), SIGNALS))
def test_a_signal_while_the_output_is_written(
    files: Any, tmp_path: Path, environment: dict[str, str], script: str, name: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    words = ["rmsd", "-f", str(files.dcd), "-n", str(files.ndx), "--group", "C-alpha", "-o", str(folder / "a.csv")]
    program = [sys.executable, "-c", SCRIPTS[script].format(name=name, words=words)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (
        128 + signal.Signals[name],
        "kinema: stopped, nothing was written\n",
    )
    assert list(folder.iterdir()) == []


# Not before: where Ctrl-C interrupts the `exec` of a string, as in the import of a dataclass, Python ends by the signal
# at last, whatever exit code was asked for.
AT_WORK = """
import sys
from kinema.cli import main
from kinema.runners.local.threads import ThreadsRunner

inner = ThreadsRunner.map_reduce

def outer(*args, **more):
    print("at work", file=sys.stderr, flush=True)
    return inner(*args, **more)

ThreadsRunner.map_reduce = outer
main(sys.argv[1:])
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_a_long_run(
    files: Any, tmp_path: Path, environment: dict[str, str], number: signal.Signals, code: int
) -> None:
    output = tmp_path / "rmsd.csv"
    # the parts are the same file: a run of 147,000 frames, which takes many times as long as the signal
    words = ["rmsd", "-f", *[files.dcd.name] * 1500, "--overlap", "all", "-n", str(files.ndx)]
    words += ["--group", "C-alpha", "-o", str(output), "-j", "1"]
    process = start_child(
        [sys.executable, "-c", AT_WORK, *words],
        env=environment,
        cwd=files.dcd.parent,
        stdout=subprocess.DEVNULL,
    )
    assert process.stderr is not None
    while (line := process.stderr.readline()) != "at work\n":
        assert line, "the run has not begun"
    process.send_signal(number)
    assert process.stderr.read().splitlines()[-1] == "kinema: stopped, nothing was written"
    assert process.wait(timeout=120) == code
    assert not output.exists()


IGNORED = """
import os, signal
from kinema.cli import main
import kinema.storage.tables

def interrupted(file, table, provenance):
    os.kill(os.getpid(), signal.{name})
    write(file, table, provenance)

write = kinema.storage.tables._WRITERS[".csv"]
kinema.storage.tables._WRITERS[".csv"] = interrupted
main({words!r})
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_that_was_ignored_from_the_start_stays_so(
    files: Any, tmp_path: Path, environment: dict[str, str], name: str
) -> None:
    words = ["rmsd", "-f", str(files.dcd), "-n", str(files.ndx), "--group", "C-alpha", "-o", str(tmp_path / "a.csv")]
    script = IGNORED.format(name=name, words=words)
    ignoring = ["sh", "-c", f"trap '' {name[3:]}; exec \"$@\"", "sh", sys.executable, "-c", script]
    done = subprocess.run(ignoring, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.csv").exists()


# A thread sends the signal when the call has begun, which takes some tenths of a second in Rust.
WITHIN = """
import os, signal, sys, threading, time
from {module} import {owner}
from kinema.cli import main

inner = {owner}.{method}

def outer(*args, **more):
    sent = threading.Event()
    def send():
        time.sleep(0.02)
        sent.set()
        os.kill(os.getpid(), signal.{name})
    threading.Thread(target=send, daemon=True).start()
    done = inner(*args, **more)
    {after}
    return done

{owner}.{method} = outer
main({words!r})
"""
# of one long call; if nothing was tried, as the machine was busy with something else, the exit code says so
TOO_LATE = 99
AFTER = f'print("not stopped", file=sys.stderr) if sent.is_set() else os._exit({TOO_LATE})'
SCAN = {"module": "kinema.trajectory", "owner": "Trajectory", "method": "scan"}
RUN = {"module": "kinema.runners.local.threads", "owner": "ThreadsRunner", "method": "map_reduce"}


@pytest.fixture(scope="module")
def many_frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An XTC file of a million frames of two atoms, 80 MB."""
    n_frames = 1_000_000
    frame = struct.pack(">iiif9fi", 1995, 2, 0, 0.0, 5, 0, 0, 0, 5, 0, 0, 0, 5, 2) + struct.pack(">6f", *range(6))
    frames = np.frombuffer(frame, np.uint8)[None].repeat(n_frames, 0)
    numbers = np.arange(n_frames)
    frames[:, 8:12] = numbers.astype(">i4").view(np.uint8).reshape(n_frames, 4)
    frames[:, 12:16] = numbers.astype(">f4").view(np.uint8).reshape(n_frames, 4)
    path = tmp_path_factory.mktemp("many") / "many.xtc"
    frames.tofile(path)
    return path


CALLS = {"scan of check": ("check", SCAN), "scan of rmsd": ("rmsd", SCAN), "rmsd": ("rmsd", RUN)}


@pytest.mark.parametrize(("call", "name"), each(list(CALLS), SIGNALS))
def test_a_signal_ends_a_call_into_rust(many_frames: Path, environment: dict[str, str], call: str, name: str) -> None:
    command, place = CALLS[call]
    words = {"check": ["check", str(many_frames)], "rmsd": ["rmsd", "-f", str(many_frames), "--quiet"]}[command]
    script = WITHIN.format(name=name, after=AFTER, words=[*words, "-j", "1"], **place)
    # of a call that went on to its end the line would be there
    code = 128 + signal.Signals[name]
    assert _ended(script, many_frames, environment) == (code, "kinema: stopped, nothing was written\n")


def test_a_signal_ends_a_check_of_coordinates(many_frames: Path, environment: dict[str, str]) -> None:
    # which is many calls
    place = {
        "module": "kinema.files.check.files",
        "owner": "sys.modules['kinema.files.check.files']",
        "method": "_not_finite",
    }
    script = WITHIN.replace("from {module} import {owner}", "import {module}").format(
        name="SIGTERM", after="", words=["check", str(many_frames), "-j", "1"], **place
    )
    assert _ended(script, many_frames, environment) == (143, "kinema: stopped, nothing was written\n")


@pytest.fixture(scope="module")
def many_scalars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An H5MD file of some frames and a thousand scalars, which take tenths of a second to be looked at, copied."""
    path = tmp_path_factory.mktemp("many") / "many.h5md"
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", np.ones((5, 4, 3), "f4"), steps=np.arange(5), times=np.arange(5.0), unit="nm")
        for number in range(1000):
            file[f"parameters/s{number}"] = float(number)
    return path


WALK = {"module": "kinema.storage.hdf5.trust.verdicts", "owner": "_Walker", "method": "ask"}
COPY = {"module": "kinema.storage.hdf5.copying", "owner": "_Copy", "method": "members"}
COMPARE = {"module": "kinema.files.h5md.rewrite", "owner": "_Rewriter", "method": "compare"}


WORK = {
    "walk of info": ("info", WALK),
    "walk of repack": ("repack", WALK),
    "copy": ("repack", COPY),
    "comparison": ("repack", COMPARE),
}


@pytest.mark.parametrize(("work", "name"), each(list(WORK), SIGNALS))
def test_a_signal_ends_the_work_on_an_hdf5_file_of_many_objects(
    many_scalars: Path,
    tmp_path: Path,
    environment: dict[str, str],
    work: str,
    name: str,
) -> None:
    command, place = WORK[work]
    path = Path(shutil.copy(many_scalars, tmp_path))
    words = [command, str(path), *([str(tmp_path / "out.h5md")] if command == "repack" else []), "--quiet"]
    script = WITHIN.format(name=name, after=AFTER, words=words, **place)
    code = 128 + signal.Signals[name]
    assert _ended(script, path, environment) == (code, "kinema: stopped, nothing was written\n")
    assert list(tmp_path.iterdir()) == [path]


def _ended(script: str, path: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and stderr of the first attempt in which the signal was sent before the call had ended."""
    command = [sys.executable, "-c", script]
    for _ in range(20):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        # the next one scans as well
        for index in path.parent.glob(".*"):
            index.unlink()
        if done.returncode != TOO_LATE:
            return done.returncode, done.stderr
    pytest.fail("the signal was never sent before the call had ended")
