"""Two runs with one output, and runs that are killed: whose rows a file has, who is refused, what is left."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd
from kinema.testing.amounts import wanted_kills
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.processes

# of processes that start for it
KILLS = wanted_kills(4)

ROWS = """
import os, sys, time
import kinema as kn

source, out, value = sys.argv[1], sys.argv[2], float(sys.argv[3])

def function(frame):
    if frame.frame == 0:
        print("begun", flush=True)
        sys.stdin.readline()
    return value

kn.analysis.from_function(function, kn.open(source)).run(out=out, runner="serial")
"""

WRITER = """
import sys, numpy
import kinema as kn

is_h5md = sys.argv[1].endswith(".h5md")
with kn.Writer(sys.argv[1], 40, **({"layout": (3, 40, 3), "compression": "zstd"} if is_h5md else {})) as out:
    if is_h5md:
        out.add_observable("energy", unit="kJ mol-1")
    for i in range(10_000_000):
        out.write(numpy.full((40, 3), i, "f4"), step=5 * i, time=0.5 * i, cell=[10, 11, 12 + i])
        if is_h5md:
            out.write_observable("energy", float(i))
        if i % 7 == 6:
            out.flush()
            print(out.n_flushed, flush=True)
"""

REPACK = """
import sys
import kinema as kn

print("begun", flush=True)
while True:
    kn.repack(sys.argv[1], sys.argv[2], layout="atoms", compression="gzip", overwrite=True, workers=1)
"""


@contextmanager
def started(code: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `code`; it is killed at the end of the block."""
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    command = [sys.executable, "-c", code, *map(str, words)]
    process = start_child(command, stdin=subprocess.PIPE, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=120)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_dcd(tmp_path / "a.dcd", random_walk(50, 4))
    return tmp_path / "a.dcd"


def test_the_second_run_with_one_output_is_refused_before_it_computes(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "rows.h5"
    with started(ROWS, source, out, 1.0) as first:
        assert line_of(first) == "begun"
        with started(ROWS, source, out, 2.0) as second:
            printed, error = second.communicate(timeout=120)
            assert (printed, second.returncode) == ("", 1)
        assert f"{out}: is being written by process {first.pid}, as rows.part-" in error
        _, error = first.communicate("go on\n", timeout=120)
        assert first.returncode == 0, error
    with h5py.File(out) as file:
        assert file.attrs["complete"]
        assert set(file[_name(file)][...].ravel()) == {1.0}
    assert sorted(os.listdir(tmp_path)) == ["a.dcd", "rows.h5"]


def _name(file: h5py.File) -> str:
    (name,) = set(file) - {"frames", "time"}
    return str(name)


def test_of_runs_that_begin_together_one_goes_through(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "rows.h5"
    with ExitStack() as stack:
        runs = [stack.enter_context(started(ROWS, source, out, value)) for value in (1.0, 2.0, 3.0)]
        codes, errors = [], []
        # those that are refused end by themselves; the one that computes waits for the others
        waiting = [number for number, run in enumerate(runs) if line_of(run) == "begun"]
        assert len(waiting) == 1
        for number, run in enumerate(runs):
            if number not in waiting:
                errors.append(run.communicate(timeout=120)[1])
                codes.append(run.returncode)
        assert codes == [1, 1]
        assert all("is being written by process" in error for error in errors)
        _, error = runs[waiting[0]].communicate("go on\n", timeout=120)
        assert runs[waiting[0]].returncode == 0, error
    with h5py.File(out) as file:
        assert set(file[_name(file)][...].ravel()) == {waiting[0] + 1.0}


def test_a_killed_run_does_not_keep_the_next_from_its_output(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "rows.h5"
    with started(ROWS, source, out, 1.0) as first:
        assert line_of(first) == "begun"
        first.kill()
        first.wait(120)
    assert len(list(tmp_path.glob("rows.part-*.h5"))) == 1
    kn.analysis.from_function(lambda frame: 2.0, kn.open(source)).run(out=out)
    assert sorted(os.listdir(tmp_path)) == ["a.dcd", "rows.h5"]


@pytest.mark.parametrize("suffix", ["h5md", "xtc", "dcd"])
def test_writers_that_are_killed_leave_what_they_flushed(tmp_path: Path, suffix: str) -> None:
    chance = random.Random(13)
    for number in range(KILLS):
        path = tmp_path / f"{number}.{suffix}"
        with started(WRITER, path) as writer:
            flushed = 0
            for _ in range(chance.randrange(1, 30)):
                flushed = int(line_of(writer))
            # at any moment from here on
            with pytest.raises(subprocess.TimeoutExpired):
                writer.wait(chance.random() * 0.02)
            writer.kill()
            assert writer.stdout is not None
            flushed = max([flushed, *map(int, writer.stdout.read().split())])
        (part,) = tmp_path.glob(f"{number}.part-*.{suffix}")
        traj = kn.open(part)
        assert traj.n_frames >= flushed
        for frame in (0, flushed // 2, flushed - 1):
            found = traj[frame]
            exact = {"rel": 0, "abs": 0} if suffix == "h5md" else {"rel": 1e-6, "abs": 1e-12}
            assert np.asarray(found.positions) == pytest.approx(np.full((40, 3), frame), **exact)
            assert found.step == 5 * frame
            assert (found.time, found.cell[2, 2]) == pytest.approx((0.5 * frame, 12 + frame), **exact)
        if suffix == "h5md":
            with h5py.File(part) as file:
                assert file["observables/energy/value"][:flushed].tolist() == list(range(flushed))
        # the next run names it and leaves it alone
        with pytest.warns(kn.Note, match=f"{part.name}: holds what a run has left"), kn.Writer(path, 40) as out:
            out.write(np.zeros((40, 3)))
        assert part.exists() and path.exists()


@pytest.mark.parametrize("suffix", ["h5md", "xtc", "dcd"])
def test_a_writer_that_is_killed_before_its_first_flush_leaves_nothing_for_good(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"made.{suffix}"
    code = f"import os, kinema as kn\nout = kn.Writer({str(path)!r}, 40)\nos.kill(os.getpid(), 9)\n"
    subprocess.run([sys.executable, "-c", code], timeout=120)
    assert len(list(tmp_path.glob(f"made.part-*.{suffix}"))) == 1
    with kn.Writer(path, 40) as out:
        out.write(np.zeros((40, 3)))
    path.with_name(f".{path.name}.kinema-index").unlink(missing_ok=True)
    assert os.listdir(tmp_path) == [path.name]


def test_repack_that_is_killed_leaves_nothing_for_good(tmp_path: Path) -> None:
    chance = random.Random(14)
    whole, out = tmp_path / "whole.h5md", tmp_path / "out.h5md"
    with kn.Writer(whole, 500) as file:
        file.write(random_walk(200, 500))
    for _ in range(KILLS):
        with started(REPACK, whole, out) as process:
            assert line_of(process) == "begun"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3 * chance.random())
            process.kill()
            process.wait(120)
        if out.exists():
            assert kn.open(out).n_frames == 200
    kn.repack(whole, out, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["out.h5md", "whole.h5md"]
