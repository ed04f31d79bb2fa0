"""Signs and orders of the publications, in virtual time; sizes are smaller than theirs.

Some signs are not theirs: those tests say so, and docs/laboratory.md lists them.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from kinema.report.stragglers import THRESHOLD
from kinema.studies.lab.calibration import paper_cost
from kinema.studies.lab.cases import (
    collective_write,
    direct_write,
    independent_write,
    read_files,
    sample_epochs,
    serial_write,
)
from kinema.studies.lab.operations import RankProgram, StoredFile
from kinema.studies.lab.platform import read_platform
from kinema.studies.lab.programs import AnalysisWork, FrameFile, analysis_program, split_evenly
from kinema.studies.lab.replay import EmulatedRun, emulate

LUSTRE = read_platform("lustre")
MIB = 1 << 20
# a tenth of the 2020 publication's trajectory
N_FRAMES, SIZE = 251_220, 3_000_000_000
SHARED = [FrameFile(StoredFile("shared.xtc", SIZE), N_FRAMES)]
COST = paper_cost(LUSTRE)


def seconds(program: RankProgram, n_ranks: int, n_nodes: int | None = None) -> float:
    return emulate(program, n_ranks, LUSTRE, n_nodes).seconds


def of_mdanalysis(n_ranks: int, layout: str, **options: Any) -> EmulatedRun:
    files = SHARED if layout == "shared" else split_evenly(SHARED, n_ranks, 1)
    options["opens"] = "own" if layout == "subfiles" else "all"
    work = AnalysisWork(files, range(N_FRAMES), COST, reader="mdanalysis", result_bytes=16, **options)
    return emulate(analysis_program(work, n_ranks), n_ranks, LUSTRE)


@pytest.fixture(scope="module")
def runs() -> dict[tuple[str, int], EmulatedRun]:
    chosen = [("shared", 1), ("shared", 24), ("shared", 72), ("subfiles", 24), ("subfiles", 72), ("chain", 72)]
    return {one: of_mdanalysis(one[1], one[0]) for one in chosen}


def test_one_rank_takes_the_publications_time(runs: dict[tuple[str, int], EmulatedRun]) -> None:
    """I/O with decoding is calibrated at one rank, and nowhere else."""
    assert runs["shared", 1].mean("io", "decode") == pytest.approx(0.0003 * N_FRAMES, rel=0.02)
    assert runs["shared", 1].mean("compute") == pytest.approx(0.00009 * N_FRAMES)


def stragglers_at_opening(run: EmulatedRun) -> float:
    """Seconds from the median to the slowest rank's first read of a frame."""
    opening = [rank.blocks[0][2] for rank in run.ranks]
    return (max(opening) - median(opening)) / 1e9


def test_opening_one_shared_file_makes_ranks_late_and_subfiles_do_not(
    runs: dict[tuple[str, int], EmulatedRun],
) -> None:
    late = {one: stragglers_at_opening(run) for one, run in runs.items()}
    assert late["shared", 72] > 2 * late["shared", 24] > 0
    assert late["shared", 72] > 2 * late["subfiles", 72]


def test_a_shared_file_stops_scaling_and_subfiles_scale(runs: dict[tuple[str, int], EmulatedRun]) -> None:
    def efficiency(layout: str, n: int) -> float:
        return runs["shared", 1].seconds / runs[layout, n].seconds / n

    assert efficiency("subfiles", 72) > 0.9 > efficiency("shared", 24) > efficiency("shared", 72)
    assert efficiency("shared", 72) < 0.5


def test_stragglers_of_the_whole_run_are_not_shown(runs: dict[tuple[str, int], EmulatedRun]) -> None:
    """The publication has 62 of 72 ranks that take three times as long as the others. Here all ranks of a shared file
    are equally slow: a queue is fair, and the cause of their difference is not in the model."""
    ends = [rank.end - rank.phases["wait"] for rank in runs["shared", 72].ranks]
    assert max(ends) < THRESHOLD * median(ends)


def test_a_chain_is_opened_by_all_ranks(runs: dict[tuple[str, int], EmulatedRun]) -> None:
    """N_p x N_seg opens: slower than a file for each rank, and a large part of what I/O takes."""
    opened = {layout: sum(rank.metadata for rank in runs[layout, 72].ranks) for layout in ("chain", "subfiles")}
    assert opened["chain"] >= 72 * opened["subfiles"]
    assert runs["chain", 72].mean("open") > 20 * runs["subfiles", 72].mean("open")
    assert runs["chain", 72].seconds > runs["subfiles", 72].seconds


def test_put_ends_before_a_gather_if_root_is_late() -> None:
    """Ranks that put their results do not wait for each other."""
    shared = {how: of_mdanalysis(24, "shared", gather=how) for how in ("collective", "one-sided")}
    assert shared["one-sided"].mean("wait") < shared["collective"].mean("wait")


@pytest.fixture(scope="module")
def striped() -> dict[tuple[str, int], float]:
    found = {}
    for stripes in (1, 4, 48):
        found["small", stripes] = seconds(read_files(24, 480, 40_000, stripes), 24)
        found["large", stripes] = seconds(read_files(4, 4, 256 * MIB, stripes), 4, 4)
    return found


def test_stripes_help_large_files_and_not_a_file_for_each_frame(striped: dict[tuple[str, int], float]) -> None:
    assert striped["large", 1] > 3 * striped["large", 4] > 3 * striped["large", 48]
    # a file of 40 kB lies on one target in any case, and each stripe must be asked for its size
    assert striped["small", 4] > 0.95 * striped["small", 1] and striped["small", 48] > striped["small", 1]


def test_one_large_file_beats_a_file_for_each_sample() -> None:
    """Opening is what costs: three requests to the one metadata server for each sample."""
    files = emulate(sample_epochs(32, 3200, 69_528, stored="a file a sample", stripes=1), 32, LUSTRE, 4)
    one = emulate(sample_epochs(32, 3200, 69_528, stored="one file", stripes=48), 32, LUSTRE, 4)
    assert files.seconds > 2 * one.seconds and files.mean("open") > files.mean("io")
    # on one target the large file is slower: stripes are part of the result
    narrow = seconds(sample_epochs(32, 1600, 69_528, stored="one file", stripes=1), 32, 4)
    assert narrow > seconds(sample_epochs(32, 1600, 69_528, stored="a file a sample", stripes=1), 32, 4)


def test_the_second_epoch_comes_from_the_node() -> None:
    """If the storage is the limit: a file on one target that 16 nodes read."""

    def second(cached: bool) -> tuple[float, float]:
        program = [
            sample_epochs(32, 800, 69_528, stored="one file", stripes=1, n_epochs=n, cached=cached) for n in (1, 2)
        ]
        first, both = (seconds(one, 32, 16) for one in program)
        return first, both - first

    plain, cached = second(False), second(True)
    assert cached[1] < 0.2 * plain[1] and cached[1] < 0.1 * cached[0]
    assert plain[1] == pytest.approx(plain[0], rel=0.1)


@pytest.mark.parametrize("n_ranks", [24, 96])
def test_direct_beats_collective_beats_serial_writing(n_ranks: int) -> None:
    """PDAW, MPIW, SDAW of the DL_POLY publication; a tenth of its file."""
    file, n_nodes = StoredFile("HISTORY", 110_000_000, 48), n_ranks // 24
    direct = seconds(direct_write(file, n_ranks), n_ranks, n_nodes)
    collective = seconds(collective_write(file, n_ranks, n_nodes), n_ranks, n_nodes)
    serial = seconds(serial_write(file, n_ranks), n_ranks, n_nodes)
    assert direct < collective < serial and serial > 5 * direct


def test_collective_beats_independent_writing_of_short_pieces() -> None:
    """Atoms in turn, 292 bytes each: locks and latencies, against messages and a few large writes."""
    file = StoredFile("HISTORY", 3 * MIB, 4)
    independent = seconds(independent_write(file, 24, 292), 24, 4)
    assert independent > 10 * seconds(collective_write(file, 24, 4), 24, 4)
