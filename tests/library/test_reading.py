"""Facts that reading reports: which frames have a field, where time went; threads that are used again; cells."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd
from kinema.testing.h5md_files import CASES
from kinema.testing.h5md_files.building import plain_file

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

N_FRAMES, N_ATOMS = 5000, 12
(GROMACS,) = (case for case in CASES if case.name == "gromacs")


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> kn.Trajectory:
    """Thousands of frames, in two files."""
    folder = tmp_path_factory.mktemp("long")
    walk = random_walk(N_FRAMES, N_ATOMS)
    write_dcd(folder / "a.dcd", walk[:3100])
    write_dcd(folder / "b.dcd", walk[3100:])
    return kn.open([folder / "a.dcd", folder / "b.dcd"], overlap="all", stored=False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("atoms", [None, [7, 2, 3], [3, 3, 11, 0, 3]])
@pytest.mark.parametrize("workers", [1, 3])
def test_rows_of_frames_in_any_order_are_those_of_the_file(
    long: kn.Trajectory, dtype: Any, atoms: list[int] | None, workers: int
) -> None:
    whole = long.read(workers=1)
    frames = np.random.default_rng(7).integers(0, N_FRAMES, 2 * N_FRAMES)
    found = long.read(frames, atoms, ["positions"], dtype=dtype, workers=workers)
    expected = whole[frames] if atoms is None else whole[frames][:, atoms]
    np.testing.assert_array_equal(found["positions"], expected.astype(dtype))
    np.testing.assert_array_equal(found["frames"], frames)
    np.testing.assert_array_equal(found["steps"], long.steps[frames])
    np.testing.assert_array_equal(found["times"], long.times[frames])


def test_frames_that_lack_a_field_say_so(tmp_path: Path) -> None:
    path = tmp_path / "gromacs.h5md"
    expected = GROMACS.write(path)
    traj = kn.open(path, **expected.options)
    has = np.isfinite(expected.velocities).all(axis=(1, 2))
    assert has.any()
    assert not has.all()
    found = traj.read(fields=["positions", "velocities"])
    assert found["present"].dtype.names == ("positions", "velocities", "cells")
    np.testing.assert_array_equal(found["present"]["velocities"], has)
    assert found["present"]["positions"].all()
    assert found["present"]["cells"].all()
    np.testing.assert_array_equal(np.isnan(found["velocities"]).all(axis=(1, 2)), ~has)
    assert [frame.velocities is not None for frame in traj] == has.tolist()
    assert traj[1].velocities is None
    (block,) = traj.blocks(fields=["velocities"])
    np.testing.assert_array_equal(block.present["velocities"], has)


def test_a_file_without_cells_has_none_present(small: kn.Trajectory) -> None:
    found = small.read(fields=["positions"])
    assert not found["present"]["cells"].any()
    assert not found["cells"].any()


def test_cells_are_not_rounded_to_float32(tmp_path: Path) -> None:
    cell = np.diag([30.123456789012, 40.2, 50.3])
    with kn.Writer(tmp_path / "a.h5md", n_atoms=2, dtype="float64") as writer:
        writer.write(np.zeros((1, 2, 3)), cell=cell[None], step=[0], time=[0.0])
    found = kn.open(tmp_path / "a.h5md").read(fields=["positions"])
    assert found["cells"].dtype == np.float64
    np.testing.assert_array_equal(found["cells"][0], cell)


def test_a_read_has_timings(long: kn.Trajectory) -> None:
    traj = long[:]
    assert traj.timings is None
    traj.read(select=[1], workers=2)
    timings = traj.timings
    assert timings is not None
    assert (timings.frames, timings.n_workers) == (N_FRAMES, 2)
    assert timings.bytes_read > 0
    assert timings.totals["io"] > 0
    assert sum(worker.frames for worker in timings.workers) == N_FRAMES
    assert f"{N_FRAMES:,} frames" in str(timings)


def test_blocks_have_timings_of_all_that_were_read(long: kn.Trajectory) -> None:
    traj = long[:]
    whole = sum(len(block) for block in traj.blocks(memory="16 MiB", workers=1))
    assert whole == N_FRAMES
    assert traj.timings is not None
    assert traj.timings.frames == N_FRAMES
    for _ in traj.blocks(memory="14 MiB", workers=1):
        break
    # left early: what had been read, with what was read ahead
    assert traj.timings is not None
    assert 0 < traj.timings.frames <= N_FRAMES


def _threads() -> set[str]:
    """Kernel names of the threads of this process that belong to trajectories."""
    tasks = Path("/proc/self/task")
    names = ((tasks / task / "comm", task) for task in os.listdir(tasks))
    return {task for comm, task in names if comm.exists() and comm.read_text().startswith("kinema-")}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_threads_are_used_again_and_end_with_the_trajectory(long: kn.Trajectory, tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(600, 4))
    before = _threads()
    traj = kn.open(tmp_path / "a.dcd", stored=False)
    traj.read(workers=3)
    mine = _threads() - before
    assert len(mine) == 3
    traj.read(workers=2)
    kn.analysis.RMSF(traj).run(runner="threads", workers=3)
    assert _threads() - before == mine
    del traj


def test_reads_from_several_threads_at_a_time(long: kn.Trajectory) -> None:
    whole = long.read(workers=1)
    wrong: list[int] = []

    def read(start: int) -> None:
        for _ in range(5):
            if not np.array_equal(long.read(slice(start, None, 7), workers=2), whole[start::7]):
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


def test_a_function_may_read_the_trajectory_that_it_is_run_on(long: kn.Trajectory) -> None:
    def again(frame: kn.Frame) -> float:
        found = long.read([frame.frame], workers=2)
        return float(np.abs(found[0] - frame.positions).max())

    done = kn.analysis.from_function(again, long).run(stop=64, runner="threads", workers=2)
    assert not done.results.values.any()


def test_a_function_gets_velocities_and_cells(tmp_path: Path) -> None:
    path = tmp_path / "gromacs.h5md"
    expected = GROMACS.write(path)
    traj = kn.open(path, **expected.options)

    def seen(frame: kn.Frame) -> tuple[float, float]:
        assert frame.positions is None
        return frame.cell[0, 0], float("nan") if frame.velocities is None else float(frame.velocities[1, 2])

    done = kn.analysis.from_function(seen, traj, fields="velocities").run()
    np.testing.assert_allclose(done.results.values[:, 0], expected.cells[:, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(done.results.values[:, 1], expected.velocities[:, 1, 2], rtol=1e-6)
    with pytest.raises(kn.ArgumentError, match="has no forces"):
        kn.analysis.from_function(seen, traj, fields=["positions", "forces"])


def test_the_plan_says_what_is_read_for_a_byte_that_is_used(long: kn.Trajectory) -> None:
    rmsd = kn.analysis.RMSD(long, select=[0, 1, 2]).run()
    # a frame of 12 atoms with its record lengths is read whole
    assert rmsd.plan is not None
    assert f"{3 * (4 * N_ATOMS + 8) / 36:.2f} bytes read for each byte that is used" in rmsd.plan
    rmsf = kn.analysis.RMSF(long, align="average").run()
    assert rmsf.plan is not None
    assert [line.split(":")[0] for line in rmsf.plan.splitlines() if "pass" in line] == ["pass 1 of 2", "pass 2 of 2"]


@pytest.mark.parametrize("unit", ["Angstrom", "nm"])
@pytest.mark.parametrize("layout", ["contiguous", "frame", "several"])
def test_values_that_are_read_to_their_place_are_those_of_h5py(tmp_path: Path, layout: str, unit: str) -> None:
    n_frames, n_atoms = 90, 3000
    values = np.random.default_rng(3).normal(0.0, 3.0, (n_frames, n_atoms, 3)).astype(np.float32)
    chunks = {"contiguous": None, "frame": (1, n_atoms, 3), "several": (7, n_atoms, 3)}[layout]
    path = tmp_path / "a.h5md"
    made = plain_file(path, values, unit, 10.0 if unit == "nm" else 1.0, chunks=chunks)
    traj = kn.open(path)
    expected = made.positions.astype(np.float32)
    np.testing.assert_array_equal(traj.read(workers=1), expected)
    np.testing.assert_array_equal(traj.read(workers=2, dtype="float64"), made.positions)
    frames = np.random.default_rng(4).permutation(n_frames)
    np.testing.assert_array_equal(traj.read(frames), expected[frames])
    np.testing.assert_array_equal(traj.read(slice(None, None, -3)), expected[::-3])
    np.testing.assert_array_equal(traj.read(frames, select=[5, 2999, 5]), expected[frames][:, [5, 2999, 5]])
    out = np.full((n_frames, n_atoms, 3), np.nan, dtype=np.float32)
    assert traj.read(out=out) is out
    np.testing.assert_array_equal(out, expected)
