"""Functions, kernels, partials and exceptions that are defined in a script itself, on every runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinema.testing import random_walk, write_dcd

pytestmark = pytest.mark.processes

SCRIPT = """
from dataclasses import dataclass

import numpy as np

import kinema as kn

SCALE = 2.0


class TooFar(Exception):
    def __init__(self, frame):
        super().__init__(f"atom 0 has left in frame {frame}")
        self.frame = frame

    def __reduce__(self):
        return TooFar, (self.frame,)


@dataclass
class Gathered:
    frames: int
    total: np.ndarray


class Centre(kn.analysis.PythonKernel):
    def empty(self):
        return Gathered(0, np.zeros(3))

    def accumulate(self, partial, block):
        total = partial.total + SCALE * block.positions.astype(float).sum(axis=(0, 1))
        return Gathered(partial.frames + len(block.frames), total)

    def merge(self, left, right):
        assert isinstance(left, Gathered) and isinstance(right, Gathered)
        return Gathered(left.frames + right.frames, left.total + right.total)

    def finish(self, partial):
        return {"centre": partial.total / partial.frames}


def scaled(frame):
    return SCALE * frame.positions[0].astype(float)


def leaving(frame):
    if frame.frame == 77:
        raise TooFar(frame.frame)
    return 1.0


def analyse(runner):
    traj = kn.open(PATH)
    for choice in ({"runner": "serial"}, {"runner": runner}):
        rows = kn.analysis.from_function(scaled, traj).run(**choice).results.values
        rows_of_words = kn.analysis.from_function(lambda frame: SCALE * frame.frame, traj).run(**choice).results.values
        centre = kn.analysis.Custom(traj, Centre()).run(**choice).results.centre
        print(rows.sum(), rows_of_words.sum(), centre.tolist())
    # continued from partials that workers of the first run have sent
    checkpoint = PATH + ".ckpt"
    try:
        kn.analysis.from_function(leaving, traj).run(runner=runner, checkpoint=checkpoint)
    except TooFar as error:
        print("too far in", error.frame)
    try:
        kn.analysis.from_function(scaled_by(open(PATH, "rb")), traj).run(runner=runner)
    except kn.ArgumentError as error:
        print(error)


def scaled_by(handle):
    def held(frame):
        return handle.tell() * 1.0
    return held
"""
ENDINGS = {
    "processes": "analyse('processes')",
    # one cluster for all runs
    "dask": "runner = kn.runners.Dask()\nwith runner.session():\n    analyse(runner)",
    "mpi": "with kn.runners.MPI() as mpi:\n    if mpi.is_root:\n        analyse(mpi)",
    # the others have the functions of their own copy of the script besides
    "mpi, run by all": "mpi = kn.runners.MPI(results='all')\nanalyse(mpi)",
}


@pytest.mark.parametrize("way", ENDINGS)
def test_the_code_of_a_script_goes_along(way: str, tmp_path: Path, mpi: Any) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(200, 20))
    text = f"PATH = {str(tmp_path / 'a.dcd')!r}\n{SCRIPT}\n{ENDINGS[way]}\n"
    if way.startswith("mpi"):
        printed = mpi.script(3, text.replace("print(", "say("), tmp_path)
    else:
        (tmp_path / "script.py").write_text(text)
        done = mpi.run(["script.py"], tmp_path)
        assert done.returncode == 0, done.stderr
        printed = done.stdout
    copies = 3 if way == "mpi, run by all" else 1
    lines = printed.splitlines()
    assert len(lines) == 4 * copies
    # the same on the runner as serially
    assert len({line for line in lines if line.endswith("]")}) == 1, printed
    assert lines.count("too far in 77") == copies
    refused = [line for line in lines if "held cannot be sent to workers" in line]
    assert len(refused) == copies
    assert "runner='threads'" in refused[0]
