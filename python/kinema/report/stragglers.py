"""Workers and files that are slower than the others: who, how much, in which phase, from which bytes.

A straggler takes 1.5 times the median of the others or more (the publications' own are about twice as slow). The
reasons are those that the timings show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.timings import PassTimings, WorkerTimings, block_column
from kinema.report.places import Place, Places

__all__ = ["PHASE_NAMES", "THRESHOLD", "SlowFile", "Straggler", "find_slow_files", "find_stragglers"]

#: times the median of the others
THRESHOLD = 1.5
# share of the pass's wall time; less is not worth a line
_WORTH = 0.05
# seconds; smaller differences are chance
_JUDGED = 0.01
_PLACES = 3

PHASE_NAMES: Mapping[str, str] = {
    "start": "starting",
    "plan": "planning",
    "open": "opening files",
    "io": "I/O",
    "decode": "decoding",
    "compute": "computing",
    "communicate": "communication",
    "close": "closing files",
    "wait": "waiting",
    "unaccounted": "unaccounted for",
    "frames": "number of frames",
}
_PER_FRAME = ("open", "io", "decode", "compute")
_ONCE = ("start", "plan", "communicate", "close")
# column of blocks that holds a phase; a block's I/O contains opening
_COLUMNS = {"open": "io", "io": "io", "decode": "decode", "compute": "compute"}


@dataclass(frozen=True)
class Straggler:
    """A worker of a pass that is slower than the others.

    Attributes
    ----------
    round, worker, node : who
    times : how many times the median of the others, of seconds a frame; for phases that do not depend on frames, and
        for "frames", of seconds in all; None where the others took no time
    phase : in which most of the loss is, a key of `PHASE_NAMES`; "frames": it is as fast as others and had more to do
    seconds, usual : what the phase took, and would have with the others' median
    slow_blocks, blocks : how many of its blocks took 1.5 times the others' median or more in that phase
    places : the slowest of them
    """

    round: int
    worker: int
    node: str
    times: float | None
    phase: str
    seconds: float
    usual: float
    slow_blocks: int = 0
    blocks: int = 0
    places: tuple[Place, ...] = ()

    def __str__(self) -> str:
        who = f"worker {self.worker}" + (f" on {self.node}" if self.node else "")
        if self.times is None:
            return f"{who}: {self.seconds:.3f} s in {PHASE_NAMES[self.phase]}, where the others (median) took no time"
        if self.phase == "frames":
            return f"{who}: {self.times:.1f} times the work of the others (median), at the same speed"
        text = (
            f"{who}: {self.times:.1f} times as slow as the others (median), in {PHASE_NAMES[self.phase]}: "
            f"{self.seconds:.3f} s instead of {self.usual:.3f} s"
        )
        if not self.slow_blocks:
            return text
        return f"{text}; {self.slow_blocks} of its {self.blocks} blocks, slowest: " + "; ".join(map(str, self.places))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class SlowFile:
    """A file whose frames take longer than other files': `times` the median, `seconds` more in all."""

    path: str
    phase: str
    times: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.path}: {PHASE_NAMES[self.phase]} takes {self.times:.1f} times as long a frame as in the other "
            f"files (median), {self.seconds:.3f} s more"
        )


def find_stragglers(passes: Sequence[PassTimings], places: Places | None = None) -> tuple[Straggler, ...]:
    """All stragglers, worst first; `places` locates slow blocks."""
    found = [
        straggler
        for number, one in enumerate(passes)
        for worker in one.workers
        if (straggler := _judge(number, one, worker, places)) is not None
    ]
    return tuple(sorted(found, key=lambda one: -(one.seconds - one.usual)))


def _judge(number: int, one: PassTimings, worker: WorkerTimings, places: Places | None) -> Straggler | None:
    others = [other for other in one.workers if other.worker != worker.worker]
    if not others or worker.busy <= 0:
        return None
    usual = _usual(worker, others)
    # if a worker has several threads, their seconds are summed
    worth = max(_WORTH * worker.total, _JUDGED)
    lost = {name: getattr(worker, name) - usual[name] for name in (*_PER_FRAME, *_ONCE)}
    rate, usual_rate = sum(getattr(worker, phase) for phase in _PER_FRAME), sum(usual[phase] for phase in _PER_FRAME)
    slow = [name for name in _ONCE if getattr(worker, name) >= THRESHOLD * usual[name] and lost[name] >= worth]
    if rate >= THRESHOLD * usual_rate > 0 and rate - usual_rate >= worth:
        slow.append(max(_PER_FRAME, key=lambda name: lost[name]))
    if slow:
        # if the worker is slow in several phases, the phase that costs most
        phase = max(slow, key=lambda name: lost[name])
        seconds, expected = getattr(worker, phase), usual[phase]
        if phase in _ONCE:
            times = seconds / expected if expected > 0 else None
            return Straggler(number, worker.worker, worker.node, times, phase, seconds, expected)
        made = Straggler(number, worker.worker, worker.node, rate / usual_rate, phase, seconds, expected)
        return made if places is None else _located(made, one, places)
    busy = median(other.busy for other in others)
    if busy > 0 and worker.busy >= THRESHOLD * busy and worker.busy - busy >= worth:
        return Straggler(number, worker.worker, worker.node, worker.busy / busy, "frames", worker.busy, busy)
    return None


def _usual(worker: WorkerTimings, others: Sequence[WorkerTimings]) -> dict[str, float]:
    """The time that each phase would have taken at the median speed of the other workers."""
    usual = {name: float(median(getattr(other, name) for other in others)) for name in _ONCE}
    working = [other for other in others if other.frames]
    for name in _PER_FRAME:
        rate = median(getattr(other, name) / other.frames for other in working) if working else 0.0
        usual[name] = float(rate * worker.frames)
    return usual


def _located(made: Straggler, one: PassTimings, places: Places) -> Straggler:
    """The straggler, with its slow blocks."""
    own = block_column(one.blocks, "worker") == made.worker
    frames = block_column(one.blocks, "frames")
    cost = block_column(one.blocks, _COLUMNS[made.phase]) / np.maximum(frames, 1)
    if not own.any() or own.all():
        return made
    usual = float(np.median(cost[~own]))
    slow = np.flatnonzero(own & (cost >= THRESHOLD * usual) & (cost > 0))
    if not len(slow):
        return made
    worst = slow[np.argsort(-cost[slow], kind="stable")][:_PLACES]
    positions = block_column(one.blocks, "position")
    located = tuple(
        places.place(int(positions[at]), int(frames[at]), float(cost[at] / usual) if usual > 0 else None)
        for at in worst
    )
    return replace(made, slow_blocks=len(slow), blocks=int(own.sum()), places=located)


def find_slow_files(passes: Sequence[PassTimings], places: Places) -> tuple[SlowFile, ...]:
    """Files of a trajectory of several whose frames take longer to read or decode, worst first.

    With dynamic hand-out a slow file need not make a worker slow: each gets some of it.
    """
    found = []
    for one in passes:
        parts = places.parts(block_column(one.blocks, "position").astype(np.int64))
        total = sum(worker.total for worker in one.workers)
        for phase in ("io", "decode"):
            seconds = _sum_by_file(parts, block_column(one.blocks, phase))
            frames = _sum_by_file(parts, block_column(one.blocks, "frames"))
            rate = {part: seconds[part] / frames[part] for part in seconds if frames[part]}
            for part, own in rate.items():
                others = [other for number, other in rate.items() if number != part]
                usual = median(others) if others else own
                more = (own - usual) * frames[part]
                if usual > 0 and own >= THRESHOLD * usual and more >= _WORTH * total:
                    found.append(SlowFile(places.paths[part], phase, own / usual, more))
    return tuple(sorted(found, key=lambda one: -one.seconds))


def _sum_by_file(parts: NDArray[np.int64], values: NDArray[np.float64]) -> dict[int, float]:
    return {int(part): float(values[parts == part].sum()) for part in np.unique(parts)}
