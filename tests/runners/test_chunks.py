"""How often the chunks of compressed files are decoded on several workers: by the reads, which are of whole chunks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.model.selection.frames import FrameSelection
from kinema.runners import choose_runner
from kinema.runners.scheduler import Schedule, Scheduler
from kinema.testing import random_walk, synthetic, write_h5md, write_xtc

N_FRAMES, N_ATOMS = 6000, 3
# of leaves of 8 frames: below, of, and above a leaf; ending with leaves and not
CHUNKS = [10, 32, 50, 128, 333, 1000, 6000]


def _written(path: Path, chunk: int, compression: str | None = "gzip") -> Path:
    write_h5md(path, synthetic(N_FRAMES, N_ATOMS, cell="none"), chunks=(chunk, N_ATOMS, 3), compression=compression)
    return path


class _Counted:
    """A trajectory whose reads are counted, and the plan of a run."""

    def __init__(self, path: Path, frames: FrameSelection, workers: int = 1, memory: int = 0) -> None:
        opened = kn.open(path).core
        self.trajectory = _core.Trajectory(**{**opened.recipe(), "record_reads": True})
        self.trajectory.scan()
        one = next(kn.analysis.RMSD(kn.open(path))._passes(frames))
        self.jobs = [(one.kernel, tuple(one.transforms))]
        self.plan = _core.Plan(self.trajectory, frames, self.jobs, memory=memory, workers=workers)
        self.kernel = one.kernel
        self.cuts = self.plan.partition(self.trajectory)
        with h5py.File(path, "r") as file:
            stored = file["particles/all/position/value"]
            chunks = [stored.id.get_chunk_info(number) for number in range(stored.id.get_num_chunks())]
        self.chunks = {chunk.byte_offset: chunk.chunk_offset[0] for chunk in chunks}
        self.trajectory.take_reads()

    def decoded(self) -> Counter[int]:
        """How often each chunk was read since the last call, by its first frame. Reads may be of several chunks."""
        found: Counter[int] = Counter()
        for _, offset, length in self.trajectory.take_reads():
            found.update(first for at, first in self.chunks.items() if offset <= at < offset + length)
        return found

    def run(self, piece_scheduler: Scheduler, n_workers: int) -> bytes:
        """All pieces, by workers who ask in turn; the result."""
        tree = _core.MergeTree(self.plan.n_leaves, [self.kernel])
        asking = list(range(n_workers))
        while asking:
            for worker in list(asking):
                if (piece := piece_scheduler.take(worker)) is None:
                    asking.remove(worker)
                    continue
                nodes, _ = _core.run_leaves(self.trajectory, self.plan, self.jobs, *piece)
                tree.insert_all(nodes)
        ((_, _, (root,)),) = tree.take_nodes()
        return root.to_bytes()


@pytest.mark.parametrize("schedule", ["dynamic", "static"])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_pieces_decode_few_chunks_twice(tmp_path: Path, chunk: int, schedule: Schedule) -> None:
    counted = _Counted(_written(tmp_path / "a.h5md", chunk), FrameSelection(range(N_FRAMES)))
    plan = counted.plan
    assert plan.leaf_frames == 8
    whole, _ = _core.run_leaves(counted.trajectory, plan, counted.jobs, 0, plan.n_leaves)
    expected = whole[0][2][0].to_bytes()
    assert set(counted.decoded().values()) == {1}
    piece_scheduler = Scheduler(plan.n_leaves, [(0, plan.n_leaves)], 4, schedule=schedule, ahead=2, cuts=counted.cuts)
    assert counted.run(piece_scheduler, 4) == expected
    decoded = counted.decoded()
    assert len(decoded) == -(-N_FRAMES // chunk)
    # as it says itself
    more = (decoded.total() - len(decoded)) * chunk
    assert piece_scheduler.decoded_twice == more
    assert chunk == N_FRAMES or max(decoded.values()) <= 2
    if chunk in (32, 128):
        assert more == 0
    # every worker decodes one chunk more than it must, or a quarter of all
    assert decoded.total() <= max(1.25 * len(decoded), len(decoded) + 8)


@pytest.mark.parametrize(
    "frames",
    [
        FrameSelection(range(5, 5 + 7 * 850, 7)),
        FrameSelection(range(N_FRAMES)[::-1]),
        FrameSelection(range(N_FRAMES)[::-3]),
        FrameSelection(np.r_[3000:6000, 0:1111].astype(np.uint64)),
    ],
)
def test_chosen_frames(tmp_path: Path, frames: FrameSelection) -> None:
    for chunk in (100, 128, 1000):
        counted = _Counted(_written(tmp_path / f"{chunk}.h5md", chunk), frames)
        plan = counted.plan
        piece_scheduler = Scheduler(plan.n_leaves, [(0, plan.n_leaves)], 3, cuts=counted.cuts)
        counted.run(piece_scheduler, 3)
        decoded = counted.decoded()
        assert max(decoded.values()) <= 2
        assert decoded.total() <= 1.34 * len(decoded) + 6


# with 16 workers and chunks of 3 frames a task is one leaf by size alone
@pytest.mark.parametrize(("chunk", "workers"), [*((chunk, 3) for chunk in CHUNKS), (3, 16)])
def test_threads_decode_few_chunks_twice(tmp_path: Path, chunk: int, workers: int) -> None:
    counted = _Counted(_written(tmp_path / "a.h5md", chunk), FrameSelection(range(N_FRAMES)), workers=workers)
    assert counted.plan.workers == workers
    tree = _core.MergeTree(counted.plan.n_leaves, [counted.kernel])
    _core.run_into(counted.trajectory, counted.plan, counted.jobs, tree, [(0, counted.plan.n_leaves)])
    decoded = counted.decoded()
    assert len(decoded) == -(-N_FRAMES // chunk)
    assert decoded.total() <= max(1.2 * len(decoded), len(decoded) + 2)
    told = "decoded twice, frames" in counted.plan.explain()
    assert told == (decoded.total() > len(decoded))


def test_threads_of_a_worker_share_its_piece(tmp_path: Path) -> None:
    counted = _Counted(_written(tmp_path / "a.h5md", 128), FrameSelection(range(N_FRAMES)), workers=2)
    # four chunks
    _, timings = _core.run_leaves(counted.trajectory, counted.plan, counted.jobs, 64, 128)
    # a block would hold all; each thread is offered two chunks, whichever takes them
    assert set(timings["blocks"][:, 1]) == {512, 768}
    assert set(counted.decoded().values()) == {1}


def test_nothing_is_aligned_where_frames_are_decoded_alone(tmp_path: Path) -> None:
    frames = FrameSelection(range(N_FRAMES))
    for path in (_written(tmp_path / "a.h5md", 333, compression=None), _written(tmp_path / "b.h5md", 1)):
        counted = _Counted(path, frames)
        assert counted.cuts.is_uniform
    write_xtc(tmp_path / "a.xtc", random_walk(50, 5))
    traj = kn.open(tmp_path / "a.xtc")
    traj.scan()
    one = next(kn.analysis.RMSD(traj)._passes(FrameSelection(range(50))))
    assert _core.Plan(traj.core, FrameSelection(range(50)), [(one.kernel, ())]).partition(traj.core).is_uniform


def test_velocities_written_less_often(tmp_path: Path) -> None:
    """A chunk of velocities spans ten times the frames; it is that of the positions that counts."""
    made = synthetic(2000, 20, cell="none")
    write_h5md(tmp_path / "a.h5md", made, chunks=(100, 20, 3), compression="gzip")
    with h5py.File(tmp_path / "a.h5md", "a") as file:
        group = file["particles/all"].create_group("velocity")
        group.create_dataset("value", data=made.positions[::10], chunks=(100, 20, 3), compression="gzip")
        group["value"].attrs["unit"] = "angstrom ps-1"
        group["step"], group["time"] = made.steps[::10], made.times[::10]
        group["time"].attrs["unit"] = "ps"
    traj = kn.open(tmp_path / "a.h5md", absent="hold")
    traj.scan()
    kernels = [next(one._passes(FrameSelection(range(2000)))).kernel for one in (kn.analysis.RMSD(traj),)]
    plan = _core.Plan(traj.core, FrameSelection(range(2000)), [(kernel, ()) for kernel in kernels])
    cuts = plan.partition(traj.core)
    free = [leaf for leaf in range(1, plan.n_leaves) if cuts.cost(leaf) == 0]
    assert [leaf * plan.leaf_frames for leaf in free] == [
        at for at in range(plan.leaf_frames, 2000, plan.leaf_frames) if at % 100 == 0
    ]


@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_runners_say_how_often(tmp_path: Path, runner: str) -> None:
    for chunk, told in ((1001, True), (128, False)):
        analysis = kn.analysis.RMSD(kn.open(_written(tmp_path / f"{chunk}.h5md", chunk)))
        expected = analysis.run(runner="serial").results.values
        assert analysis.plan is not None and "decoded twice" not in analysis.plan
        found = analysis.run(runner=choose_runner(runner), workers=2)
        assert found.results.values.tobytes() == expected.tobytes()
        assert found.plan is not None
        assert ("note: compressed chunks of 1001 frames lie across" in found.plan) == told
