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
from kinema.testing.amounts import each
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.processes

# argv: folder, suffix, where the package is, number of parts; as `Conversion.run`
RUN = """
import os, sys, warnings
sys.path.insert(0, os.path.dirname(sys.argv[3]))
warnings.simplefilter("ignore")
import kinema as kn
folder, suffix = sys.argv[1:3]

def run():
    parts = [folder + "/in.xtc"] * int(sys.argv[4])
    kn.convert(parts, folder + "/made/a." + suffix, overlap="all", select=range(19_000, 20_000),
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
kill_at_random(run, int(sys.argv[5]), int(sys.argv[6]), float(sys.argv[7]))
"""
)


def _started(script: str, conversion: Any, *words: object, seconds: float = 200) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    given = [conversion.path, conversion.out.suffix[1:], kn.__file__, conversion.n_parts, *words]
    command = [sys.executable, "-c", script, *given]
    return start_child([str(word) for word in command], env=environment, stdin=subprocess.PIPE, seconds=seconds)


def test_killed_at_random_moments(conversion: Any, kills: Callable[..., int]) -> None:
    expected, n_kills, seed = conversion.whole(), kills(), random.randrange(1 << 32)
    print("seed", seed)
    process = _started(KILLER, conversion, seed, n_kills, 0.4, seconds=max(200, 10 * n_kills))
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


@pytest.mark.parametrize(
    ("conversion", "number"),
    each(["dcd", "xtc", "h5md"], [signal.SIGTERM, signal.SIGINT]),
    indirect=["conversion"],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_a_signal_that_ends_saves_first(conversion: Any, number: signal.Signals) -> None:
    code = 1 if number is signal.SIGINT else -number
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
    assert 0 < conversion.run(workers=2).n_restored < conversion.n_frames
    assert conversion.content == conversion.whole()
