"""Analyses of files that are being written: results are those of a run over the finished file, to the bit."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.following.writers import Made, Program, Stage, appending, extending, make

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.programs.children import start_child

N_FRAMES = 30


@pytest.fixture(autouse=True)
def noted() -> Iterator[list[str]]:
    with collected() as notes:
        yield notes


class Sums(kn.analysis.PythonKernel):
    """Sums of positions in the order of frames: their bits depend on where the leaves are."""

    def empty(self) -> Any:
        return np.zeros(3)

    def accumulate(self, partial: Any, block: Any) -> Any:
        for positions in block.positions:
            partial = partial + positions.astype(np.float64).sum(axis=0) / 3.0
        return partial

    def merge(self, left: Any, right: Any) -> Any:
        return left + right

    def finish(self, partial: Any) -> dict[str, Any]:
        return {"sums": partial}


ANALYSES: dict[str, Callable[[kn.Trajectory], Any]] = {
    "rmsd": lambda traj: kn.analysis.RMSD(traj, select=[1, 4, 5, 7, 9], groups=[[0, 2, 3]]),
    "rgyr": lambda traj: kn.analysis.RadiusOfGyration(traj, weights=None, axes=True),
    "rmsf": lambda traj: kn.analysis.RMSF(traj),
    "rmsf on a reference": lambda traj: kn.analysis.RMSF(traj, align="reference", ref_frame=1),
    "frames": lambda traj: kn.analysis.from_function(lambda frame: frame.positions.mean(axis=0), traj),
    "blocks": lambda traj: kn.analysis.from_function(
        lambda block: block.positions[:, :2].std(axis=2), traj, over="blocks"
    ),
    "kernel": lambda traj: kn.analysis.Custom(traj, Sums()),
}


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int, made: Made) -> Path:
    rng = random.Random(seed)
    program = Program(tmp_path / name)
    program.cut(0)
    program.put(0, made.data[: made.ends[1]])
    Stage(monkeypatch, (appending, extending)[seed % 2](program, made, 2, N_FRAMES, rng), rng)
    return program.path


def same(one: Any, other: Any) -> None:
    assert one.results.keys() == other.results.keys()
    for name in one.results:
        np.testing.assert_array_equal(one.results[name], other.results[name], err_msg=name)
        assert np.asarray(one.results[name]).dtype == np.asarray(other.results[name]).dtype


@pytest.mark.parametrize("kind", ANALYSES)
def test_results_are_those_of_the_finished_file(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, name in enumerate(("md.xtc", "md.dcd", "md.trr", "md.nc")):
        made = make(tmp_path, name, N_FRAMES)
        path = written(tmp_path, monkeypatch, name, seed, made)
        calls: list[int] = []
        frames = {} if seed else {"start": 3, "step": 2}
        analysis = ANALYSES[kind](kn.open(path, stored=False)).follow(
            timeout=5.0, callback=lambda one, calls=calls: calls.append(len(one.record.frames)), **frames
        )
        whole = ANALYSES[kind](kn.open(path, stored=False)).run(**frames)
        same(analysis, whole)
        # they have grown, and what was there in between is what a run over those frames gives
        assert calls == sorted(calls) and calls[-1] <= len(whole.record.frames) and len(calls) > 3
        assert len(analysis.record.frames) == len(whole.record.frames)
        assert str(analysis.record.frames) == str(whole.record.frames)


def test_a_callback_sees_results_so_far_and_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path, "md.xtc", N_FRAMES)
    path = written(tmp_path, monkeypatch, "md.xtc", 0, made)
    finished = ANALYSES["rmsd"](kn.open(tmp_path / f"made-1-{N_FRAMES}-0" / "md.xtc", stored=False)).run()

    def look(analysis: kn.analysis.RMSD) -> bool:
        n = len(analysis.results.rmsd)
        np.testing.assert_array_equal(analysis.results.rmsd, finished.results.rmsd[:n])
        assert analysis.table().columns[0].values.shape == (n,)
        return n >= 11

    analysis = ANALYSES["rmsd"](kn.open(path, stored=False)).follow(callback=look)
    assert 11 <= len(analysis.results.rmsd) < N_FRAMES
    with pytest.raises(ZeroDivisionError):
        ANALYSES["rmsd"](kn.open(path, stored=False)).follow(callback=lambda _: 1 / 0)


def test_a_run_that_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: list[str]) -> None:
    made, other = make(tmp_path, "md.xtc", N_FRAMES), make(tmp_path, "md.xtc", N_FRAMES, seed=2)
    path = tmp_path / "md.xtc"

    def steps() -> Iterator[None]:
        program = Program(path)
        for _ in range(10):
            yield
        program.cut(0)
        program.put(0, other.data)
        yield

    for kind in ("rmsd", "rmsf", "kernel"):
        path.write_bytes(made.data)
        Stage(monkeypatch, steps(), random.Random(1))
        analysis = ANALYSES[kind](kn.open(path, stored=False)).follow(timeout=5.0, on_rewind="restart")
        same(analysis, ANALYSES[kind](kn.open(path, stored=False)).run())
        assert any("starts over" in note for note in analysis.notes)


def test_what_is_refused(tmp_path: Path) -> None:
    made = make(tmp_path, "md.xtc", 3)
    traj = kn.open(tmp_path / "made-1-3-0" / "md.xtc", stored=False)
    assert len(made) == 3
    with pytest.raises(kn.ArgumentError, match=r"RMSF\(.*align='average'.*\) reads all frames 2 times"):
        kn.analysis.RMSF(traj, align="average").follow(timeout=1)
    with pytest.raises(kn.ArgumentError, match="not below 0"):
        kn.analysis.RMSD(traj).follow(timeout=1, stop=-1)
    with pytest.raises(kn.ArgumentError, match="over and fields"):
        kn.analysis.RMSD(traj).follow(timeout=1, over="blocks")
    with pytest.raises(kn.ArgumentError, match="none of the frames to be used has come"):
        kn.analysis.RMSD(traj).follow(timeout=0.01, start=50)


@pytest.mark.processes
def test_the_command_prints_plots_and_saves(tmp_path: Path) -> None:
    """Real time and events: a file that is not there yet is waited for, and its rows come in their order."""
    made = make(tmp_path, "md.xtc", N_FRAMES)
    path = tmp_path / "md.xtc"
    kinema = [sys.executable, "-m", "kinema"]
    words = ["rmsd", str(path), "--follow", "--until", str(N_FRAMES)]
    streamed = start_child([*kinema, *words, "-o", "-", "--plot", str(tmp_path / "rmsd.png")])
    saved = start_child([*kinema, *words, "-o", str(tmp_path / "rmsd.csv"), "--step", "2"])
    waiting = streamed.stderr.readline()
    stop = threading.Event()

    def write() -> None:
        with open(path, "wb", buffering=0) as file:
            for at in range(0, len(made.data), 301):
                file.write(made.data[at : at + 301])
                if stop.wait(0.02):
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        out, err = streamed.communicate(timeout=60)
        saved.communicate(timeout=60)
    finally:
        stop.set()
        writer.join()
    assert (streamed.returncode, saved.returncode) == (0, 0), err
    expected = kn.analysis.RMSD(kn.open(path, stored=False)).run()
    # text has seven digits
    rows = [line.split(",") for line in out.splitlines() if line[:1].isdigit()]
    np.testing.assert_allclose(np.array(rows, float)[:, [0, 2]], expected.results.rmsd[:, [0, 2]], rtol=5e-7)
    rows = [line.split(",") for line in (tmp_path / "rmsd.csv").read_text().splitlines() if line[:1].isdigit()]
    np.testing.assert_allclose(np.array(rows, float)[:, [0, 2]], expected.results.rmsd[::2, [0, 2]], rtol=5e-7)
    assert (tmp_path / "rmsd.png").stat().st_size > 5000
    assert waiting.startswith("waiting: ")
    assert f"{N_FRAMES} frames of" in err
    assert not list(tmp_path.glob("*.part-*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--until", "3"], "add --follow"),
        (["--follow-timeout", "3"], "add --follow"),
        (["--follow", "--checkpoint", "c"], "--checkpoint is not for files"),
        (["--follow", "--runner", "processes"], "--runner is not for files"),
        (["--follow", "-o", "x.h5"], "x.h5 is not for files"),
        (["--follow", "--skip-damaged"], "--skip-damaged is not"),
        (["--follow", "--until", "later"], '"100 ns"'),
        (["--follow", "--until", "100 parsec"], "--until is a number of frames or a time"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], message: str, tmp_path: Path, capsys: Any) -> None:
    from kinema.cli import main

    make(tmp_path, "md.xtc", 3)
    with pytest.raises(SystemExit) as ended:
        main(["rmsd", str(tmp_path / "made-1-3-0" / "md.xtc"), *words])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
