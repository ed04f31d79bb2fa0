"""Access by name: the same bits from every format and runner, the bytes that each reads and when, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.base.timings import block_column
from kinema.cli.options.shared import ACCESS_NAMES
from kinema.report import Report
from kinema.report.scaling import label_of
from kinema.runners import ProcessesRunner, Runner
from kinema.runners.access import AccessMethod, access_method, access_names, register_access
from kinema.testing import open_recorded, synthetic, write_dcd, write_h5md, write_xtc
from kinema.testing.amounts import pairs

N_FRAMES = 40
# a frame of 108 kB: formats that can skip atoms do, as it would not be worth it in small frames
N_ATOMS = 9000
CHOSEN = [5, 7, 8, 30, 61]

# what reads and decodes by itself
READ_HERE = [name for name in access_names() if access_method(name).rank_reader is None]
MPIO = [name for name in access_names() if name not in READ_HERE]

H5MD: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunks of a frame": {"chunks": (1, N_ATOMS, 3)},
    # as h5py chooses them: several frames, some of the atoms
    "automatic chunks": {"chunks": (3, 1000, 1)},
    "gzip": {"chunks": (8, N_ATOMS, 3), "compression": "gzip", "compression_opts": 1},
}
FORMATS = ["XTC", "DCD", *H5MD]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of each format."""
    folder = tmp_path_factory.mktemp("access")
    made = synthetic(N_FRAMES, N_ATOMS)
    write_xtc(folder / "XTC", made.positions)
    write_dcd(folder / "DCD", made.positions)
    for name, storage in H5MD.items():
        write_h5md(folder / name, made, **storage)
    return folder


def _analyses(traj: kn.Trajectory) -> list[Analysis]:
    """With one atom set, with several, and with a transform."""
    return [
        kn.analysis.RMSD(traj, select=CHOSEN, groups=[[1, 8000], [4]]),
        kn.analysis.RMSF(traj, select=CHOSEN, align="average"),
        kn.analysis.RadiusOfGyration(traj, select=CHOSEN, weights=None),
    ]


def _bits(analyses: list[Analysis]) -> list[bytes]:
    return [np.asarray(one.results[name]).tobytes() for one in analyses for name in one.results]


# -- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_bits_whatever_the_access(folder: Path, kind: str) -> None:
    traj = kn.open(folder / kind)
    expected = _bits(kn.run(_analyses(traj), runner="serial"))
    processes = ProcessesRunner()
    with processes.session():
        for access in READ_HERE:
            for runner, workers in (("serial", 1), ("threads", 2), (processes, 2)):
                # starting processes takes longest, and what they read by is the same plan
                if runner is not processes or access in ("frame", "in-memory"):
                    found = kn.run(_analyses(traj), runner=runner, workers=workers, access=access, memory="200 MiB")
                    assert _bits(found) == expected, (runner, access)


MPI = """
def bits(analyses):
    return [np.asarray(one.results[name]).tobytes() for one in analyses for name in one.results]

def analyses(traj):
    chosen = [5, 7, 8, 30, 61]
    return [kn.analysis.RMSD(traj, select=chosen, groups=[[1, 8000]]), kn.analysis.RMSF(traj, select=chosen)]

with kn.runners.MPI() as mpi:
    if mpi.is_root:
        expected = {}
        for name, access, options in WAYS:
            traj = kn.open(name)
            if name not in expected:
                expected[name] = bits(kn.run(analyses(traj), runner="serial"))
            runner = mpi.configured(**options)
            found = kn.run(analyses(traj), runner=runner, access=access, memory="200 MiB")
            assert bits(found) == expected[name], (name, access, options)
            say(access, options, [worker.blocks for worker in found[0].timings.passes[0].workers])
"""
OPTIONS: list[dict[str, Any]] = [
    {},
    {"schedule": "dynamic"},
    {"oversubscribe": 3, "schedule": "static"},
    {"threads_per_worker": 2},
]


@pytest.mark.processes
def test_the_same_bits_on_ranks(folder: Path, mpi: Any) -> None:
    ways = pairs(FORMATS, ("direct", "frame", "subset", "in-memory"), OPTIONS)
    lines = mpi.compute(3, f"WAYS = {ways!r}\n{MPI}", folder).splitlines()
    assert len(lines) == len(ways)
    # one piece a rank, which is one block; three pieces a rank; one block for each of two threads
    for options, blocks in ((OPTIONS[0], 1), (OPTIONS[2], 3), (OPTIONS[3], 2)):
        assert f"in-memory {options} {[blocks] * 3}" in lines


# -- what is read, and when ------------------------------------------------------------------------------------------


def _looked_at(path: Path) -> kn.Trajectory:
    """With reads that are recorded, after those that a first run does once: of frames, and of a cell."""
    traj = open_recorded(path)
    kn.analysis.RadiusOfGyration(traj, CHOSEN, weights=None).run(runner="serial")
    traj.take_reads()
    return traj


def _reads(path: Path, access: str) -> list[tuple[int, int]]:
    """Offset and length of each read of a serial run of an analysis that reads no reference."""
    traj = _looked_at(path)
    kn.analysis.RadiusOfGyration(traj, CHOSEN, weights=None).run(runner="serial", access=access, memory="200 MiB")
    return [(offset, length) for _, offset, length in traj.take_reads()]


@pytest.mark.parametrize("kind", ["DCD", "contiguous", "chunks of a frame"])
def test_a_frame_has_all_of_its_bytes_read_and_a_subset_few(folder: Path, kind: str) -> None:
    frame_bytes = 12 * N_ATOMS
    frame = _reads(folder / kind, "frame")
    assert len(frame) == N_FRAMES
    assert all(frame_bytes <= length < 1.01 * frame_bytes for _, length in frame)
    subset = _reads(folder / kind, "subset")
    assert len(subset) >= N_FRAMES
    assert sum(length for _, length in subset) < 0.1 * N_FRAMES * frame_bytes
    # frame by frame
    assert [offset for offset, _ in subset] == sorted(offset for offset, _ in subset)
    memory = _reads(folder / kind, "in-memory")
    assert sum(length for _, length in memory) == pytest.approx(sum(length for _, length in frame), rel=0.01)
    assert len(memory) < N_FRAMES


def test_compressed_chunks_of_several_frames_are_read_once_for_each_of_them(folder: Path) -> None:
    """This makes such files slow for programs that read frame by frame."""
    direct, frame, memory = (
        sum(length for _, length in _reads(folder / "gzip", access)) for access in ("direct", "frame", "in-memory")
    )
    assert frame == 8 * direct
    assert memory == direct


def test_all_of_a_piece_is_read_before_the_first_frame_is_computed(folder: Path) -> None:
    for kind in FORMATS:
        read_at_first: dict[str, int] = {}
        for access in ("frame", "in-memory"):
            traj = open_recorded(folder / kind)
            traj.scan()
            traj.take_reads()
            counts: list[int] = []

            def note(frame: Any, traj: Any = traj, counts: list[int] = counts) -> float:
                counts.append(sum(length for _, _, length in traj.take_reads()))
                return float(frame.positions[0, 0])

            kn.analysis.from_function(note, traj, CHOSEN).run(runner="serial", access=access, memory="200 MiB")
            assert len(counts) == N_FRAMES
            read_at_first[access] = counts[0]
            after = sum(counts[1:]) + sum(length for _, _, length in traj.take_reads())
            assert (after == 0) == (access == "in-memory"), (kind, access)
        assert read_at_first["in-memory"] > read_at_first["frame"], kind


def test_each_worker_loads_its_share_at_once_unless_told_otherwise(folder: Path) -> None:
    traj = kn.open(folder / "DCD")

    def blocks(runner: Runner, access: str = "in-memory") -> list[int]:
        found = kn.analysis.RMSD(traj, select=CHOSEN).run(runner=runner, workers=2, access=access, memory="200 MiB")
        return [worker.blocks for worker in found.timings.workers]

    assert blocks(ProcessesRunner()) == [1, 1]
    assert blocks(ProcessesRunner(oversubscribe=5)) == [5, 5]
    assert sum(blocks(ProcessesRunner(schedule="dynamic", oversubscribe=2))) > 2
    # others keep the runner's own ways
    assert sum(blocks(ProcessesRunner(), "frame")) == N_FRAMES


# -- memory ----------------------------------------------------------------------------------------------------------


def test_what_is_to_be_loaded_is_reckoned_before_anything_is_read(folder: Path) -> None:
    traj = _looked_at(folder / "DCD")
    analysis = kn.analysis.RadiusOfGyration(traj, CHOSEN, weights=None)
    with pytest.raises(kn.MemoryLimitError) as caught:
        analysis.run(runner="serial", access="in-memory", memory="3 MiB")
    text = str(caught.value)
    assert traj.take_reads() == []
    assert f"{N_FRAMES} frames of {N_ATOMS} atoms for each of 1 worker," in text
    assert f"found {3 << 20}" in text
    for word in ("fewer frames", "oversubscribe", 'access "subset"'):
        assert word in text
    (needed,) = map(int, re.findall(r"at least (\d+) bytes", text))
    assert N_FRAMES * N_ATOMS * 12 < needed < N_FRAMES * N_ATOMS * 12 + (4 << 20)
    with pytest.raises(kn.MemoryLimitError):
        analysis.run(runner="serial", access="in-memory", memory=needed - 1)
    assert analysis.run(runner="serial", access="in-memory", memory=needed).timings.blocks.shape[0] == 1


@pytest.mark.processes
@pytest.mark.parametrize("make", [ProcessesRunner, lambda **options: kn.runners.Dask(**options)])
def test_several_pieces_a_worker_need_less_memory(folder: Path, make: Callable[..., Runner]) -> None:
    traj = kn.open(folder / "DCD")
    expected = _bits([kn.analysis.RMSD(traj, select=CHOSEN).run(runner="serial")])
    how: dict[str, Any] = {"workers": 2, "access": "in-memory", "memory": "6 MiB"}
    with pytest.raises(kn.MemoryLimitError):
        kn.analysis.RMSD(traj, select=CHOSEN).run(runner=make(), **how)
    for schedule in ("static", "dynamic"):
        found = kn.analysis.RMSD(traj, select=CHOSEN).run(runner=make(schedule=schedule, oversubscribe=10), **how)
        assert _bits([found]) == expected


def test_frames_with_all_atoms_need_room_for_one(folder: Path) -> None:
    traj = kn.open(folder / "DCD")
    analysis = kn.analysis.RMSD(traj, select=CHOSEN)
    limit = (2 << 20) + 20_000
    assert analysis.run(runner="serial", memory=limit, access="subset").results
    with pytest.raises(kn.MemoryLimitError, match="too small for one frame"):
        analysis.run(runner="serial", memory=limit, access="frame")
    assert analysis.run(runner="threads", workers=2, memory=limit + 12 * N_ATOMS, access="frame").timings.n_workers == 1


# -- checkpoints, reports, names -------------------------------------------------------------------------------------


class _Stop(Exception):
    pass


@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_a_run_goes_on_with_another_access(folder: Path, tmp_path: Path, runner: str) -> None:
    traj = kn.open(folder / "DCD")
    expected = _bits(kn.run(_analyses(traj), runner="serial"))

    def stop(done: int, _total: int) -> None:
        if done:
            raise _Stop

    kept: dict[str, Any] = {"checkpoint": tmp_path / "run.ckpt", "checkpoint_interval": 0, "memory": "200 MiB"}
    with pytest.raises(_Stop):
        kn.run(_analyses(traj), runner="serial", access="frame", progress=stop, **kept)
    found = kn.run(_analyses(traj), runner=runner, workers=2, access="in-memory", **kept)
    assert _bits(found) == expected
    assert found[0].timings.frames_restored > 0


def test_reports_tell_the_access_where_it_is_not_direct(folder: Path, tmp_path: Path) -> None:
    traj = kn.open(folder / "automatic chunks")
    direct = kn.analysis.RMSD(traj, select=CHOSEN).run(runner="serial").report()
    frame = kn.analysis.RMSD(traj, select=CHOSEN).run(runner="serial", access="frame").report()
    assert ", access" not in str(direct) and "access" not in label_of(direct)
    assert "runner serial, access frame" in str(frame)
    assert label_of(frame) == "serial, H5MD, access frame"
    frame.save(tmp_path / "frame.json")
    found = json.loads((tmp_path / "frame.json").read_text())
    assert found["run"]["access"] == "frame"
    assert Report.load(tmp_path / "frame.json").timings.access == "frame"
    # as version 1 was before there were others
    del found["run"]["access"]
    (tmp_path / "frame.json").write_text(json.dumps(found))
    assert Report.load(tmp_path / "frame.json").timings.access == "direct"


def test_blocks_of_many_leaves_are_found_in_the_selection(folder: Path) -> None:
    traj = kn.open(folder / "DCD")
    run = kn.analysis.RMSD(traj, select=CHOSEN).run(
        runner=ProcessesRunner(oversubscribe=2), workers=2, access="in-memory", memory="200 MiB"
    )
    blocks = run.timings.passes[0].blocks
    assert sorted(block_column(blocks, "position")) == [0, 10, 20, 30]


def test_names_are_those_of_the_command_line() -> None:
    assert ACCESS_NAMES == access_names()
    assert [access_method(name).name for name in access_names()] == list(access_names())
    assert access_names() == (
        "direct", "frame", "subset", "in-memory", "hdf5-mpio-independent", "hdf5-mpio-collective",
    )  # fmt: skip


def test_a_name_is_registered_once() -> None:
    with pytest.raises(kn.ArgumentError, match="'frame' is registered already"):
        register_access(AccessMethod("frame", "another method"))
    assert "with all of its atoms" in access_method("frame").description


@pytest.mark.parametrize("access", ["", "Direct", "in_memory", "hdf5-mpio", None, 1])
def test_other_names_are_refused(folder: Path, access: Any) -> None:
    with pytest.raises(kn.ArgumentError, match="access must be one of 'direct', 'frame'"):
        kn.analysis.RMSD(kn.open(folder / "DCD"), select=CHOSEN).run(access=access)


@pytest.mark.parametrize("access", MPIO)
def test_reading_through_mpi_io_says_what_is_missing(folder: Path, access: Any) -> None:
    analysis = kn.analysis.RMSD(kn.open(folder / "contiguous"), select=CHOSEN)
    for runner in ("serial", "threads", "processes", "dask"):
        with pytest.raises(kn.ArgumentError, match=f"'{access}' is for runner='mpi', and this is '{runner}'"):
            analysis.run(runner=runner, access=access)
    with pytest.raises(kn.ArgumentError, match="for H5MD files, and this is a DCD file"):
        access_method(access).check("mpi", "DCD")
    access_method("direct").check("threads", "DCD")


def test_collective_reads_refuse_transforms_that_look_back(folder: Path) -> None:
    traj = kn.open(folder / "contiguous")
    back = traj.with_transform(kn.transforms.nojump()).core.transforms
    assert [one.looks_back for one in back] == [True]
    for access in access_names():
        method = access_method(access)
        if method.collective:
            with pytest.raises(kn.ArgumentError, match=r"'hdf5-mpio-collective' .* see earlier frames: nojump\("):
                method.check("mpi", "H5MD", back)
        else:
            replace(method, check_packages=None).check(method.runner or "mpi", "H5MD", back)
    alone = replace(access_method("hdf5-mpio-collective"), check_packages=None)
    alone.check("mpi", "H5MD", traj.with_transform(kn.transforms.superpose(CHOSEN)).core.transforms)
