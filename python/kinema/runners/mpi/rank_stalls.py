"""`RankStalls`: rank 0 notes other ranks that make no progress in a pass, as rank, process, leaves and frames."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from kinema.notes import emit
from kinema.runners.mpi.communicator import Ranks
from kinema.runners.mpi.passes import FramesDone
from kinema.runners.reduction import Leaves
from kinema.runners.stalls import Stall

__all__ = ["RankStalls"]

# seconds between two polls that count at most: this rank may have been stopped or at work itself
_LONGEST_POLL = 1.0


class RankStalls:
    """What ranks have reported last in a pass, and when.

    Parameters
    ----------
    ranks : Ranks
    describe : function
        Words for leaves.
    """

    def __init__(self, ranks: Ranks, describe: Callable[[Leaves], str]) -> None:
        self._node = ranks.name
        self._describe = describe
        self._stalls = [Stall() for _ in range(ranks.size)]
        self._last: dict[int, FramesDone] = {}
        self._polled = time.monotonic()

    def take(self, rank: int, report: FramesDone) -> None:
        """Takes a report; one of the same frames of the same piece is no progress."""
        if report != self._last.get(rank):
            self._last[rank] = report
            self.progressed(rank)

    def progressed(self, rank: int) -> None:
        """The rank has sent something else."""
        self._stalls[rank].progressed()

    def poll(self, at_work: Iterable[int]) -> None:
        """Notes ranks at work that have made no progress for long, each once until it makes some again."""
        now = time.monotonic()
        seconds, self._polled = min(now - self._polled, _LONGEST_POLL), now
        for rank in sorted(at_work):
            stall, report = self._stalls[rank], self._last.get(rank)
            # processes of other machines cannot be looked at
            pid = report.pid if report is not None and report.node == self._node else None
            if not stall.is_due(seconds, pid):
                continue
            who, doing = f"rank {rank}", "before it had work"
            if report is not None:
                who += f" (process {report.pid} on {report.node})"
                doing = f"while it had {self._describe(report.piece)}"
            emit([f"{who} has made no progress for {stall.seconds:.0f} s {doing}; {stall.reason(pid)}"])
            stall.noted()
