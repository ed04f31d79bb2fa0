"""The quantities of the publications on parallel MDAnalysis, with one meaning for all runners, from a run's timings.

Source: Khoshlessan et al., Concurrency Computat. Pract. Exper. 32, e5789 (2020), and Jakupovic and Beckstein, Proc.
20th Python in Science Conf. (2021). There t_IO contains decompression, so R_comp/IO is compute / (I/O + decode). It is
defined for a run with one worker, and is an estimate otherwise. This module gives no advice.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.choices import PARTS, QUANTITIES, check_choice
from kinema.base.timings import PHASES, UNACCOUNTED, Timings

__all__ = ["PARTS", "QUANTITIES", "RENAMED", "Quantities", "checked_quantity", "quantities_of", "rank_quantities"]

#: former names
RENAMED = {
    "t_comp": "t_compute",
    "t_comm": "t_communication",
    "t_comm_with_wait": "t_communication_with_wait",
    "t_opening_topology": "t_open_topology",
    "t_opening_trajectory": "t_open_trajectory",
    "t_rounds": "t_total",
}
_COUNTED = (*PHASES, "put", "get", "gather", UNACCOUNTED, "total")


@dataclass(frozen=True)
class Quantities:
    """Seconds; means over workers, except t_total.

    Attributes
    ----------
    t_total : of the slowest worker, from opening to gathered results; the sum of the parts from t_open to t_unaccounted
    t_start : until a worker could begin: interpreters and imports of processes, communicators of ranks, Dask's cluster;
        no part of t_total
    t_open : opening; once in the leading process, which all workers wait for, and in each worker; parts:
        `t_open_topology`, and `t_open_trajectory` (headers, finding frames, opening files)
    t_plan : planning, in the leading process, which all workers wait for, and in each worker
    t_IO : reading bytes and decoding them, as in the publications; of it `t_read` and `t_decode`
    t_compute : kernels and transforms
    t_wait : for a core, for work, and for others at the end
    t_communication : in messages, without waiting; of it `t_put` and `t_get` in one-sided ones, `t_gather` for
        collecting results, the rest for handing out work. `t_communication_with_wait` with waiting, as in the
        publication of 2020
    t_end_loop : closing files
    t_unaccounted : time that no clock measured
    R_comp_IO : t_compute / t_IO; None if nothing was read. `R_comp_IO_is_estimate`: more than one worker ran
    R_comp_comm, R_comp_comm_with_wait : None if nothing was sent
    """

    t_total: float
    t_start: float
    t_open: float
    t_open_topology: float
    t_open_trajectory: float
    t_plan: float
    t_IO: float  # noqa: N815 - the publications' name
    t_read: float
    t_decode: float
    t_compute: float
    t_wait: float
    t_communication: float
    t_put: float
    t_get: float
    t_gather: float
    t_communication_with_wait: float
    t_end_loop: float
    t_unaccounted: float
    R_comp_IO: float | None
    R_comp_IO_is_estimate: bool
    R_comp_comm: float | None
    R_comp_comm_with_wait: float | None

    def as_dict(self) -> dict[str, Any]:
        """By name."""
        return asdict(self)

    def __getattr__(self, name: str) -> Any:
        """Former names, with a DeprecationWarning."""
        if name not in RENAMED:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)
        warnings.warn(_renamed(name), DeprecationWarning, stacklevel=2)
        return getattr(self, RENAMED[name])


def _renamed(name: str) -> str:
    return f"{name} is {RENAMED[name]} now; the old name goes with the next release"


def checked_quantity(name: str) -> str:
    """The name, if it is one of QUANTITIES, else ArgumentError; a former name is replaced, with a
    DeprecationWarning for the caller's caller."""
    if name in RENAMED and RENAMED[name] in QUANTITIES:
        warnings.warn(_renamed(name), DeprecationWarning, stacklevel=3)
        return RENAMED[name]
    check_choice("quantity", name, QUANTITIES)
    return name


def rank_quantities(timings: Timings) -> Mapping[str, NDArray[np.float64]]:
    """Seconds of each worker, by QUANTITIES: arrays (workers,), in the order of the workers' numbers.

    They are sums over passes. Seconds of a worker with several threads are means over its threads. Opening and planning
    of the leading process count for each worker, because all of them wait for it.
    """
    numbers = sorted({worker.worker for worker in timings.workers})
    place = {number: at for at, number in enumerate(numbers)}
    sums = {name: np.zeros(len(numbers)) for name in _COUNTED}
    for worker in timings.workers:
        for name, values in sums.items():
            values[place[worker.worker]] += getattr(worker, name) / worker.threads
    topology = timings.opening.get("topology", 0.0)
    trajectory = sum(timings.opening.values()) - topology
    found = {
        "t_start": timings.start + sums["start"],
        "t_open": topology + trajectory + sums["open"],
        "t_plan": timings.plan + sums["plan"],
        "t_IO": sums["io"] + sums["decode"],
        "t_compute": sums["compute"],
        "t_wait": sums["wait"],
        "t_communication": sums["communicate"],
        "t_end_loop": sums["close"],
        "t_unaccounted": sums[UNACCOUNTED],
        "t_total": topology + trajectory + timings.plan + sums["total"] - sums["start"],
        "t_open_topology": topology + np.zeros(len(numbers)),
        "t_open_trajectory": trajectory + sums["open"],
        "t_read": sums["io"],
        "t_decode": sums["decode"],
        "t_put": sums["put"],
        "t_get": sums["get"],
        "t_gather": sums["gather"],
    }
    return {name: found[name] for name in QUANTITIES}


def quantities_of(timings: Timings) -> Quantities:
    """The quantities of a run, summed over passes. Times of workers are 0 and ratios None if nothing ran."""
    ranks = rank_quantities(timings)
    if timings.workers:
        mean = {name: float(values.mean()) for name, values in ranks.items()}
        mean["t_total"] = float(ranks["t_total"].max())
    else:
        mean = dict.fromkeys(QUANTITIES, 0.0)
    compute, comm, wait = mean["t_compute"], mean["t_communication"], mean["t_wait"]
    return Quantities(
        **mean,
        t_communication_with_wait=comm + wait,
        R_comp_IO=_ratio(compute, mean["t_IO"]),
        R_comp_IO_is_estimate=any(len(one.workers) != 1 or one.workers[0].threads > 1 for one in timings.passes),
        R_comp_comm=_ratio(compute, comm),
        R_comp_comm_with_wait=None if comm <= 0 else _ratio(compute, comm + wait),
    )


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None
