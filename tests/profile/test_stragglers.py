"""Stragglers made on purpose are found and named: a slow worker, slow bytes, a slow file, a slow start."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.formats import h5md
from kinema.formats.h5md.description import FieldDescription, H5mdDescription
from kinema.report.places import Places
from kinema.report.stragglers import find_slow_files, find_stragglers
from kinema.runners import PassTimings, WorkerTimings
from kinema.testing import random_walk, synthetic, write_dcd, write_h5md, write_xtc
from kinema.trajectory import Trajectory


def worker(number: int, frames: int = 100, **seconds: float) -> WorkerTimings:
    times = {"open": 0.0, "io": 1.0, "decode": 1.0, "compute": 2.0, "wait": 0.0} | seconds
    total = sum(times.values())
    return WorkerTimings(number, total=total, cpu=total, frames=frames, blocks=1, bytes_read=1, reads=1, **times)


def a_round(*workers: WorkerTimings) -> PassTimings:
    return PassTimings(max(one.total for one in workers), 1, workers, np.empty((0, 7)))


@pytest.mark.parametrize("phase", ["io", "decode", "compute"])
def test_the_slow_worker_and_its_phase(phase: str) -> None:
    (found,) = find_stragglers([a_round(*map(worker, range(3)), worker(3, **{phase: 6.0}))])
    assert (found.worker, found.phase) == (3, phase)
    assert found.seconds == 6.0
    assert found.usual == {"io": 1.0, "decode": 1.0, "compute": 2.0}[phase]
    assert found.times == pytest.approx((6.0 + 4.0 - found.usual) / 4.0)


def test_dynamic_hand_out_does_not_hide_it() -> None:
    # as long as the others at work, but for a quarter of their frames
    (found,) = find_stragglers([a_round(*map(worker, range(7)), worker(7, frames=25))])
    assert found.worker == 7
    assert found.times == pytest.approx(4.0)


def test_of_two_workers_the_slower() -> None:
    (found,) = find_stragglers([a_round(worker(0), worker(1, io=8.0))])
    assert (found.worker, found.phase) == (1, "io")


@pytest.mark.parametrize("phase", ["start", "plan", "communicate", "close"])
def test_what_does_not_depend_on_frames(phase: str) -> None:
    (found,) = find_stragglers([a_round(*map(worker, range(3)), worker(3, **{phase: 5.0}))])
    assert (found.worker, found.phase, found.times) == (3, phase, None)
    assert "took no time" in str(found)


def test_of_several_reasons_the_one_that_costs_most() -> None:
    others = [worker(number, start=0.9) for number in range(3)]
    # most is lost in starting, which is not so slow; computing is
    (found,) = find_stragglers([a_round(*others, worker(3, start=1.3, io=0.1, decode=0.1, compute=5.9))])
    assert (found.phase, found.times) == ("compute", pytest.approx(6.1 / 4.0))
    (found,) = find_stragglers([a_round(*others, worker(3, start=6.0, io=1.5, decode=1.5, compute=3.2))])
    assert (found.phase, found.seconds) == ("start", 6.0)
    # a slow start does not hide messages that cost more
    others = [worker(number, start=0.5, communicate=0.5) for number in range(3)]
    (found,) = find_stragglers([a_round(*others, worker(3, start=2.0, communicate=9.0))])
    assert found.phase == "communicate"
    # nor does one that is below the threshold hide slow reading
    others = [worker(number, start=9.0) for number in range(3)]
    (found,) = find_stragglers([a_round(*others, worker(3, start=13.0, io=4.0))])
    assert (found.phase, found.times) == ("io", pytest.approx(7.0 / 4.0))


def test_what_chance_decides_is_not_told() -> None:
    short = {"io": 1e-4, "decode": 1e-4, "compute": 1e-4}
    assert find_stragglers([a_round(*(worker(n, **short) for n in range(3)), worker(3, **short | {"io": 5e-3}))]) == ()


def test_more_work_at_the_same_speed() -> None:
    double = worker(3, frames=200, io=2.0, decode=2.0, compute=4.0)
    (found,) = find_stragglers([a_round(*map(worker, range(3)), double)])
    assert found.phase == "frames"
    assert "at the same speed" in str(found)


def test_none_where_all_are_alike() -> None:
    assert find_stragglers([a_round(*map(worker, range(4)))]) == ()
    assert find_stragglers([a_round(worker(0))]) == ()
    # below the threshold
    assert find_stragglers([a_round(*map(worker, range(3)), worker(3, compute=3.5))]) == ()


def test_waiting_is_no_work() -> None:
    assert find_stragglers([a_round(*map(worker, range(3)), worker(3, wait=50.0))]) == ()


def test_the_worst_comes_first() -> None:
    found = find_stragglers([a_round(*map(worker, range(5)), worker(5, io=6.0), worker(6, compute=20.0))])
    assert [one.worker for one in found] == [6, 5]


class _SleepsInOneThread(kn.analysis.PythonKernel):
    """Counts frames; the first thread that comes sleeps with every block, once a second thread has come."""

    def __init__(self) -> None:
        self.slow: list[int] = []
        self.lock = threading.Lock()
        self.another = threading.Event()

    def empty(self) -> int:
        return 0

    def accumulate(self, partial: int, block: kn.Block) -> int:
        with self.lock:
            self.slow = self.slow or [threading.get_ident()]
        if threading.get_ident() == self.slow[0]:
            assert self.another.wait(120)
            time.sleep(0.05)
        else:
            self.another.set()
            time.sleep(0.001)
        return partial + len(block)

    def merge(self, left: int, right: int) -> int:
        return left + right

    def finish(self, partial: int) -> dict[str, Any]:
        return {"frames": np.array(partial)}


def test_a_worker_slowed_on_purpose(tmp_path: Path) -> None:
    write_dcd(tmp_path / "walk.dcd", random_walk(3000, 20))
    traj = kn.open(tmp_path / "walk.dcd")
    analysis = kn.analysis.Custom(traj, _SleepsInOneThread()).run(workers=2)
    report = analysis.report()
    (found,) = report.stragglers
    by_pace = sorted(report.timings.workers, key=lambda one: one.compute / one.frames)
    assert found.worker == by_pace[-1].worker
    assert found.phase == "compute"
    assert found.times is not None and found.times > 1.5
    assert found.slow_blocks > found.blocks / 2
    assert f"straggler: worker {found.worker}" in str(report)
    assert "in computing" in str(report)
    assert any(f"worker {found.worker}" in sentence for sentence in report.advice)


class _SlowRows:
    """Describes H5MD files of which some rows come slowly, by the file's name."""

    def __init__(self, slow: dict[str, range], seconds: float) -> None:
        self.slow = slow
        self.seconds = seconds

    def __call__(self, path: str) -> H5mdDescription:
        described = h5md.describe(path, h5md.H5mdOptions())
        assert described.positions is not None
        slow = self.slow.get(Path(path).name, range(0))

        import h5py

        with h5py.File(path) as file:
            rows = file["particles/all/position/value"][:]

        def read(wanted: Any) -> Any:
            for row in wanted:
                if row in slow:
                    time.sleep(self.seconds)
            return rows[wanted]

        assert isinstance(described.positions, FieldDescription)
        return replace(
            described, positions=replace(described.positions, pieces=(), reader=read, reason="a slow source")
        )


def _slow_trajectory(tmp_path: Path, slow: _SlowRows, names: list[str]) -> Trajectory:
    for number, name in enumerate(names):
        write_h5md(tmp_path / name, synthetic(600, 20, cell="none", first_step=600 * number))
    core = _core.Trajectory([str(tmp_path / name) for name in names], describe=slow, overlap="all")
    return Trajectory(core)


def test_slow_bytes_are_named(tmp_path: Path) -> None:
    # few enough for one block, which one worker gets
    slow = range(304, 308)
    traj = _slow_trajectory(tmp_path, _SlowRows({"walk.h5md": slow}, 0.06), ["walk.h5md"])
    report = kn.analysis.RMSD(traj, reference=np.zeros((20, 3)) + np.arange(60).reshape(20, 3)).run(workers=2).report()
    found = report.stragglers[0]
    assert found.phase in ("io", "decode")
    # the slowest first
    place = found.places[0]
    assert place.path.endswith("walk.h5md")
    assert place.first <= slow[0] and place.last >= slow[0]
    assert place.times is None or place.times > 1.5
    assert f"worker {found.worker}" in str(report)


def test_a_slow_file_is_named_whichever_worker_reads_it(tmp_path: Path) -> None:
    names = ["a.h5md", "b.h5md", "c.h5md"]
    traj = _slow_trajectory(tmp_path, _SlowRows({"b.h5md": range(600)}, 0.002), names)
    analysis = kn.analysis.RMSD(traj, reference=np.zeros((20, 3)) + np.arange(60).reshape(20, 3))
    report = analysis.run(workers=2).report()
    assert [Path(one.path).name for one in report.slow_files] == ["b.h5md"]
    assert report.slow_files[0].times > 1.5
    assert "slow file" in str(report)
    assert any("b.h5md is slow" in sentence for sentence in report.advice)


# -- places -----------------------------------------------------------------------------------------------------


def test_extents_of_frames_cover_the_files(tmp_path: Path) -> None:
    positions = random_walk(50, 30)
    write_xtc(tmp_path / "a.xtc", positions[:20], dt=1.0)
    write_xtc(tmp_path / "b.xtc", positions[20:], first_step=20, dt=1.0)
    core = kn.open([tmp_path / "a.xtc", tmp_path / "b.xtc"]).core
    for name, first, number in (("a.xtc", 0, 20), ("b.xtc", 20, 30)):
        end = 0
        for own in range(number):
            path, frame, offset, length = core.locate(first + own)
            assert (Path(path).name, frame, offset) == (name, own, end)
            end = offset + length
        assert end == (tmp_path / name).stat().st_size
    with pytest.raises(kn.Error, match="frame 50 of a trajectory of 50 frames"):
        core.locate(50)


@pytest.mark.parametrize("order", ["in order", "backwards", "listed"])
def test_blocks_are_found_again(tmp_path: Path, order: str) -> None:
    write_dcd(tmp_path / "walk.dcd", random_walk(2000, 20))
    traj = kn.open(tmp_path / "walk.dcd")
    chosen = {"in order": range(100, 1900, 3), "backwards": range(1999, 3, -2), "listed": [5, 900, 17, 4, 1999, 3]}[
        order
    ]
    analysis = kn.analysis.from_function(lambda block: block.frames, traj, over="blocks")
    analysis.run(frames=list(chosen), workers=3)
    assert analysis.record is not None
    places = Places(traj.core, analysis.record.frames)
    blocks = analysis.timings.passes[0].blocks
    positions = blocks[:, 1].astype(int)
    # all positions of the selection, each once
    covered = sorted(
        at for first, n in zip(positions, blocks[:, 2], strict=True) for at in range(first, first + int(n))
    )
    assert covered == list(range(len(chosen)))
    for position, row in zip(positions, blocks, strict=True):
        frames = list(chosen)[position : position + int(row[2])]
        place = places.place(int(position), int(row[2]), 2.0)
        ends = sorted((frames[0], frames[-1]))
        assert [place.first, place.last] == ends
        assert place.exact
        _, _, offset, _ = traj.core.locate(ends[0])
        assert place.offset == offset


def _blocks(traj: kn.Trajectory, leaf: int) -> list[list[float]]:
    """A block a leaf, by two workers in turn, a millisecond of each phase for each."""
    return [
        [at % 2, at * leaf, min(leaf, traj.n_frames - at * leaf), float(at), 1e-3, 1e-3, 1e-3]
        for at in range(-(-traj.n_frames // leaf))
    ]


@pytest.mark.parametrize(("phase", "column"), [("io", 4), ("decode", 5), ("compute", 6)])
def test_frames_and_bytes_of_the_slowest_blocks(tmp_path: Path, phase: str, column: int) -> None:
    """One worker's account, made up: of two slow blocks the slower is named first, with its frames and bytes."""
    path = tmp_path / "walk.xtc"
    write_xtc(path, random_walk(105, 30), dt=1.0)
    traj = kn.open(path)
    rows = _blocks(traj, 10)
    rows[3][column], rows[7][column] = 4e-3, 12e-3
    # slow, but of the other worker, and slow in another phase
    rows[4][column] = 2e-3
    rows[5][4 if column != 4 else 6] = 99e-3
    slow = worker(1, **{phase: 9.0})
    one = replace(a_round(worker(0), slow), blocks=np.array(rows))
    (found,) = find_stragglers([one], Places(traj.core, kn.FrameSelection(range(105))))
    assert (found.worker, found.phase, found.slow_blocks, found.blocks) == (1, phase, 2, 5)
    first, second = found.places
    assert (first.path, first.first, first.last, first.exact) == (str(path), 70, 79, True)
    assert (second.first, second.last) == (30, 39)
    # of the other worker's blocks, of which one is slow
    assert (first.times, second.times) == (pytest.approx(12.0), pytest.approx(4.0))
    begin, (_, _, last, length) = traj.core.locate(70)[2], traj.core.locate(79)
    assert (first.offset, first.length) == (begin, last + length - begin)
    assert f"frames 70 to 79 in {path}, bytes {begin:,} to {last + length:,} (12.0 times the usual)" in str(found)


def test_what_is_usual_is_what_the_others_take(tmp_path: Path) -> None:
    write_dcd(tmp_path / "walk.dcd", random_walk(100, 20))
    traj = kn.open(tmp_path / "walk.dcd")
    rows = [[*row[:6], 4e-3 if row[0] == 1 else 1e-3] for row in _blocks(traj, 10)]
    one = replace(a_round(worker(0), worker(1, compute=9.0)), blocks=np.array(rows))
    (found,) = find_stragglers([one], Places(traj.core, kn.FrameSelection(range(100))))
    assert (found.slow_blocks, found.blocks) == (5, 5)
    assert [place.times for place in found.places] == [pytest.approx(4.0)] * 3


def test_what_a_slow_file_costs(tmp_path: Path) -> None:
    names = [tmp_path / f"{name}.dcd" for name in "abc"]
    for name in names:
        write_dcd(name, random_walk(40, 20))
    traj = kn.open(names, overlap="all")
    for phase, column in (("io", 4), ("decode", 5)):
        rows = _blocks(traj, 10)
        for at in (4, 5, 6, 7):  # of the second file
            rows[at][column] = 0.5
        one = replace(a_round(worker(0), worker(1)), blocks=np.array(rows))
        (found,) = find_slow_files([one], Places(traj.core, kn.FrameSelection(range(120))))
        assert (found.path, found.phase) == (str(names[1]), phase)
        assert (found.times, found.seconds) == (pytest.approx(500.0), pytest.approx(4 * (0.5 - 1e-3)))


def test_slow_files_need_several(tmp_path: Path) -> None:
    write_dcd(tmp_path / "walk.dcd", random_walk(200, 20))
    analysis = kn.analysis.RMSD(kn.open(tmp_path / "walk.dcd")).run()
    assert analysis.record is not None
    assert find_slow_files(analysis.timings.passes, Places(analysis.trajectory.core, analysis.record.frames)) == ()
