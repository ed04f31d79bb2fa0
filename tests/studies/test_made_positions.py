"""Positions that are made in memory: kernels see what is read, and nothing is read or decoded for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.cli.in_process import call_kinema
from kinema.studies import Design
from kinema.studies.run_files import kept_frames


@pytest.fixture
def made(tmp_path: Path) -> kn.Trajectory:
    """45 frames of 12 atoms, of which 20 differ."""
    path = tmp_path / "made"
    path.write_bytes(_core.made_file(3, 12, 45, 20))
    return kn.open(path, format="made")


def positions(frame: kn.Frame) -> Any:
    return frame.positions


def test_only_who_names_the_format_opens_it(made: kn.Trajectory) -> None:
    """The head of a file from elsewhere must not decide how much memory is taken."""
    with pytest.raises(kn.errors.UnsupportedFormatError, match="not a format that Kinema reads"):
        kn.open(made.paths)


def test_frames_repeat(made: kn.Trajectory) -> None:
    found = made.read()
    assert (made.format, made.n_frames, made.n_atoms, found.shape) == ("made", 45, 12, (45, 12, 3))
    np.testing.assert_array_equal(found[20:40], found[:20])
    assert len(np.unique(found[:20].reshape(20, -1), axis=0)) == 20
    assert np.abs(found).max() < 16 and made[7].time == 7.0


@pytest.mark.parametrize(
    "chosen", [{}, {"step": 3}, {"start": 15, "stop": 43}, {"frames": [30, 2, 2, 19, 20, 21]}, {"frames": [44]}]
)
@pytest.mark.parametrize("atoms", [None, [1, 5, 6, 11], [5, 5, 0]])
def test_kernels_see_what_is_read(made: kn.Trajectory, chosen: dict[str, Any], atoms: list[int] | None) -> None:
    numbers = made.choose(**chosen).numbers()
    for workers in (1, 3):
        ran = kn.analysis.from_function(positions, made, atoms).run(**chosen, workers=workers)
        np.testing.assert_array_equal(ran.results.values, made.read(select=atoms, frames=numbers))
        np.testing.assert_array_equal(ran.results.time, numbers)
        (timings,) = ran.timings.passes
        assert {(one.io, one.decode, one.bytes_read, one.reads) for one in timings.workers} == {(0.0, 0.0, 0, 0)}


def test_transforms_change_copies(made: kn.Trajectory) -> None:
    before = made.read()
    aligned = kn.analysis.RMSF(made, align="reference").run()
    moved = made.with_transform(kn.transforms.superpose())
    ran = kn.analysis.from_function(positions, moved).run()
    np.testing.assert_array_equal(ran.results.values, moved.read())
    assert not np.array_equal(moved.read(), before)
    np.testing.assert_array_equal(made.read(), before)
    np.testing.assert_array_equal(
        kn.analysis.RMSF(made, align="reference").run(workers=2).results.rmsf, aligned.results.rmsf
    )


def test_the_same_bits_on_other_processes(made: kn.Trajectory) -> None:
    alone = kn.analysis.RMSD(made).run(workers=1).results.rmsd
    ran = kn.analysis.RMSD(made).run(workers=2, runner="processes")
    np.testing.assert_array_equal(ran.results.rmsd, alone)
    assert sum(one.io + one.decode for one in ran.timings.workers) == 0.0


def test_memory_is_bounded() -> None:
    design = Design(files=(), sources=("none",), frames=1000, atoms=100, memory="1 MiB")
    assert kept_frames(design, 100, 1000, 1) == (1 << 19) // 1200
    assert kept_frames(design, 100, 1000, 4) == (1 << 19) // 4800
    assert kept_frames(design, 100, 10, 4) == 10
    with pytest.raises(kn.errors.ArgumentError, match="memory limit of at least"):
        kept_frames(design, 100_000, 1000, 1)


@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_an_experiment_without_files(tmp_path: Path, runner: str) -> None:
    words = "scaling --source none --frames 600 --atoms 2000 --workers 2 --repeats 1 --memory 8MiB"
    done = call_kinema(*words.split(), "--runner", runner, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    kept = (4 << 20) // (12 * 2000 * (2 if runner == "processes" else 1))
    assert f"{kept} of 600 frames fit in the memory of each process, and repeat" in done.stderr
    (path,) = (tmp_path / "out/reports").iterdir()
    report = json.loads(path.read_text())
    assert report["extra"]["kept_frames"] == kept and report["extra"]["source"] == "none"
    (line,) = (tmp_path / "out/results.jsonl").read_text().splitlines()
    assert json.loads(line)["quantities"]["t_IO"] == 0.0 and json.loads(line)["quantities"]["t_compute"] > 0.0


def test_what_an_experiment_without_files_needs(tmp_path: Path) -> None:
    for words, told in (
        ("--source none --frames 9", "source none needs frames and atoms"),
        ("--frames 9 -f md.xtc", "frames and atoms are for source none"),
        ("--source none,file --frames 9 --atoms 9", "no trajectory is named"),
        ("--source none --frames 9 --atoms 9 --task split", "needs a trajectory"),
    ):
        done = call_kinema("scaling", *words.split(), "-o", tmp_path / "out")
        assert done.returncode == 2 and told in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
