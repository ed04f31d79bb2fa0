"""`kn.convert(checkpoint=)` ended by signals: at any moment it goes on to the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.processes

# argv: folder, suffix; as `Conversion.run`
RUN = """
import os, sys, warnings
sys.path.insert(0, os.path.dirname(sys.argv[3]))
warnings.simplefilter("ignore")
import kinema as kn
folder, suffix = sys.argv[1:3]

def run():
    kn.convert([folder + "/in.xtc"] * 200, folder + "/made/a." + suffix, overlap="all", select=range(19_000, 20_000),
               checkpoint=folder + "/made/a.ckpt", checkpoint_interval=0, workers=2, progress=progress,
               overwrite=True)  # a call that was killed at its very end has made the file and removed the checkpoint

def progress(done, total):
    if done and not said:
        said.append(print("at work", flush=True))

said = []
"""

# Forks after its imports; nothing has a thread when it forks. Prints how each call has ended.
KILLER = (
    RUN
    + """
from kinema.testing.programs.children import kill_at_random
kill_at_random(run, int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]))
"""
)


def _started(script: str, conversion: Any, *words: object, seconds: float = 200) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script, conversion.path, conversion.out.suffix[1:], kn.__file__, *words]
    return start_child([str(word) for word in command], env=environment, stdin=subprocess.PIPE, seconds=seconds)


def test_killed_at_random_moments(conversion: Any, kills: Callable[..., int]) -> None:
    expected, n_kills, seed = conversion.whole(), kills(), random.randrange(1 << 32)
    print("seed", seed)
    process = _started(KILLER, conversion, seed, n_kills, 0.5, seconds=max(200, 10 * n_kills))
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with process:
        for line in process.stdout:
            if line != "finished\n":
                assert line == f"kills {n_kills}\n"
                break
            assert conversion.content == expected
            assert conversion.left == {conversion.out.name}
            conversion.out.unlink()
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 1)])
def test_a_signal_that_ends_saves_first(conversion: Any, number: signal.Signals, code: int) -> None:
    process = _started(RUN + "\nrun()", conversion)
    assert process.stdout is not None and process.stderr is not None
    with process:
        assert process.stdout.readline() == "at work\n"
        process.send_signal(number)
        said = process.stderr.read()
    # a Python that is interrupted ends by the signal, too
    assert process.returncode in (code, -number)
    if number is signal.SIGINT:
        assert "KeyboardInterrupt" in said and "what was done is in" in said
    else:
        assert said == ""
    assert conversion.left == {"a.ckpt", conversion.part.name}
    assert 0 < conversion.run(workers=2).n_restored < 4000
    assert conversion.content == conversion.whole()
