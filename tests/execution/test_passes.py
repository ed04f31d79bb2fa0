"""Passes whose number is not known beforehand: with others, titles, and checkpoints in the middle of any of them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.analysis.base import Passes, Results
from kinema.execution import run as run_module
from kinema.execution.checkpoint import Checkpoint
from kinema.execution.checkpoint.file import load
from kinema.model.selection.frames import FrameSelection
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.children import start_child

N_FRAMES, N_ATOMS = 60, 12


def spread_up_to(limit: float, number: int) -> Callable[[Any], float]:
    """The spread of a frame; NaN where it is above the limit. Pass `number` ends as the environment says."""

    def spread(frame: Any) -> float:
        if frame.frame == 40 and os.environ.get("END_PASS") == str(number):
            if os.environ.get("END_BY") == "kill":
                os.kill(os.getpid(), 9)
            raise InterruptedError(f"in pass {number}")
        found = float(frame.positions.std())
        return found if found <= limit else np.nan

    return spread


class Trimmed(Analysis):
    """The mean spread of the frames that are not above the mean of the pass before, until it stands still."""

    n_passes = None

    def __init__(self, trajectory: kn.Trajectory) -> None:
        super().__init__(trajectory, trajectory.select(None), {})

    def _passes(self, frames: FrameSelection) -> Passes:
        means = [np.inf]
        while len(means) < 3 or means[-1] != means[-2]:
            number = len(means)
            function = spread_up_to(means[-1], number)
            of_pass = yield kn.analysis.from_function(function, self.trajectory)._pass()
            means.append(float(np.nanmean(of_pass["values"])))
        return Results(means=np.array(means), values=of_pass["values"])

    def _table(self) -> Any:
        raise NotImplementedError


@pytest.fixture
def traj(tmp_path: Path) -> kn.Trajectory:
    write_dcd(tmp_path / "a.dcd", random_walk(N_FRAMES, N_ATOMS))
    return kn.open(tmp_path / "a.dcd", stored=False)


def unknown_number_analyses(traj: kn.Trajectory) -> list[Analysis]:
    """Two of unknown number, and two of fixed ones, in passes together."""
    rmsf = kn.analysis.RMSF
    return [
        Trimmed(traj),
        rmsf(traj, align="iterative", tolerance=1e-3),
        rmsf(traj, align="average"),
        kn.analysis.RMSD(traj),
    ]


def bits(analyses: list[Analysis]) -> list[bytes]:
    return [np.asarray(one.results[name]).tobytes() for one in analyses for name in one.results]


def test_together_is_as_alone(traj: kn.Trajectory) -> None:
    together = kn.run(unknown_number_analyses(traj))
    alone = [one.run() for one in unknown_number_analyses(traj)]
    assert bits(together) == bits(alone)
    rounds = [len(one.timings.passes) for one in alone]
    assert rounds[0] == len(alone[0].results.means) - 1
    assert rounds[0] > 3
    assert rounds[1] > 3
    assert rounds[2:] == [2, 1]
    assert len(together[0].timings.passes) == max(rounds)
    # the last pass has changed nothing, and all before it did
    means = alone[0].results.means
    assert means[-1] == means[-2]
    assert len(set(means[:-1])) == len(means) - 1


def test_titles(traj: kn.Trajectory, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    @contextmanager
    def reporting(_choice: Any, title: str, _total: int, **_options: Any) -> Iterator[None]:
        seen.append(title)
        yield

    monkeypatch.setattr(run_module, "reporting", reporting)
    kn.run(unknown_number_analyses(traj)[1:])
    assert seen[0] == "RMSF, RMSF, RMSD, round 1"
    assert seen[1].startswith("RMSF, RMSF, round 2; the average moved by ")
    assert seen[2].startswith("RMSF, round 3; the average moved by ")
    seen.clear()
    kn.run(unknown_number_analyses(traj)[2:])
    assert seen == ["RMSF, RMSD, round 1 of 2", "RMSF, round 2 of 2"]


@pytest.mark.parametrize("number", [1, 2, 4])
def test_an_error_in_the_middle_of_a_pass(
    traj: kn.Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    expected = bits(kn.run(unknown_number_analyses(traj)))
    path = tmp_path / "run.ckpt"
    monkeypatch.setenv("END_PASS", str(number))
    with pytest.raises(InterruptedError, match=f"in pass {number}"):
        kn.run(unknown_number_analyses(traj), checkpoint=path, checkpoint_interval=0, runner="serial")
    content = load(str(path))
    assert content is not None
    assert len(content.passes) == number
    monkeypatch.delenv("END_PASS")
    again = kn.run(unknown_number_analyses(traj), checkpoint=path, workers=2)
    assert bits(again) == expected
    restored = [one.restored for one in again[0].timings.passes]
    assert restored[: number - 1] == [N_FRAMES] * (number - 1)
    assert restored[number - 1] == 40
    assert not any(restored[number:])
    assert not path.exists()


@pytest.mark.processes
def test_killed_in_one_pass_after_the_other(traj: kn.Trajectory, tmp_path: Path) -> None:
    expected = bits(kn.run(unknown_number_analyses(traj)))
    script = (
        "import sys\nfrom pathlib import Path\nsys.path.insert(0, sys.argv[1])\nimport kinema as kn\n"
        "from test_passes import bits, unknown_number_analyses\n"
        "made = kn.run(unknown_number_analyses(kn.open(sys.argv[2], stored=False)), checkpoint=sys.argv[3], "
        "checkpoint_interval=0, runner='serial')\n"
        "Path(sys.argv[4]).write_bytes(b''.join(bits(made)))\n"
    )
    names = [Path(__file__).parent, traj.paths[0], tmp_path / "run.ckpt", tmp_path / "found"]
    words = [sys.executable, "-c", script, *map(str, names)]
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent), "END_BY": "kill"}
    for number in (2, 3, 0):
        process = start_child(words, env=environment | {"END_PASS": str(number)}, seconds=100)
        said = process.communicate(timeout=100)[1]
        assert process.returncode == (-signal.SIGKILL if number else 0), said
        content = load(str(tmp_path / "run.ckpt"))
        assert (len(content.passes) if content else 0) == number
    assert (tmp_path / "found").read_bytes() == b"".join(expected)


def test_a_kept_checkpoint_holds_all_passes(traj: kn.Trajectory, tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path / "run.ckpt", keep=True)
    first = kn.run(unknown_number_analyses(traj), checkpoint=kept)
    again = kn.run(unknown_number_analyses(traj), checkpoint=kept)
    assert bits(again) == bits(first)
    assert again[0].timings.frames_restored == N_FRAMES * len(first[0].timings.passes)


def test_what_was_made_otherwise_is_refused(
    traj: kn.Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.ckpt"
    monkeypatch.setenv("END_PASS", "3")
    with pytest.raises(InterruptedError):
        kn.run(unknown_number_analyses(traj), checkpoint=path, checkpoint_interval=0, runner="serial")
    others = unknown_number_analyses(traj)
    others[1] = kn.analysis.RMSF(traj, align="iterative", tolerance=1e-2)
    with pytest.raises(kn.ArgumentError, match=r"tolerance of RMSF \(analysis 2\), expected 0.001, found 0.01"):
        kn.run(others, checkpoint=path)
    # an analysis that decides otherwise from the same results, in the third pass
    monkeypatch.setattr(np, "nanmean", lambda values: np.float64(np.nanmax(values)))
    with pytest.raises(kn.ArgumentError, match=r"the code .*of Trimmed, round 2, expected .*digest"):
        kn.run(unknown_number_analyses(traj), checkpoint=path)


def test_what_cannot_have_passes_of_unknown_number(traj: kn.Trajectory, tmp_path: Path) -> None:
    analysis = unknown_number_analyses(traj)[1]
    with pytest.raises(kn.ArgumentError, match=r"RMSF\(.*align='iterative'.*\) reads all frames until .* stand still"):
        analysis.follow(timeout=1)
    with pytest.raises(kn.ArgumentError, match="no results per frame"):
        analysis.run(out=tmp_path / "rows.h5")


def test_passes_that_never_end(traj: kn.Trajectory) -> None:
    analysis = kn.analysis.RMSF(traj, align="iterative", tolerance=1e-30, most_passes=3)
    with pytest.raises(kn.ArgumentError, match=r"stand still after 3 passes: the last one moved it by .* angstrom"):
        analysis.run()
    assert not analysis.results
