"""`tools/attack`: some trials of each attack hold, a planted fault is found, and its seed tries it again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kinema as kn

ROOT = Path(__file__).resolve().parents[2]

# breaks a promise of the library, or what a trial reads of it
PLANTED = {
    "kills: writers": "writing.Work.committed = property(lambda self: 60)",
    "full disks: writers": "writing.Work.committed = property(lambda self: 60)",
    "injected faults: tables": """
def saved(source, path):
    path.write_bytes(b"half")
    os.fsync(os.open(path, os.O_RDWR))
    raise kn.errors.FileIOError("no room")
faults._saved = saved""",
    "stopped workers": "stopped._PATIENCE = 0.0",
    "forged indices": """
read = indices._read
def believed(path, stored, window):
    n_frames, values = read(path, stored, window)
    return n_frames - stored, values
indices._read = believed""",
    "cells, times and steps through writers": """
write = cells._write
cells._write = lambda path, options, given, *rest: write(path, options, [None for _ in given], *rest)""",
    "wrong command lines": """
import kinema.cli
kinema.cli.main = lambda words: sys.exit(70)""",
}
# of one process, whose imports take longest
BEGIN = """
import os, sys
import attack.__main__ as program
from attack import cells, commands, faults, indices, kills, stopped, writing
import kinema as kn
"""
SEED, TRIALS = 11, 3
# a kill may come before there is anything to lose
TRIALS_OF = {name: 12 if name.startswith("kills") else TRIALS for name in PLANTED}


@pytest.fixture(scope="module")
def printed() -> tuple[str, str]:
    """Output of attacks: a trial of each, and then the trials with planted faults."""
    # with this seed an injected fault once left frames without cells
    script = 'print("code", program.main(["--seed", "5", "--trials", "1"]))\nprint("-- planted")\n'
    for name, fault in PLANTED.items():
        words = ["--only", name, "--seed", str(SEED), "--trials", str(TRIALS_OF[name])]
        script += f"{fault}\nprint('code', program.main({words!r}))\n"
    # nothing in this one depends on the moment
    again = ["--only", "wrong command lines", "--seed", str(SEED), "--trials", "1"]
    held, planted = _printed(f"{script}program.main({again!r})\n").split("-- planted\n")
    return held, planted


def _printed(script: str) -> str:
    package = str(Path(kn.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, str(ROOT / "tools")])}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script], env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_trial_of_each_attack_holds(printed: tuple[str, str]) -> None:
    said, _ = printed
    assert "\ncode 0\n" in said, said
    rows = re.findall(r"^\| `(.+)` \| (\d+) \| (\d+) \| (.+) \| \d+ \|$", said, re.MULTILINE)
    assert {name for name, *_ in rows} >= PLANTED.keys()
    for _, trials, held, broken in rows:
        # strace may be missing
        assert (trials, held, broken) == ("1", "1", "0") or broken.startswith("not tried: strace")


def test_planted_faults_are_found_and_seeds_find_them_again(printed: tuple[str, str]) -> None:
    _, said = printed
    codes = re.findall(r"^code (\d)$", said, re.MULTILINE)
    for name, code in zip(PLANTED, codes, strict=True):
        found = re.findall(rf"^broken: {re.escape(name)}, seed (\d+): .", said, re.MULTILINE)
        if found or f"`{name}` | 0 | 0 | not tried: strace" not in said:
            assert code == "1", said
            assert {int(seed) for seed in found} <= set(range(SEED, SEED + TRIALS_OF[name]))
    assert re.search("^broken: forged indices, .* frames, expected [0-9]+, or other values$", said, re.MULTILINE)
    (line,) = set(re.findall(rf"^broken: wrong command lines, seed {SEED}: .*$", said, re.MULTILINE))
    assert said.count(line) == 2
