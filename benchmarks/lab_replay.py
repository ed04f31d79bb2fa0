"""The laboratory's simulation beside programs that sleep, on 1, 2 and 4 processes: ratios of replay to sleeping.

    python benchmarks/lab_replay.py [--seconds 3]

Rows "reads", "writes", "striped", "computing": the same program in virtual time and as processes that wait for the same
queues (`kinema.studies.lab.sleeping`). Row "RMSD": a real analysis through the throttled source of the core, beside the
emulated analysis with the CPU time of a frame that was measured on one process. Goal: within 10 %. It judges nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import kinema as kn
from kinema.cache.node_cache import NodeCache
from kinema.studies.files import MEMORY_FOLDER
from kinema.studies.lab.machine import EmulatedMachine
from kinema.studies.lab.operations import (
    Barrier,
    Compute,
    Metadata,
    Operation,
    RankProgram,
    ReadBytes,
    StoredFile,
    WriteBytes,
)
from kinema.studies.lab.platform import Platform, read_platform
from kinema.studies.lab.programs import AnalysisWork, FrameCost, FrameFile, analysis_program
from kinema.studies.lab.replay import emulate
from kinema.studies.lab.sleeping import sleep_through
from kinema.testing import random_walk, write_dcd

MIB = 1 << 20
PROCESSES = (1, 2, 4)
# of the core's throttle
AHEAD = 100_000_000
# a slow storage, so that a second is long enough: four targets of 20 MiB a second
SLOW = replace(
    read_platform("beegfs"), name="slow", targets=4, stripes=1, stripe_bytes=MIB, request_bytes=MIB, ahead=AHEAD,
    read_rate=20 * MIB, write_rate=20 * MIB, metadata_rate=200, cores=4,
)  # fmt: skip


def reads(seconds: float, stripes: int, milliseconds: int) -> RankProgram:
    """Each process opens a shared file and reads its part, and computes after each read."""
    size = round(seconds * 20) * MIB
    file = StoredFile("shared", 4 * size, stripes)

    def program(rank: int) -> Iterator[Operation]:
        yield Metadata("open", file)
        for offset in range(rank * size, (rank + 1) * size, MIB):
            yield ReadBytes(file, offset, MIB)
            if milliseconds:
                yield Compute(milliseconds * 1_000_000)
        yield Barrier()

    return program


def writes(seconds: float) -> RankProgram:
    """Each process writes its part of a shared file."""
    size = round(seconds * 20) * MIB
    file = StoredFile("written", 4 * size, 4)

    def program(rank: int) -> Iterator[Operation]:
        yield Metadata("create" if rank == 0 else "open", file)
        for offset in range(rank * size, (rank + 1) * size, MIB):
            yield WriteBytes(file, offset, MIB)
        yield Barrier()

    return program


def show(name: str, n: int, replayed: float, slept: float) -> None:
    """One row."""
    print(f"{name:>10} {n:>10} {replayed:>11.3f} {slept:>11.3f} {replayed / slept:>7.3f}", flush=True)


def compare(name: str, program: RankProgram) -> None:
    """A program in virtual time and as processes."""
    for n in PROCESSES:
        # each process has a node, and so a link, of its own
        machine = EmulatedMachine(SLOW, list(range(n)))
        machine.run(program)
        # a disk that is busy with other things takes part in what is measured; memory does not
        with tempfile.TemporaryDirectory(dir=MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None) as folder:
            show(name, n, machine.time.now / 1e9, sleep_through(program, n, SLOW, Path(folder)))


def compare_analysis(seconds: float) -> None:
    """RMSD on processes that read through a throttled source, and its emulation."""
    n_atoms = 20_000
    n_frames = round(seconds * 20 * MIB / (12 * n_atoms))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "walk.dcd"
        write_dcd(path, random_walk(n_frames, n_atoms))
        timings = kn.analysis.RMSD(kn.open(path)).run(runner="serial", progress=False).timings
        cost = FrameCost(
            *(round(timings.totals[phase] * 1e9 / n_frames) for phase in ("decode", "compute")), "measured"
        )
        file = FrameFile(StoredFile("walk.dcd", path.stat().st_size), n_frames)
        for n in PROCESSES:
            # opening fetches blocks here and there; reading finds them in the cache
            cache = NodeCache(Path(folder) / f"cache-{n}", "1 GiB", block="1 MiB", source_rate=20 * MIB)
            trajectory = kn.open(path, node_cache=cache)
            analysis = kn.analysis.RMSD(trajectory)
            found = analysis.run(runner="processes", workers=n, progress=False).timings
            slept = found.wall + sum(found.opening.values()) - max(worker.start for worker in found.workers)
            work = AnalysisWork([file], range(n_frames), cost, schedule="dynamic")
            run = emulate(analysis_program(work, n), n, one_target(), 1)
            show("RMSD", n, run.seconds, slept)


def one_target() -> Platform:
    """The throttled source of the core: one queue, and nothing else."""
    return replace(SLOW, targets=1, request_latency=0, link_latency=0, link_rate=10**12, metadata_rate=10**9)


def main() -> None:
    """Prints all rows."""
    parser = argparse.ArgumentParser(description="replay in virtual time beside programs that sleep")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a program on one process, about")
    seconds = parser.parse_args().seconds
    print(f"{'':>10} {'processes':>10} {'replay (s)':>11} {'sleep (s)':>11} {'ratio':>7}")
    compare("reads", reads(seconds, 1, 0))
    # four targets work at once
    compare("striped", reads(4 * seconds, 4, 0))
    compare("computing", reads(seconds, 1, 100))
    compare("writes", writes(4 * seconds))
    compare_analysis(seconds)


if __name__ == "__main__":
    main()
