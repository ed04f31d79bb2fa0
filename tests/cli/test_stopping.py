"""Ctrl-C and SIGTERM: the run stops, the exit code says why, no half-written file stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# The signal is sent when half of the file is written: no test has to guess how long to wait.
SCRIPT = """
import os, signal
from kinema.cli import main
import kinema.output

def half(file, table, provenance):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.{name})
    signal.pause()

kinema.output._WRITERS[".csv"] = half
main({words!r})
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_while_the_output_is_written(
    files: Any, tmp_path: Path, environment: dict[str, str], name: str, code: int
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    words = ["rmsd", "-f", str(files.dcd), "-n", str(files.ndx), "--group", "C-alpha", "-o", str(folder / "a.csv")]
    script = SCRIPT.format(name=name, words=words)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    assert done.stderr == "kinema: stopped, nothing was written\n"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_a_long_run(
    files: Any, tmp_path: Path, environment: dict[str, str], number: signal.Signals, code: int
) -> None:
    output = tmp_path / "rmsd.csv"
    # the parts are the same file: a run of some 400,000 frames
    words = ["rmsd", "-f", *[str(files.dcd)] * 4000, "--overlap", "all", "-n", str(files.ndx)]
    words += ["--group", "C-alpha", "-o", str(output), "-j", "1"]
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "kinema", *words],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    # what the command needs is imported when it is called; then the work begins
    for line in process.stderr:
        if line.rstrip().endswith("kinema.cli.reference"):
            break
    process.send_signal(number)
    assert process.stderr.read().splitlines()[-1] == "kinema: stopped, nothing was written"
    assert process.wait(timeout=60) == code
    assert not output.exists()
