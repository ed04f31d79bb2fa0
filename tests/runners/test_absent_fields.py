"""Frames of a TRR file that have no positions: analyses refuse them by number, and take the others, on every runner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.runners import Runner, choose_runner
from kinema.testing import random_walk, write_trr

N_FRAMES, N_ATOMS = 24, 30
RUNNERS = ("serial", "threads", "processes", "dask")
WORKERS = {"serial": 1, "threads": 2, "processes": 2, "dask": 2}
ANALYSES: tuple[tuple[Any, dict[str, Any]], ...] = (
    (kn.RMSD, {}),
    (kn.RMSF, {}),
    (kn.RadiusOfGyration, {"weights": None}),
)


@pytest.fixture
def positions() -> Any:
    return random_walk(N_FRAMES, N_ATOMS).astype(np.float32)


@pytest.fixture
def strided(positions: Any, tmp_path: Path) -> Path:
    """Velocities in every frame, positions in every third."""
    write_trr(tmp_path / "md.trr", positions, velocities=positions / 7, every=(3, 1, 1))
    return tmp_path / "md.trr"


@pytest.fixture(scope="module", params=RUNNERS)
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """Each of them, with workers that stay."""
    made = choose_runner(request.param)
    with made.session():
        yield made


def test_frames_without_positions_are_refused_by_number(strided: Path, runner: Runner) -> None:
    workers = WORKERS[runner.name]
    for analysis, options in ANALYSES:
        with pytest.raises(kn.ArgumentError, match=r"md\.trr: TRR frame \d+: the frame has no positions") as caught:
            analysis(kn.open(strided), **options).run(runner=runner, workers=workers)
        assert caught.value.frame is not None
        assert caught.value.frame % 3
        with pytest.raises(kn.ArgumentError, match=r"md\.trr: TRR frame 7: the frame has no positions"):
            analysis(kn.open(strided), **options).run(frames=[0, 3, 7], runner=runner, workers=workers)


def test_frames_with_positions_are_taken(strided: Path, positions: Any, tmp_path: Path, runner: Runner) -> None:
    write_trr(tmp_path / "those.trr", positions[::3])
    workers = WORKERS[runner.name]
    for analysis, options in ANALYSES:
        found = analysis(kn.open(strided), **options).run(step=3, runner=runner, workers=workers)
        expected = analysis(kn.open(tmp_path / "those.trr"), **options).run(runner="serial")
        assert np.isfinite(expected.results.values).all()
        np.testing.assert_array_equal(found.results.values, expected.results.values)
        chosen = analysis(kn.open(strided), **options).run(frames=range(0, N_FRAMES, 3), runner=runner, workers=workers)
        np.testing.assert_array_equal(chosen.results.values, expected.results.values)


def test_the_frame_is_that_of_its_file(strided: Path, positions: Any, tmp_path: Path) -> None:
    write_trr(tmp_path / "first.trr", positions, first_step=0)
    write_trr(tmp_path / "later.trr", positions, velocities=positions, first_step=N_FRAMES, every=(2, 1, 1))
    both = kn.open([tmp_path / "first.trr", tmp_path / "later.trr"])
    with pytest.raises(kn.ArgumentError, match=r"later\.trr: TRR frame 1: the frame has no positions"):
        kn.RMSD(both).run(0, N_FRAMES + 2, runner="serial")
    assert len(kn.RMSD(both).run(0, N_FRAMES + 1, runner="serial").results.values) == N_FRAMES + 1


def test_skipping_damaged_frames_does_not_skip_those(strided: Path) -> None:
    with pytest.raises(kn.ArgumentError, match="the frame has no positions"):
        kn.RMSD(kn.open(strided)).run(skip_damaged=True)
