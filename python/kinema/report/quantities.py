"""The quantities of the publications on parallel MDAnalysis, by their names, from the timings of a run.

Source: Khoshlessan et al., Concurrency Computat. Pract. Exper. 32, e5789 (2020), and Jakupovic and Beckstein, Proc.
20th Python in Science Conf. (2021). There t_IO contains decompression, so R_comp/IO is compute / (I/O + decode). It is
defined for a run with one worker, and is an estimate otherwise. This module gives no advice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kinema.base.timings import Timings, WorkerTimings

__all__ = ["Quantities", "quantities_of"]


@dataclass(frozen=True)
class Quantities:
    """Seconds; means over workers unless stated.

    Attributes
    ----------
    t_opening_topology : in the one process that reads it
    t_opening_trajectory : headers and finding frames, once, and the time that a worker needs to start
    t_IO : reading bytes and decoding them, as in the publications; `t_read` and `t_decode` separately
    t_comp : kernels and transforms
    t_end_loop : closing files
    t_wait : for a core, for work, and for others at the end
    t_comm : in messages, without waiting; `t_comm_with_wait` with it, as in the publication of 2020
    t_unaccounted : time that no clock measured
    t_rounds, t_total : wall time of the passes, and of the whole run with opening
    R_comp_IO : t_comp / t_IO; None if nothing was read. `R_comp_IO_is_estimate`: more than one worker ran
    R_comp_comm, R_comp_comm_with_wait : None if nothing was sent
    """

    t_opening_topology: float
    t_opening_trajectory: float
    t_IO: float  # noqa: N815 - the publications' name
    t_read: float
    t_decode: float
    t_comp: float
    t_end_loop: float
    t_wait: float
    t_comm: float
    t_comm_with_wait: float
    t_unaccounted: float
    t_rounds: float
    t_total: float
    R_comp_IO: float | None
    R_comp_IO_is_estimate: bool
    R_comp_comm: float | None
    R_comp_comm_with_wait: float | None

    def as_dict(self) -> dict[str, Any]:
        """By name."""
        return asdict(self)


def quantities_of(timings: Timings) -> Quantities:
    """The quantities of a run, summed over passes. All are 0 or None if nothing ran."""
    totals = timings.totals
    n_workers = max(1, timings.n_workers)
    mean = {phase: seconds / n_workers for phase, seconds in totals.items()}
    opening = timings.opening
    reading = mean["io"] + mean["decode"]
    comm = mean["communicate"]
    once = opening.get("trajectory", 0.0) + opening.get("frames", 0.0)
    # if the time of the whole is not known, it is at least the time of the passes
    total = max(timings.whole, timings.wall) + sum(opening.values())
    return Quantities(
        t_opening_topology=opening.get("topology", 0.0),
        t_opening_trajectory=once + mean["start"] + mean["open"],
        t_IO=reading,
        t_read=mean["io"],
        t_decode=mean["decode"],
        t_comp=mean["compute"],
        t_end_loop=mean["close"],
        t_wait=mean["wait"],
        t_comm=comm,
        t_comm_with_wait=comm + mean["wait"],
        t_unaccounted=mean["unaccounted"],
        t_rounds=timings.wall,
        t_total=total,
        R_comp_IO=_ratio(mean["compute"], reading),
        R_comp_IO_is_estimate=any(
            len(one.workers) != 1 or _threads(one.wall, one.workers) > 1 for one in timings.passes
        ),
        R_comp_comm=_ratio(mean["compute"], comm),
        R_comp_comm_with_wait=None if comm <= 0 else _ratio(mean["compute"], comm + mean["wait"]),
    )


def _threads(wall: float, workers: Sequence[WorkerTimings]) -> int:
    """Threads of a worker; their seconds add up."""
    return round(workers[0].total / wall) if workers and wall > 0 else 1


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None
