"""Any number of rows a frame in a file of results: layout, what a killed run leaves, what cannot be."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.base.errors import CorruptFileError
from kinema.execution.checkpoint.counted import CountedBytes
from kinema.execution.checkpoint.manager import CheckpointManager
from kinema.execution.results_file import ResultDataset, ResultFile
from kinema.storage.output_file import remove_written_with
from kinema.testing import random_walk, write_dcd
from kinema.testing.runner_work import N_FRAMES, alone, analysis_named, walk_in

COUNTS = [2, 0, 3, 1, 0, 0, 4, 1, 1, 2]
DATASET = ResultDataset("near", "", (), "Pairs that are near", "{}", (("pair", ""), ("distance", "angstrom")))


def rows_of(frames: range) -> dict[str, Any]:
    counts = COUNTS[frames.start : frames.stop]
    pairs = np.concatenate([np.arange(n) + 10 * frame for frame, n in zip(frames, counts, strict=True)])
    return {
        "time": np.asarray(frames, float),
        "first_row": np.concatenate([[0], np.cumsum(counts)]),
        "pair": pairs.astype(np.uint32),
        "distance": pairs * 0.5,
    }


def made(path: Path, datasets: list[ResultDataset] | None = None) -> ResultFile:
    """Ten frames in leaves of two."""
    return ResultFile(str(path), kn.FrameSelection(range(10)), datasets or [DATASET], 2, "run")


def check(path: Path) -> None:
    whole = rows_of(range(10))
    with h5py.File(path, "r") as file:
        assert file.attrs["complete"]
        assert sorted(file) == ["frames", "near", "time"]
        assert sorted(file["near"]) == ["distance", "first_row", "pair"]
        assert sorted(file["near"].attrs) == ["provenance", "title"]
        assert file["near/distance"].attrs["unit"] == "angstrom"
        for name in ("first_row", "pair", "distance"):
            assert file["near"][name].dtype == whole[name].dtype
            np.testing.assert_array_equal(file["near"][name], whole[name], err_msg=name)
        np.testing.assert_array_equal(file["time"], whole["time"])


def test_rows_come_in_any_order_and_in_runs_of_leaves(tmp_path: Path) -> None:
    file = made(tmp_path / "rows.h5")
    file.create()
    for frames in (range(8, 10), range(2, 4), range(4, 8), range(2)):
        file.write(frames.start // 2, [rows_of(frames)])
    file.finish()
    check(tmp_path / "rows.h5")
    assert [one.name for one in tmp_path.iterdir()] == ["rows.h5"]
    (arrays,) = file.arrays()
    assert list(arrays) == ["frames", "time", "first_row", "pair", "distance"]
    assert arrays["pair"][arrays["first_row"][6] : arrays["first_row"][7]].tolist() == [60, 61, 62, 63]


def test_rows_that_no_checkpoint_counts_on_are_ignored(tmp_path: Path) -> None:
    file = made(tmp_path / "rows.h5")
    file.create()
    file.protect()
    # leaf 1 alone, and then as a part of a run of leaves; leaf 3, and rows of which the last is there in part
    file.write(1, [rows_of(range(2, 4))])
    file.write(3, [rows_of(range(6, 8))])
    part = file.part
    file.close()
    (beside,) = tmp_path.glob("rows.near-rows.part-*")
    with beside.open("ab") as stream:
        stream.write(b"torn!")
    again = made(tmp_path / "rows.h5")
    again.resume(part)
    again.write(0, [rows_of(range(4))])
    again.write(2, [rows_of(range(4, 6))])
    again.write(3, [rows_of(range(6, 8))])
    again.write(4, [rows_of(range(8, 10))])
    again.finish()
    check(tmp_path / "rows.h5")
    assert [one.name for one in tmp_path.iterdir()] == ["rows.h5"]


def test_rows_of_leaves_that_count_are_digested(tmp_path: Path) -> None:
    file = made(tmp_path / "rows.h5")
    file.create()
    file.protect()
    for frames in (range(8, 10), range(2, 4), range(4, 8)):
        file.write(frames.start // 2, [rows_of(frames)])
    # leaf 1, and leaves 2 and 3; leaf 4 does not count
    counted = file.counted([(0, 1), (1, 1)])
    (beside,) = tmp_path.glob("rows.near-rows.part-*")
    assert set(counted) == {file.part, str(beside)}
    assert counted[str(beside)] == [(3 * 12, 7 * 12), (7 * 12, 12 * 12)]
    digests = {name: CountedBytes().digests(name, runs) for name, runs in counted.items()}
    for name, cells in digests.items():
        kept = Path(name).read_bytes()
        assert cells
        for start, stop, _ in cells:
            changed = bytearray(kept)
            changed[(start + stop) // 2] ^= 1
            Path(name).write_bytes(changed)
            with pytest.raises(CorruptFileError, match="were changed since they were written"):
                CountedBytes.check(name, cells)
        Path(name).write_bytes(kept)
    # what is written later changes nothing of it
    file.write(0, [rows_of(range(2))])
    for name, cells in digests.items():
        CountedBytes.check(name, cells)
    file.finish()
    check(tmp_path / "rows.h5")


def test_a_run_that_was_killed_while_it_finished_is_finished_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    removals = [f"results_file.ResultFile._remove_{what}" for what in ("tables", "file_names")]
    for name in (*removals, "list_rows.os.unlink", "results_file.publish"):
        path = tmp_path / name / "rows.h5"
        path.parent.mkdir()
        file = made(path)
        file.create()
        file.protect()
        for leaf in range(5):
            file.write(leaf, [rows_of(range(2 * leaf, 2 * leaf + 2))])
        part = file.part
        with monkeypatch.context() as patched:
            patched.setattr(f"kinema.execution.{name}", killed)
            with pytest.raises(KeyboardInterrupt):
                file.finish()
        again = made(path)
        again.resume(part)
        again.write(4, [rows_of(range(8, 10))])
        again.finish()
        check(path)
        assert [one.name for one in path.parent.iterdir()] == ["rows.h5"]


def test_a_run_that_was_killed_before_its_checkpoint_relied_on_a_row_leaves_nothing(tmp_path: Path) -> None:
    file = made(tmp_path / "rows.h5")
    file.create()
    file.protect()
    file.write(0, [rows_of(range(2))])
    part = file.part
    # while the run is at work, nothing of it is removed
    remove_written_with(part, str(tmp_path / "rows.near-rows.h5"))
    assert len(list(tmp_path.glob("rows.near-rows.part-*"))) == 1
    file.close()
    # another run's, and another output's
    others = {re.sub(r"-\d+\.h5", "-999999.h5", Path(part).name), "other.near-rows.part-host-k01234567-1.h5"}
    for other in others:
        (tmp_path / other).touch()
    again = made(tmp_path / "rows.h5")
    again.remove_unused(part)
    assert {one.name for one in tmp_path.iterdir()} == others


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    "moment", ["results_file.ResultFile._remove_file_names", "results_file.publish", "checkpoint.Checkpoint.remove"]
)
def test_a_run_that_was_killed_while_it_finished_continues_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    def run(interval: float) -> Any:
        walk = walk_in(tmp_path)
        analyses = [analysis_named(walk, "pairs that are near"), kn.analysis.from_function(corner, walk)]
        out, checkpoint = tmp_path / "rows.h5", tmp_path / "run.ckpt"
        return kn.run(analyses, workers=1, out=out, checkpoint=checkpoint, checkpoint_interval=interval)

    def corner(frame: Any) -> Any:
        time.sleep(0.001)  # the run saves some ten times a second
        return frame.positions[0]

    # the last checkpoint is of a part of the run
    save = CheckpointManager.poll

    def poll(self: CheckpointManager, tree: Any) -> None:
        if not self.worth_resuming:
            save(self, tree)

    with monkeypatch.context() as patched:
        patched.setattr(f"kinema.execution.{moment}", killed)
        patched.setattr(CheckpointManager, "poll", poll)
        patched.setattr(CheckpointManager, "save_after", lambda *_: None)
        with pytest.raises(Killed):
            run(0)
    assert (tmp_path / "run.ckpt").exists()
    # the next run saves, too, while it continues
    near, _ = run(0)
    assert 0 < near.timings.frames_restored < N_FRAMES
    expected = alone("pairs that are near").results
    for name in expected:
        np.testing.assert_array_equal(near.results[name], expected[name], err_msg=name)
    assert {one.name for one in tmp_path.iterdir()} == {"walk.dcd", "rows.h5"}


def test_without_any_row(tmp_path: Path) -> None:
    write_dcd(tmp_path / "walk.dcd", random_walk(N_FRAMES, 30) * 1000)
    expected = analysis_named(walk_in(tmp_path), "pairs that are near").run()
    assert expected.results.first_row.tolist() == [0] * (N_FRAMES + 1)
    found = analysis_named(walk_in(tmp_path), "pairs that are near").run(out=tmp_path / "rows.h5", workers=2)
    for name in expected.results:
        values = expected.results[name]
        assert np.asarray(found.results[name]).tobytes() == values.tobytes(), name
        assert found.results[name].shape == values.shape


def test_rows_that_do_not_fit(tmp_path: Path) -> None:
    file = made(tmp_path / "rows.h5")
    file.create()
    good = rows_of(range(2))
    with pytest.raises(kn.ArgumentError, match="another number of rows than it says"):
        file.write(0, [{**good, "pair": good["pair"][1:]}])
    with pytest.raises(kn.ArgumentError, match="another number of rows than it says"):
        file.write(5, [good])
    file.write(0, [good])
    with pytest.raises(kn.ArgumentError, match="rows of different kinds"):
        file.write(1, [{**rows_of(range(2, 4)), "pair": rows_of(range(2, 4))["pair"].astype(float)}])
    file.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_rows_that_is_gone_is_missed(tmp_path: Path) -> None:
    file = made(tmp_path / "rows.h5")
    file.create()
    file.protect()
    file.write(0, [rows_of(range(2))])
    part = file.part
    file.close()
    (beside,) = tmp_path.glob("rows.near-rows.part-*")
    beside.unlink()
    with pytest.raises(kn.ArgumentError, match="not found, but the checkpoint relies on rows in it"):
        made(tmp_path / "rows.h5").resume(part)


def test_values_are_those_of_numpy(tmp_path: Path) -> None:
    positions = random_walk(N_FRAMES, 30)
    near = analysis_named(walk_in(tmp_path), "pairs that are near").run().results
    counted = analysis_named(walk_in(tmp_path), "histogram of distances").run().results
    atoms = np.arange(28)
    pairs = np.concatenate([np.column_stack([atoms, atoms + further]) for further in (1, 2)])
    vectors = positions[:, pairs[:, 1]].astype(float) - positions[:, pairs[:, 0]]
    distances = np.linalg.norm(vectors, axis=2)
    assert counted.counts.dtype == np.uint64
    expected, edges = np.histogram(distances, 5_000, (0.0, 12.0))
    assert np.abs(counted.counts.astype(int) - expected).sum() <= 4  # a distance at an edge, by rounding
    np.testing.assert_array_equal(counted.edges, edges)
    assert counted.n_frames.tolist() == [N_FRAMES]
    assert near.i.dtype == near.j.dtype == np.uint32
    for frame in (0, 17, N_FRAMES - 1):
        rows = slice(near.first_row[frame], near.first_row[frame + 1])
        are_near = distances[frame] <= 8.0
        np.testing.assert_array_equal(np.column_stack([near.i[rows], near.j[rows]]), pairs[are_near])
        np.testing.assert_allclose(near.distance[rows], distances[frame][are_near], rtol=1e-12)


def test_a_plan_counts_exact_partials_once_a_worker_and_once_in_all(tmp_path: Path) -> None:
    traj = walk_in(tmp_path)
    pairs = np.array([[0, 1]], np.uint32)
    kernel = _core.Kernel("distance_histogram", traj.n_atoms, pairs=pairs, most=5.0, bins=1 << 20)
    frames = kn.FrameSelection(range(N_FRAMES))
    for workers in (1, 4):
        plan = _core.Plan(traj.core, frames, [(kernel, ())], memory=64 << 20, workers=workers)
        # a sum, and a partial for each worker, of 8 MiB each
        assert plan.workers == workers
        assert f"of which {8 * (1 + workers)}.0 MiB for partial results" in plan.explain()
    with pytest.raises(kn.MemoryLimitError, match="partial results of the analyses"):
        _core.Plan(traj.core, frames, [(kernel, ())], memory=16 << 20, workers=4)
