"""The parallel scan of files without an index: each rank searches some byte ranges for frames, rank 0 joins them.

The index is stored by rank 0's scan, and is the same as without other ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kinema import _core
from kinema.cache.counts import add_counts, take_counts
from kinema.runners.mpi.communicator import Ranks, RemoteError, answer_until, sleep_between

# part, first byte, the byte after the last
Range = tuple[int, int, int]

# least bytes that all ranks search: with fewer, rank 0 finishes before the others have opened the file
SMALLEST = 64 << 20


@dataclass(frozen=True)
class FindFrames:
    """Message of rank 0: search these byte ranges, which belong to ranks 0, 1, ... in turn."""

    recipe: dict[str, Any]
    ranges: list[Range]


def find_frames(ranks: Ranks, trajectory: _core.Trajectory, smallest: int) -> None:
    """On rank 0: lets all ranks search files without an index, if these have `smallest` bytes or more in total."""
    if ranks.size == 1 or trajectory.scanned:
        return
    todo = trajectory.unindexed()
    if not todo or sum(stop - start for _, start, stop in todo) < smallest:
        return
    command = FindFrames(trajectory.recipe(), _cut(todo, ranks.size))
    ranks.broadcast(command)
    gathered = search(ranks, command, trajectory)
    tables_of: dict[int, list[bytes]] = defaultdict(list)
    for number, (part, _, _) in enumerate(command.ranges):
        tables_of[part].append(gathered[number % ranks.size][number // ranks.size])
    for part, tables in tables_of.items():
        trajectory.add_scanned_ranges(part, tables)


def search(ranks: Ranks, command: FindFrames, trajectory: _core.Trajectory | None = None) -> list[list[bytes]]:
    """Searches the ranges of this rank; rank 0 gets the tables of each rank, or raises the error of any rank."""
    tables: list[bytes] | RemoteError
    try:
        mine = command.ranges[ranks.rank :: ranks.size]
        if trajectory is None and mine:
            trajectory = _core.Trajectory(**command.recipe)
        tables = [] if trajectory is None else [trajectory.scan_range(*one) for one in mine]
    except BaseException as error:
        # rank 0 as well: the others wait for it in gather
        tables = RemoteError.wrap(error, ranks.rank)
        if ranks.is_root:
            _join_gathering(ranks, error, tables)
            raise
    ranks.arrive()
    gathered = ranks.comm.gather((tables, take_counts()), 0) or []
    found = []
    for one, counts in gathered:
        add_counts(counts)
        if isinstance(one, RemoteError):
            raise one.unwrap()
        found.append(one)
    return found


def _join_gathering(ranks: Ranks, error: BaseException, tables: RemoteError) -> None:
    """Rank 0, which has failed, joins the gather that the others wait for; after a signal, if they arrive in time."""
    if sleep_between(ranks.comm.Ibarrier(), answer_until(error)):
        ranks.comm.gather((tables, None), 0)
    else:
        ranks.silent = set()


def _cut(todo: Sequence[Range], n_ranks: int) -> list[Range]:
    """Byte ranges of about one rank's share: several for a large file, one for a small file."""
    share = max(1, -(-sum(stop - start for _, start, stop in todo) // n_ranks))
    ranges = []
    for part, start, stop in todo:
        pieces = max(1, round((stop - start) / share))
        borders = [start + (stop - start) * i // pieces for i in range(pieces + 1)]
        ranges += [(part, borders[i], borders[i + 1]) for i in range(pieces)]
    return ranges
