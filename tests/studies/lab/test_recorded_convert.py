"""`--task convert` in the laboratory: the ranks' recorded writes are the file, and the experiment replays them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinema.base.errors import ArgumentError
from kinema.cli.in_process import call_kinema
from kinema.studies.lab.calibration import frame_cost
from kinema.studies.lab.experiment import WRITTEN_IN_PLACE
from kinema.studies.lab.operations import ReadBytes, WriteBytes
from kinema.studies.lab.platform import read_platform
from kinema.studies.lab.programs import FrameCost
from kinema.studies.lab.recording import recorded_run
from kinema.testing import random_walk, write_dcd
from kinema.trajectory.opening import open as open_trajectory

N_FRAMES, N_ATOMS, N_RANKS = 400, 300, 2
PROGRAM = """
from mpi4py import MPI
import kinema as kn
from kinema.base.tracing import describe
for format in {formats}:
    with kn.trace(f"traces-{{format}}"):
        # as ranks that a launcher starts say by themselves
        describe("rank", MPI.COMM_WORLD.rank)
        kn.convert("walk.dcd", f"out.{{format}}", runner="mpi", fields="positions", verify=False, stored=False)
"""


@pytest.mark.processes
def test_ranks_write_each_byte_of_the_file_once(mpi: Any, tmp_path: Path) -> None:
    write_dcd(tmp_path / "walk.dcd", random_walk(N_FRAMES, N_ATOMS))
    mpi.compute(N_RANKS, PROGRAM.format(formats=WRITTEN_IN_PLACE), tmp_path)
    for name in WRITTEN_IN_PLACE:
        found = recorded_run(tmp_path / f"traces-{name}", cost=FrameCost(0, 1000, "made up"))
        assert found.n_ranks == N_RANKS and found.n_frames == N_FRAMES
        size = (tmp_path / f"out.{name}").stat().st_size
        by_rank = [[one for one in rank if isinstance(one, WriteBytes)] for rank in found.ranks]
        # both write frames; only counts in the head of the file are written twice
        assert all(sum(one.size for one in rank) > size / 20 for rank in by_rank)
        written = sorted((one.offset, one.offset + one.size) for rank in by_rank for one in rank)
        end = 0
        for begin, stop in written:
            assert begin <= end
            end = max(end, stop)
        assert end == size and sum(stop - begin for begin, stop in written) < size * 1.01
        assert sum(one.size for rank in found.ranks for one in rank if isinstance(one, ReadBytes)) > 0.99 * size


def test_the_experiment_records_and_replays(tmp_path: Path) -> None:
    write_dcd(tmp_path / "walk.dcd", random_walk(N_FRAMES, N_ATOMS))
    words = "--lab lustre --runner mpi --recorded auto --task convert --no-stored --stripes 1,4 --workers".split()
    done = call_kinema(
        "scaling", "walk.dcd", *words, 2, "--formats", "dcd", "--cpu-per-frame", "5,7", "-o", "out", cwd=tmp_path
    )
    assert done.returncode == 0 and done.stderr.count("recorded: convert") == 1, done.stderr
    assert "mpi, dcd, lab lustre, program recorded, task convert, stripes 4" in done.stdout
    for more, told in (
        (("--formats", "xtc"), "format of task convert in the laboratory: expected dcd or nc, found xtc"),
        (("--formats", "dcd", "--cpu-per-frame", "paper"), "the publication has none for writing"),
    ):
        done = call_kinema("scaling", "walk.dcd", *words, 2, *more, "-o", "no", cwd=tmp_path)
        assert done.returncode == 2 and told in done.stderr


def test_encoding_is_measured_for_the_format(tmp_path: Path) -> None:
    write_dcd(tmp_path / "walk.dcd", random_walk(200, N_ATOMS))
    given = open_trajectory([str(tmp_path / "walk.dcd")], None, stored=False)
    found = frame_cost("measured", given, None, read_platform("lustre"), "trr")
    assert found.compute > 0 and "200 frames" in found.source
    with pytest.raises(ArgumentError, match="expected measured, or microseconds"):
        frame_cost("paper", given, None, read_platform("lustre"), "trr")
