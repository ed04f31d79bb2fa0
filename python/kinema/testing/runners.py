"""`RunnerTests`: what every runner must pass, compared with the serial runner. Subclass it in a test module.

It knows nothing of a runner's inside: processes and ranks have tests of their own. Times are never asserted.
"""

from __future__ import annotations

import struct
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.base.choices import PARTS
from kinema.base.timings import Timings, block_column
from kinema.execution.checkpoint.file import load
from kinema.execution.result_arrays import ResultColumns
from kinema.execution.results_file import ResultArray, ResultTable
from kinema.report.quantities import rank_quantities
from kinema.runners import Runner, choose_runner
from kinema.testing.runner_work import (
    ANALYSES,
    KEPT,
    N_ATOMS,
    N_FRAMES,
    OF_PAIRS,
    Large,
    Stop,
    alone,
    analysis_named,
    assert_same,
    callers_of,
    kept_analyses,
    noting_progress,
    save_at_work,
    slow_analysis,
    stopping_after,
    waiting_for,
    walk_in,
)
from kinema.testing.synthetic import random_walk
from kinema.testing.writers import write_dcd, write_xtc


class RunnerTests:
    """Subclass it with `name`, or with `make` for a runner that needs arguments."""

    #: as in `run(runner=...)`
    name = ""
    #: numbers of workers to try; None: the runner's own choice
    worker_counts: tuple[int | None, ...] = (None, 1, 2, 3)

    def make(self) -> Runner:
        """The runner under test."""
        return choose_runner(self.name)

    # -- the same bits ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("which", [*ANALYSES, OF_PAIRS[1]])
    def test_same_bits_as_serial(self, tmp_path: Path, which: str) -> None:
        expected = alone(which)
        for workers in self.worker_counts:
            found = analysis_named(walk_in(tmp_path), which).run(runner=self.make(), workers=workers)
            assert_same(found, expected)
            assert found.plan

    def test_several_in_one_pass(self, tmp_path: Path) -> None:
        traj = walk_in(tmp_path)
        several = (*ANALYSES, *OF_PAIRS)
        together = kn.run([analysis_named(traj, which) for which in several], runner=self.make())
        for found, which in zip(together, several, strict=True):
            assert_same(found, alone(which))

    def test_frames_in_any_order(self, tmp_path: Path) -> None:
        random = np.random.default_rng(5)
        order = np.concatenate([random.permutation(N_FRAMES)[:100], [7, 7, 0]])
        for choice in ({"frames": order}, {"start": 280, "stop": 3, "step": -2}, {"frames": [11]}):
            for which in ("rmsd", "rmsf"):
                traj = walk_in(tmp_path)
                expected = analysis_named(traj, which).run(**choice, runner="serial")
                assert_same(analysis_named(traj, which).run(**choice, runner=self.make()), expected)

    @pytest.mark.parametrize("stored", [True, False])
    def test_parts_with_an_index(self, tmp_path: Path, stored: bool) -> None:
        positions = random_walk(60, N_ATOMS)
        names = [tmp_path / "a.xtc", tmp_path / "b.xtc"]
        write_xtc(names[0], positions[:40])
        write_xtc(names[1], positions[30:], first_step=30)
        before = sorted(tmp_path.iterdir())
        traj = kn.open(names, stored=stored)
        assert traj.n_frames == 60
        found = kn.analysis.RMSD(traj).run(runner=self.make())
        assert_same(found, kn.analysis.RMSD(traj).run(runner="serial"))
        if not stored:
            assert sorted(tmp_path.iterdir()) == before

    def test_incomplete_last_frame_dropped(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xtc"
        write_xtc(path, random_walk(20, N_ATOMS))
        path.write_bytes(path.read_bytes()[:-10])
        traj = kn.open(path)
        found = kn.analysis.RMSD(traj).run(runner=self.make())
        assert found.timings.frames == 19
        assert_same(found, kn.analysis.RMSD(traj).run(runner="serial"))

    def test_memory_changes_no_bit(self, tmp_path: Path) -> None:
        traj = walk_in(tmp_path)
        found = analysis_named(traj, "rmsf").run(runner=self.make(), memory="5 MiB")
        assert_same(found, alone("rmsf"))

    @pytest.mark.parametrize("access", ["frame", "subset", "in-memory"])
    def test_access_changes_no_bit(self, tmp_path: Path, access: str) -> None:
        traj = walk_in(tmp_path)
        for workers in self.worker_counts:
            analyses = [analysis_named(traj, which) for which in ANALYSES]
            kn.run(analyses, runner=self.make(), workers=workers, access=access)
            for found, which in zip(analyses, ANALYSES, strict=True):
                assert_same(found, alone(which))
            assert analyses[0].timings.access == access
            assert f'access "{access}"' in analyses[0].plan
            for one_round in analyses[0].timings.passes:
                if access == "in-memory":
                    # a piece is a block
                    assert len(one_round.blocks) < 0.2 * N_FRAMES
                else:
                    assert len(one_round.blocks) == N_FRAMES

    def test_what_does_not_fit_into_memory_is_not_loaded(self, tmp_path: Path) -> None:
        analysis = analysis_named(walk_in(tmp_path), "rmsd")
        # room for a frame and its buffers, but not for all frames
        limit = (2 << 20) + 20 * N_ATOMS * 12
        assert analysis.run(runner=self.make(), access="frame", memory=limit).results
        with pytest.raises(kn.MemoryLimitError, match=f"frames of {N_ATOMS} atoms for each of"):
            analysis_named(walk_in(tmp_path), "rmsd").run(runner=self.make(), access="in-memory", memory=limit)

    # -- errors -------------------------------------------------------------------------------------------------

    def test_coordinates_that_are_not_numbers(self, tmp_path: Path) -> None:
        positions = random_walk(N_FRAMES, N_ATOMS)
        positions[217, 4] = np.nan
        write_dcd(tmp_path / "a.dcd", positions)
        traj = kn.open(tmp_path / "a.dcd")
        for which in ("rmsd", "rmsf on the average"):
            error = self._same_error(analysis_named(traj, which), analysis_named(traj, which))
            assert isinstance(error, kn.CorruptFileError)
            assert (error.path, error.frame) == (str(tmp_path / "a.dcd"), 217)

    def test_damaged_frame(self, tmp_path: Path) -> None:
        traj = walk_in(tmp_path)
        path = Path(traj.paths[0])
        whole = bytearray(path.read_bytes())
        frame_bytes = 3 * (8 + 4 * N_ATOMS)
        at = len(whole) - (N_FRAMES - 133) * frame_bytes
        assert struct.unpack_from("<i", whole, at) == (4 * N_ATOMS,)
        struct.pack_into("<i", whole, at, 4 * N_ATOMS + 4)
        path.write_bytes(whole)
        error = self._same_error(*(analysis_named(kn.open(path), "rmsd") for _ in range(2)))
        assert isinstance(error, kn.CorruptFileError)
        assert (error.path, error.frame, error.offset, error.format) == (str(path), 133, at, "DCD")

    def test_truncated_file(self, tmp_path: Path) -> None:
        path = Path(walk_in(tmp_path).paths[0])
        path.write_bytes(path.read_bytes()[:-10])
        error = self._same_error(*(analysis_named(kn.open(path, on_truncated="error"), "rmsd") for _ in range(2)))
        assert isinstance(error, kn.TruncatedFileError)

    @pytest.mark.parametrize("write", [write_dcd, write_xtc])
    @pytest.mark.parametrize("frames", [1.5, 3.0])
    def test_file_that_grows_while_it_is_read(self, tmp_path: Path, write: Any, frames: float) -> None:
        """The file of a simulation that still runs: the frames are those that were there when it was opened."""
        path = tmp_path / "grows"
        positions = random_walk(60, N_ATOMS)
        write(path, positions[:40])
        traj = kn.open(path, stored=False)
        assert traj.n_frames == 40
        expected = kn.analysis.RMSD(traj).run(runner="serial")
        write(tmp_path / "more", positions)
        (_, _, offset, length), size = kn.open(tmp_path / "more").core.locate(40), path.stat().st_size
        with path.open("ab") as file:
            file.write((tmp_path / "more").read_bytes()[offset:][: int(frames * length)])
        assert path.stat().st_size > size
        assert_same(kn.analysis.RMSD(traj).run(runner=self.make()), expected)

    def test_file_cut_after_it_was_opened(self, tmp_path: Path) -> None:
        traj = walk_in(tmp_path)
        analysis = analysis_named(traj, "rmsd")
        assert traj.n_frames == N_FRAMES
        path = Path(traj.paths[0])
        path.write_bytes(path.read_bytes()[:-5000])
        with pytest.raises(kn.Error) as caught:
            analysis.run(runner=self.make())
        assert caught.value.path == str(path)
        assert not analysis.results

    def test_too_little_memory(self, tmp_path: Path) -> None:
        with pytest.raises(kn.MemoryLimitError):
            analysis_named(walk_in(tmp_path), "rmsd").run(runner=self.make(), memory=1000)

    @pytest.mark.parametrize("workers", [0, -1, 1.5, True, "many"])
    def test_wrong_number_of_workers(self, tmp_path: Path, workers: Any) -> None:
        with pytest.raises(kn.ArgumentError, match="workers"):
            analysis_named(walk_in(tmp_path), "rmsd").run(runner=self.make(), workers=workers)

    def _same_error(self, first: Analysis, second: Analysis) -> kn.Error:
        """The error of the runner, which must equal that of the serial runner to the word."""
        with pytest.raises(kn.Error) as expected:
            first.run(runner="serial")
        with pytest.raises(kn.Error) as found:
            second.run(runner=self.make())
        assert type(found.value) is type(expected.value)
        assert str(found.value) == str(expected.value)
        for name in ("path", "format", "frame", "offset"):
            assert getattr(found.value, name) == getattr(expected.value, name)
        assert not second.results
        return found.value

    # -- progress, stopping, accounting -------------------------------------------------------------------------

    def test_progress_reaches_the_total(self, tmp_path: Path) -> None:
        for which, passes in (("rmsd", 1), ("rmsf on the average", 2)):
            seen: list[tuple[int, int]] = []
            analysis_named(walk_in(tmp_path), which).run(runner=self.make(), progress=noting_progress(seen))
            assert {total for _, total in seen} == {N_FRAMES}
            assert seen[-1] == (N_FRAMES, N_FRAMES)
            assert sum(done < before for (before, _), (done, _) in pairwise(seen)) <= passes - 1

    def test_progress_moves_while_the_run_lasts(self, tmp_path: Path) -> None:
        go = tmp_path / "go"

        def note(done: int, total: int) -> None:
            if 0 < done < total:
                go.touch()

        for workers in self.worker_counts:
            analysis = kn.analysis.from_function(waiting_for(go), walk_in(tmp_path))
            analysis.run(runner=self.make(), workers=workers, progress=note)
            go.unlink()

    def test_an_exception_of_the_progress_function_stops(self, tmp_path: Path) -> None:
        def stop(_done: int, _total: int) -> None:
            raise Stop

        analysis = analysis_named(walk_in(tmp_path), "rmsd")
        with pytest.raises(Stop):
            analysis.run(runner=self.make(), progress=stop)
        assert not analysis.results
        # and nothing is left that would disturb the next run
        assert_same(analysis.run(runner=self.make()), alone("rmsd"))

    @pytest.mark.parametrize("which", ["rmsd", "rmsf on the average"])
    def test_timings_add_up(self, tmp_path: Path, which: str) -> None:
        traj = walk_in(tmp_path)
        for workers in self.worker_counts:
            timings = analysis_named(traj, which).run(runner=self.make(), workers=workers).timings
            assert timings.frames == N_FRAMES
            for one in timings.passes:
                assert one.frames == N_FRAMES == sum(worker.frames for worker in one.workers)
                assert [worker.worker for worker in one.workers] == list(range(len(one.workers)))
                assert workers is None or len(one.workers) == workers
                assert sum(worker.blocks for worker in one.workers) == len(one.blocks)
                for worker in one.workers:
                    phases = [getattr(worker, name) for name in timings.totals if name != "unaccounted"]
                    assert min(phases) >= 0.0
                    assert sum(phases) <= worker.total + 1e-6
                    rows = one.blocks[block_column(one.blocks, "worker") == worker.worker]
                    assert rows[:, 2].sum() == worker.frames
                    assert rows[:, 6].sum() <= worker.compute + 1e-6
                    assert (rows[:, 3:] >= 0.0).all()
                    # each worker is there from the beginning to the end, on every runner
                    assert worker.total == pytest.approx(one.wall * worker.threads)
                    assert worker.plan > 0.0
                    assert worker.put + worker.get + worker.gather <= worker.communicate + 1e-6
            self._check_quantities(timings)
            assert str(timings)

    def _check_quantities(self, timings: Timings) -> None:
        """Each has one meaning on all runners: the parts add up to t_total, and t_start is not one of them."""
        found = rank_quantities(timings)
        assert np.sum([found[name] for name in PARTS], axis=0) == pytest.approx(found["t_total"])
        opening = sum(timings.opening.values())
        everything = found["t_total"] + found["t_start"]
        assert everything == pytest.approx(opening + timings.start + timings.plan + timings.wall)
        # nothing is counted twice
        assert timings.start + timings.plan + timings.wall <= timings.whole + 1e-3
        assert timings.start > 0.0 and timings.plan > 0.0
        assert found["t_open_topology"] + found["t_open_trajectory"] == pytest.approx(found["t_open"])
        assert found["t_read"] + found["t_decode"] == pytest.approx(found["t_IO"])

    # -- checkpoints and files of results -----------------------------------------------------------------------

    def test_a_run_that_ended_goes_on_with_the_same_bits(self, tmp_path: Path) -> None:
        path = tmp_path / "run.ckpt"
        self._stop_after(N_FRAMES // 4, path, kept_analyses(walk_in(tmp_path)))
        assert path.exists()
        again = kn.run(kept_analyses(walk_in(tmp_path)), runner=self.make(), checkpoint=path)
        for found, which in zip(again, KEPT, strict=True):
            assert_same(found, alone(which))
        timings = again[0].timings
        first = timings.passes[0]
        assert 0 < first.restored < N_FRAMES
        assert sum(worker.frames for worker in first.workers) == N_FRAMES - first.restored
        assert timings.frames_read == 2 * N_FRAMES - first.restored
        assert sorted(file.name for file in tmp_path.iterdir()) == ["walk.dcd"]

    def test_a_checkpoint_is_saved_while_the_run_lasts(self, tmp_path: Path) -> None:
        save_at_work(self.make(), tmp_path)

    def test_another_runner_goes_on(self, tmp_path: Path) -> None:
        path = tmp_path / "run.ckpt"
        self._stop_after(N_FRAMES // 4, path, kept_analyses(walk_in(tmp_path)))
        with pytest.raises(Stop):
            kn.run(
                kept_analyses(walk_in(tmp_path)),
                runner="serial",
                checkpoint=path,
                checkpoint_interval=0,
                progress=stopping_after(N_FRAMES // 2),
            )
        options: dict[str, Any] = {"workers": self.worker_counts[-1], "memory": "8 MiB"}
        again = kn.run(kept_analyses(walk_in(tmp_path)), runner=self.make(), checkpoint=path, **options)
        for found, which in zip(again, KEPT, strict=True):
            assert_same(found, alone(which))

    def test_finished_rounds_are_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "run.ckpt"
        seen: list[int] = []

        def stop_in_the_second(done: int, _total: int) -> None:
            if N_FRAMES in seen:
                raise Stop
            seen.append(done)

        with pytest.raises(Stop):
            analysis_named(walk_in(tmp_path), "rmsf on the average").run(
                runner=self.make(), checkpoint=path, checkpoint_interval=0, progress=stop_in_the_second
            )
        found = analysis_named(walk_in(tmp_path), "rmsf on the average").run(runner=self.make(), checkpoint=path)
        assert_same(found, alone("rmsf on the average"))
        assert found.timings.passes[0].restored == N_FRAMES
        assert found.timings.passes[0].workers == ()
        assert not path.exists()

    def test_results_per_frame_go_to_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.h5"
        named = ("rmsd", "radius of gyration", "pairs that are near", "corner")
        for workers in self.worker_counts:
            traj = walk_in(tmp_path)
            analyses = [analysis_named(traj, which) for which in named]
            made = kn.run(analyses, runner=self.make(), workers=workers, out=path)
            for found, which in zip(made, named, strict=True):
                memory = alone(which).results
                assert found.results.keys() == memory.keys()
                for name in memory:
                    values = memory[name]
                    # columns that a list makes of others are in memory
                    is_in_file = isinstance(found.results[name], ResultArray | ResultTable | ResultColumns)
                    assert is_in_file or (which == OF_PAIRS[1] and name not in ("frames", "time", "distance"))
                    assert np.asarray(found.results[name]).tobytes() == values.tobytes()
            assert sorted(file.name for file in tmp_path.iterdir()) == ["rows.h5", "walk.dcd"]

    def test_a_file_of_results_goes_on(self, tmp_path: Path) -> None:
        def both() -> list[Analysis]:
            traj = walk_in(tmp_path)
            return [slow_analysis(traj), analysis_named(traj, "pairs that are near")]

        path, out = tmp_path / "run.ckpt", tmp_path / "rows.h5"
        self._stop_after(N_FRAMES // 4, path, both(), out=out)
        assert not out.exists()
        again = kn.run(both(), runner=self.make(), checkpoint=path, out=out)
        for found, which in zip(again, ("slow corner", "pairs that are near"), strict=True):
            assert found.timings.frames_restored > 0
            one = alone(which)
            for name in one.results:
                values = one.results[name]
                assert np.asarray(found.results[name]).tobytes() == values.tobytes(), name
        assert sorted(file.name for file in tmp_path.iterdir()) == ["rows.h5", "walk.dcd"]

    def test_an_error_leaves_what_was_done(self, tmp_path: Path) -> None:
        path = tmp_path / "run.ckpt"
        positions = random_walk(N_FRAMES, N_ATOMS)
        positions[N_FRAMES - 1, 4] = np.nan
        write_dcd(tmp_path / "a.dcd", positions)
        for _ in range(2):
            with pytest.raises(kn.CorruptFileError) as caught:
                analysis_named(kn.open(tmp_path / "a.dcd"), "rmsd").run(
                    runner=self.make(), checkpoint=path, checkpoint_interval=0
                )
            assert caught.value.frame == N_FRAMES - 1
            assert str(path) in "".join(caught.value.__notes__)
            content = load(str(path))
            assert content is not None
            assert content.passes[0].nodes

    # -- functions ----------------------------------------------------------------------------------------------

    def test_values_are_received_as_they_come(self, tmp_path: Path) -> None:
        runner = self.make()
        if (workers := callers_of(runner)) is None:
            with pytest.raises(kn.ArgumentError, match="cannot compute parts"):
                runner.map(abs, [-1], receive=lambda _number, _value: None)
            return
        received: list[int] = []
        done: list[int] = []

        def receive(number: int, value: bytes) -> None:
            assert value == bytes([number]) * 500_000
            assert done == received, "progress is reported after the value was received"
            # workers continue meanwhile, with a bounded number of values that nobody has received
            time.sleep(0.02 if number < 10 else 0.0)
            begun = len(list(tmp_path.iterdir()))
            received.append(number)
            assert begun - len(received) <= 3 * workers, "values pile up"

        assert runner.map(Large(tmp_path), range(60), receive=receive, progress=done.append) == []
        assert sorted(received) == list(range(60))
        assert done == received
        assert runner.map(abs, [], receive=receive) == []

    def test_what_receives_values_may_end_the_call(self, tmp_path: Path) -> None:
        runner = self.make()
        if callers_of(runner) is None:
            return

        def receive(_number: int, _value: bytes) -> None:
            raise Stop("enough")

        with pytest.raises(Stop, match="enough"):
            runner.map(Large(tmp_path), range(40), receive=receive)
        # and nothing is left of it that would disturb the next call
        values = dict.fromkeys(range(8))
        assert runner.map(abs, [-number for number in values], receive=values.__setitem__) == []
        assert values == {number: number for number in range(8)}

    def _stop_after(self, frames: int, path: Path, analyses: list[Analysis], **options: Any) -> None:
        """Runs until `frames` frames are done, with a checkpoint at every look."""
        with pytest.raises(Stop) as caught:
            kn.run(
                analyses,
                runner=self.make(),
                workers=1,
                checkpoint=path,
                checkpoint_interval=0,
                progress=stopping_after(frames),
                **options,
            )
        assert str(path) in caught.value.__notes__[0]
