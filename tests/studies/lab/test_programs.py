"""Programs of analyses: which frames a rank gets, what it opens and reads, and what becomes of it in a report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema import _core
from kinema.analysis import RMSD
from kinema.base.errors import ArgumentError
from kinema.base.timings import PHASES
from kinema.model.selection.frames import FrameSelection
from kinema.report import Report
from kinema.studies.lab.operations import Compute, Metadata, Operation, ReadBytes, StoredFile
from kinema.studies.lab.platform import read_platform
from kinema.studies.lab.programs import (
    AnalysisWork,
    FrameCost,
    FrameFile,
    analysis_program,
    broadcast,
    leaf_length,
    split_evenly,
)
from kinema.studies.lab.replay import emulate, emulated_report
from kinema.testing import random_walk, write_dcd

COST = FrameCost(20_000, 3_000, "made up")
LUSTRE = read_platform("lustre")


def shared(n_frames: int, frame_bytes: int = 10_000) -> list[FrameFile]:
    return [FrameFile(StoredFile("shared", n_frames * frame_bytes), n_frames)]


def operations(work: AnalysisWork, n_ranks: int) -> list[list[Operation]]:
    """The operations of each rank; dynamic pieces go to the ranks in order."""
    program = analysis_program(work, n_ranks)
    return [list(program(rank)) for rank in range(n_ranks)]


@pytest.mark.parametrize("reader", ["kinema", "mdanalysis"])
@pytest.mark.parametrize("n_ranks", [1, 5, 24])
def test_every_frame_is_read_and_computed_once(reader: Any, n_ranks: int) -> None:
    files = split_evenly(shared(3001), 7, 1)
    work = AnalysisWork(files, range(3001), COST, reader=reader)
    read: Counter[str] = Counter()
    positions: list[int] = []
    for of_rank in operations(work, n_ranks):
        for one in of_rank:
            if isinstance(one, ReadBytes) and not one.keep:
                read[one.file.name] += one.size
            if isinstance(one, Compute) and one.frames:
                positions += range(one.position, one.position + one.frames)
    assert sorted(positions) == list(range(3001))
    assert read == {one.file.name: one.file.size for one in files}


def test_frames_between_the_chosen_ones_are_not_read() -> None:
    work = AnalysisWork(shared(1000), range(100, 1000, 30), COST)
    read = [one for one in operations(work, 1)[0] if isinstance(one, ReadBytes) and not one.keep]
    assert [one.offset for one in read] == [frame * 10_000 for frame in range(100, 1000, 30)]
    for frames in (range(0), range(5, 1001), range(9, 0, -1)):
        with pytest.raises(ArgumentError, match="frames must be some of the trajectory's 1000"):
            AnalysisWork(shared(1000), frames, COST)


def opens(work: AnalysisWork, n_ranks: int) -> int:
    """How often trajectory files are opened, index files apart."""
    found = [one for of_rank in operations(work, n_ranks) for one in of_rank if isinstance(one, Metadata)]
    return sum(one.what == "open" and one.file is not None and "index" not in one.file.name for one in found)


def test_a_chain_is_opened_by_every_rank_but_not_with_kinema() -> None:
    """N_p x N_seg opens of the 2020 publication's ChainReader."""
    files = split_evenly(shared(4096), 16, 1)
    theirs = AnalysisWork(files, range(4096), COST, reader="mdanalysis")
    own = AnalysisWork(files, range(4096), COST, reader="mdanalysis", opens="own")
    ours = AnalysisWork(files, range(4096), COST)
    assert opens(theirs, 16) == 16 * 16 and opens(own, 16) == 16 and 16 <= opens(ours, 16) <= 3 * 16


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 8, 13, 72])
def test_a_broadcast_reaches_every_rank(n_ranks: int) -> None:
    run = emulate(lambda rank: broadcast(rank, n_ranks, 1 << 20), n_ranks, LUSTRE, 1)
    assert len(run.ranks) == n_ranks and (run.seconds > 0) == (n_ranks > 1)


def test_leaves_are_as_long_as_the_cores(tmp_path: Path) -> None:
    path = tmp_path / "w.dcd"
    write_dcd(path, random_walk(5000, 3))
    analysis = RMSD(kn.open(path))
    for n in (1, 2, 7, 255, 256, 257, 700, 2047, 2048, 2049, 5000):
        frames = FrameSelection(range(n))
        one = next(analysis._passes(frames))
        plan = _core.Plan(analysis.trajectory.core, frames, [(one.kernel, one.transforms)])
        assert leaf_length(n) == plan.leaf_frames
    # the core's own test has these
    assert leaf_length(1 << 20) == leaf_length(1 << 60) == 256


def test_a_split_that_is_finer_than_frames_is_refused() -> None:
    assert sum(one.n_frames for one in split_evenly(shared(10), 3, 2)) == 10
    with pytest.raises(ArgumentError, match="10 frames cannot be split into 11 files"):
        split_evenly(shared(10), 11, 1)


def report_of_a_run() -> Report:
    work = AnalysisWork(shared(2000), range(2000), COST, schedule="dynamic")
    run = emulate(analysis_program(work, 30), 30, LUSTRE)
    files = [{"path": "shared", "format": "XTC", "size": 1, "fingerprint": "f"}]
    described = {"files": files, "format": "XTC", "n_atoms": 10, "n_frames": 2000, "topology": None}
    return emulated_report(run, analyses=["RMSD"], n_atoms=10, described=described, extra={"workers": 30})


def test_a_report_has_all_times_and_says_that_it_is_emulated(tmp_path: Path) -> None:
    report = report_of_a_run()
    (one,) = report.timings.passes
    assert one.frames == 2000 and len(one.workers) == 30 and len(one.blocks) > 30
    for worker in one.workers:
        assert worker.unaccounted == pytest.approx(0, abs=1e-9)
        assert all(getattr(worker, phase) >= 0 for phase in PHASES)
    assert {worker.node for worker in one.workers} == {"node 0", "node 1"}
    assert report.quantities.t_IO > 0 and report.timings.totals["compute"] == pytest.approx(2000 * 3e-6)
    assert str(report).startswith("emulated, not measured: lustre, nodes 2 (")
    report.save(tmp_path / "r.json")
    again = Report.load(tmp_path / "r.json")
    assert str(again) == str(report) and again.run["emulated"]["sources"]["node.cores"]
    # the same input gives the same file to the bit
    report_of_a_run().save(tmp_path / "s.json")
    assert (tmp_path / "r.json").read_bytes() == (tmp_path / "s.json").read_bytes()
