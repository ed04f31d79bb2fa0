"""Replay: a program runs in virtual time, and its times become a report that is marked "emulated".

The same program on the same platform gives the same report to the bit. Times are seconds of the emulated cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema._core import __version__
from kinema.base.timings import BLOCK_COLUMNS, PHASES, PassTimings, Timings, WorkerTimings
from kinema.report import Report
from kinema.report.places import Places
from kinema.report.stragglers import find_stragglers
from kinema.studies.lab.machine import EmulatedMachine, RankTimes, place_ranks
from kinema.studies.lab.operations import RankProgram
from kinema.studies.lab.platform import Platform

_SECOND = 1e9


@dataclass(frozen=True, eq=False)
class EmulatedRun:
    """Times of all ranks of a run in virtual time.

    `seconds`: from the start to the end of the last rank.
    """

    platform: Platform
    n_nodes: int
    ranks: Sequence[RankTimes]
    seconds: float

    def mean(self, *phases: str) -> float:
        """Seconds in these phases, the mean over ranks."""
        return sum(rank.phases[phase] for rank in self.ranks for phase in phases) / _SECOND / len(self.ranks)

    def largest(self, *phases: str) -> float:
        """Seconds in these phases, of the rank with most."""
        return max(sum(rank.phases[phase] for phase in phases) for rank in self.ranks) / _SECOND

    @property
    def timings(self) -> Timings:
        """The times as those of a measured run."""
        workers = tuple(self._worker(rank) for rank in self.ranks)
        rows = [
            [rank.rank, position, frames, *(ns / _SECOND for ns in times)]
            for rank in self.ranks
            for position, frames, *times in rank.blocks
        ]
        blocks = np.array(rows, dtype=np.float64).reshape(-1, len(BLOCK_COLUMNS))
        frames = sum(rank.frames for rank in self.ranks)
        return Timings((PassTimings(self.seconds, frames, workers, blocks),), self.seconds, runner="mpi")

    def _worker(self, rank: RankTimes) -> WorkerTimings:
        """Times of a rank; it waits for the others at the end."""
        end = max(one.end for one in self.ranks)
        ns = {phase: rank.phases[phase] for phase in (*PHASES, "put", "gather")}
        ns["wait"] += end - rank.end
        seconds: dict[str, Any] = {phase: time / _SECOND for phase, time in ns.items()}
        return WorkerTimings(
            worker=rank.rank, total=end / _SECOND, cpu=(ns["decode"] + ns["compute"]) / _SECOND, frames=rank.frames,
            blocks=len(rank.blocks), bytes_read=rank.bytes_read, reads=rank.reads,
            node=f"node {rank.node}" if self.n_nodes > 1 else "",
            **seconds,
        )  # fmt: skip


def emulate(program: RankProgram, n_ranks: int, platform: Platform, n_nodes: int | None = None) -> EmulatedRun:
    """Runs a program on ranks in virtual time; by default on as few nodes as have a core for each rank.

    Raises ArgumentError for more nodes than ranks, and for programs that cannot end.
    """
    n_nodes = -(-n_ranks // platform.cores) if n_nodes is None else n_nodes
    machine = EmulatedMachine(platform, place_ranks(n_ranks, n_nodes))
    ranks = machine.run(program)
    return EmulatedRun(platform, n_nodes, ranks, max(rank.end for rank in ranks) / _SECOND)


def emulated_report(
    run: EmulatedRun,
    *,
    analyses: Sequence[str],
    n_atoms: int,
    described: Mapping[str, Any],
    extra: Mapping[str, Any],
    places: Places | None = None,
) -> Report:
    """The report of an emulated run.

    Parameters
    ----------
    analyses, n_atoms : names, and number of atoms that they use
    described : what `Report.input` has
    extra : as in `Report`; the platform's name is added
    places : where the frames lie, for stragglers
    """
    platform, timings = run.platform, run.timings
    emulated = {**platform.as_dict(), "nodes": run.n_nodes}
    return Report(
        machine={"host": f"the platform {platform.name}", "kinema": __version__, "cores": platform.cores},
        input=described,
        run={
            "analyses": list(analyses), "atoms": n_atoms, "command": "", "runner": "mpi", "access": "direct",
            "plan": "", "node_cache": None, "emulated": emulated,
        },
        timings=timings,
        stragglers=find_stragglers(timings.passes, places),
        slow_files=(),
        advice=(),
        extra={**extra, "lab": platform.name},
    )  # fmt: skip
