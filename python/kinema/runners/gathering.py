"""Where the nodes of a round come together: the merge tree, what is done already, and what is still to be run.

It runs nothing and saves nothing; runners fill the tree, and say now and then that there may be something to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kinema import _core
from kinema.errors import InternalError
from kinema.progress import Report

__all__ = ["Gathering", "Leaves", "PackedNode", "PieceLimit", "frames_in", "in_words", "insert_nodes", "pack_nodes"]

# of a piece of work: its first leaf, and the first that is not part of it
Leaves = tuple[int, int]

# level and index in the merge tree, and a partial of each job as bytes
PackedNode = tuple[int, int, list[bytes]]

# of any tree: leaves are counted in 64 bits
_LEVELS = 63


@dataclass(frozen=True)
class PieceLimit:
    """How much a worker may gather before it hands it over: what it holds is lost when it is killed."""

    seconds: float
    bytes: int


class Gathering:
    """The tree of a round.

    Parameters
    ----------
    plan : Plan
    kernels : list of Kernel
        One of each job.
    done : list of (level, index, partials as bytes)
        What was gathered earlier; ValueError of Kinema's where the bytes are not those of the kernels.
    rows : function, optional
        Called with (first leaf, results of each job) for every node as it comes in, from any thread; the tree does not
        keep what is handed out so.
    look : function, optional
        Called with the tree about ten times a second by the thread that has called the runner.
    limit : PieceLimit, optional
        For runners whose workers hand over more than a leaf at a time.

    Attributes
    ----------
    tree : MergeTree
        `tree.insert(level, index, partials)` takes in a node, in any order.
    missing : list of (start, stop)
        The leaves that are to be run.
    n_frames, restored : int
        Frames of the round, and those that were done earlier.
    """

    def __init__(
        self,
        plan: _core.Plan,
        kernels: Sequence[_core.Kernel],
        *,
        done: Sequence[tuple[int, int, Sequence[bytes]]] = (),
        rows: Callable[[int, list[_core.Found]], None] | None = None,
        look: Callable[[_core.MergeTree], None] | None = None,
        limit: PieceLimit | None = None,
    ) -> None:
        self.tree = _core.MergeTree(plan.n_leaves, kernels, rows)
        self.limit = limit
        self.n_frames = plan.n_frames
        self.missing = _missing_leaves(plan.n_leaves, [(level, index) for level, index, _ in done])
        self.restored = plan.n_frames - sum(frames_in(plan, leaves) for leaves in self.missing)
        self._look = look
        for level, index, packed in done:
            self.tree.restore(level, index, _unpacked(kernels, packed))

    def look(self) -> None:
        """To be called about ten times a second, by the thread that has called the runner."""
        if self._look is not None:
            self._look(self.tree)

    def report(self, progress: Report | None) -> Report | None:
        """What is to be told how many of the missing frames are done: it looks, and passes all that are done on."""
        if progress is None and self._look is None:
            return None

        def reported(done: int, _total: int) -> None:
            self.look()
            if progress is not None:
                progress(self.restored + done, self.n_frames)

        return reported

    def partials(self) -> list[_core.Partial]:
        """The partials of all leaves, one of each kernel; the tree is used up."""
        nodes = self.tree.take_nodes()
        if len(nodes) != 1:
            raise InternalError(f"the leaves did not merge into one root, found {len(nodes)} nodes")
        return nodes[0][2]


def in_words(leaves: Leaves) -> str:
    """As in "leaves 0 to 7"."""
    return f"leaves {leaves[0]} to {leaves[1] - 1}"


def frames_in(plan: _core.Plan, leaves: Leaves) -> int:
    """How many frames they have."""
    start, stop = leaves
    return plan.leaf(stop - 1)[1] - plan.leaf(start)[0]


def pack_nodes(nodes: Sequence[_core.Node]) -> list[PackedNode]:
    """Nodes as they travel; their partials stay as they are."""
    return [(level, index, [partial.to_bytes() for partial in partials]) for level, index, partials in nodes]


def insert_nodes(tree: _core.MergeTree, kernels: Sequence[_core.Kernel], nodes: Iterable[PackedNode]) -> int:
    """Puts nodes that came as bytes into a tree; gives their size in bytes. ValueError for those of other kernels."""
    size = 0
    for level, index, packed in nodes:
        tree.insert(level, index, _unpacked(kernels, packed))
        size += sum(map(len, packed))
    return size


def _unpacked(kernels: Sequence[_core.Kernel], packed: Sequence[bytes]) -> list[_core.Partial]:
    return [kernel.from_bytes(data) for kernel, data in zip(kernels, packed, strict=True)]


def _missing_leaves(n_leaves: int, nodes: Sequence[tuple[int, int]]) -> list[Leaves]:
    """The leaves that no node (level, index) covers, as ranges; ValueError for nodes that overlap or are not there."""
    found: list[Leaves] = []
    at = 0
    if any(level > _LEVELS or index > n_leaves for level, index in nodes):
        raise ValueError(f"a node is not one of a tree of {n_leaves} leaves")
    for start, level in sorted((index << level, level) for level, index in nodes):
        if start < at or start >= n_leaves:
            raise ValueError(f"leaf {start} is twice there, or not one of {n_leaves}")
        if start > at:
            found.append((at, start))
        at = min(start + (1 << level), n_leaves)
    if at < n_leaves:
        found.append((at, n_leaves))
    return found
