"""Finding the frames of unindexed files on all ranks together: each searches some byte ranges, rank 0 joins them.

It stores nothing: rank 0's scan does, as it would alone, with the same index.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kinema import _core
from kinema.runners.mpi.ranks import Ranks, Travelling

__all__ = ["FindFrames", "find_frames", "search"]

# part, first byte, the byte after the last
Range = tuple[int, int, int]

# bytes to search from which on all ranks do: below, rank 0 is done before the others have opened the file
SMALLEST = 64 << 20


@dataclass(frozen=True)
class FindFrames:
    """What all ranks are to do: range number i is that of rank i, in turn."""

    recipe: dict[str, Any]
    ranges: list[Range]


def find_frames(ranks: Ranks, trajectory: _core.Trajectory, smallest: int) -> None:
    """On rank 0: has all ranks search files without an index, where these have `smallest` bytes or more together."""
    if ranks.size == 1 or trajectory.scanned:
        return
    todo = trajectory.unindexed()
    if not todo or sum(stop - start for _, start, stop in todo) < smallest:
        return
    command = FindFrames(trajectory.recipe(), _cut(todo, ranks.size))
    ranks.broadcast(command)
    told = search(ranks, command, trajectory)
    found: dict[int, list[bytes]] = defaultdict(list)
    for number, (part, _, _) in enumerate(command.ranges):
        found[part].append(told[number % ranks.size][number // ranks.size])
    for part, tables in found.items():
        trajectory.add_ranges(part, tables)


def search(ranks: Ranks, command: FindFrames, trajectory: _core.Trajectory | None = None) -> list[list[bytes]]:
    """Searches the ranges of this rank; gives rank 0 those of each rank, or raises there what went wrong on any."""
    found: list[bytes] | Travelling
    try:
        mine = command.ranges[ranks.rank :: ranks.size]
        if trajectory is None and mine:
            trajectory = _core.Trajectory(**command.recipe)
        found = [] if trajectory is None else [trajectory.scan_range(*one) for one in mine]
    except BaseException as error:
        # also of rank 0: the others wait for it here
        found = Travelling.of(error, ranks.rank)
        if ranks.leads:
            ranks.comm.gather(found, 0)
            raise
    told = ranks.comm.gather(found, 0) or []
    for one in told:
        if isinstance(one, Travelling):
            raise one.arrived()
    return told


def _cut(todo: Sequence[Range], n_ranks: int) -> list[Range]:
    """Ranges of about one rank's share: of large files several, of small ones all of it."""
    share = max(1, -(-sum(stop - start for _, start, stop in todo) // n_ranks))
    ranges = []
    for part, start, stop in todo:
        pieces = max(1, round((stop - start) / share))
        borders = [start + (stop - start) * i // pieces for i in range(pieces + 1)]
        ranges += [(part, borders[i], borders[i + 1]) for i in range(pieces)]
    return ranges
