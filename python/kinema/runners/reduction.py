"""`Reduction`: the merge tree of a pass, the leaves that it lacks, and the hook that saves it.

Runners insert nodes and call `poll` about ten times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kinema import _core
from kinema.base.errors import InternalError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.progress import Report
from kinema.model.selection.frames import FrameSelection

# a piece of work: its first leaf, and the first leaf after it
Leaves = tuple[int, int]

# level and index in the merge tree, and a partial of each job as bytes
SerializedNode = tuple[int, int, list[bytes]]

# highest level of any tree: leaves are counted in 64 bits
_LEVELS = 63


@dataclass(frozen=True)
class PieceLimit:
    """Limits on the work that a worker may do before it sends its nodes: a killed worker loses them."""

    seconds: float
    bytes: int


class Reduction:
    """The merge tree of a pass.

    Parameters
    ----------
    plan : Plan
    kernels : list of Kernel
        The kernel of each job.
    done : list of (level, index, partials as bytes)
        Nodes of an earlier run; raises ValueError if the bytes are not partials of the kernels.
    rows : function, optional
        Called with (first leaf, results of each job) for every inserted node, from any thread; the tree then does not
        hold these results.
    poll : function, optional
        Called with the tree about ten times a second by the thread that has called the runner.
    limit : PieceLimit, optional
        For runners whose workers send more than a leaf at a time.

    Attributes
    ----------
    tree : MergeTree
        `tree.insert_all(nodes)` inserts the nodes (level, index, partials) of a piece of work, in any order.
    missing : list of (start, stop)
        Leaves still to be run.
    n_frames, restored : int
        Frames of the pass, and frames covered by nodes of an earlier run.
    """

    def __init__(
        self,
        plan: _core.Plan,
        kernels: Sequence[_core.Kernel],
        *,
        done: Sequence[tuple[int, int, Sequence[bytes]]] = (),
        rows: Callable[[int, list[_core.KernelResults]], None] | None = None,
        poll: Callable[[_core.MergeTree], None] | None = None,
        limit: PieceLimit | None = None,
    ) -> None:
        self.tree = _core.MergeTree(plan.n_leaves, kernels, rows, plan.memory)
        self.limit = limit
        self.n_frames = plan.n_frames
        self.missing = _missing_leaves(plan.n_leaves, [(level, index) for level, index, _ in done])
        self.restored = plan.n_frames - sum(frames_in(plan, leaves) for leaves in self.missing)
        self._poll = poll
        for level, index, serialized in done:
            self.tree.restore(level, index, _deserialized(kernels, serialized))

    def poll(self) -> None:
        """Must be called about ten times a second, by the thread that has called the runner."""
        if self._poll is not None:
            self._poll(self.tree)

    def report(self, progress: Report | None) -> Report | None:
        """Returns a progress function: called with the number of missing frames done, it polls, and reports all frames
        done."""
        if progress is None and self._poll is None:
            return None

        def reported(done: int, _total: int) -> None:
            self.poll()
            if progress is not None:
                progress(self.restored + done, self.n_frames)

        return reported

    def partials(self) -> list[_core.Partial]:
        """The merged partials of all leaves, one for each kernel; consumes the tree."""
        nodes = self.tree.take_nodes()
        if len(nodes) != 1:
            raise InternalError(f"the leaves did not merge into one root, found {len(nodes)} nodes")
        return nodes[0][2]


def describe_leaves(leaves: Leaves) -> str:
    """As in "leaves 0 to 7"."""
    return f"leaves {leaves[0]} to {leaves[1] - 1}"


def describe_piece(plan: _core.Plan, frames: FrameSelection, leaves: Leaves) -> str:
    """As in "leaves 0 to 7 (frames 100 to 227)", with numbers of the trajectory."""
    first, last = (frames[number] for number in (plan.leaf(leaves[0])[0], plan.leaf(leaves[1] - 1)[1] - 1))
    return f"{describe_leaves(leaves)} (frames {first} to {last})"


def frames_in(plan: _core.Plan, leaves: Leaves) -> int:
    """Number of frames in these leaves."""
    start, stop = leaves
    return plan.leaf(stop - 1)[1] - plan.leaf(start)[0]


def serialize_nodes(nodes: Sequence[_core.Node]) -> list[SerializedNode]:
    """Nodes with their partials as bytes; the nodes are left as they are."""
    return [(level, index, [partial.to_bytes() for partial in partials]) for level, index, partials in nodes]


def insert_nodes(tree: _core.MergeTree, kernels: Sequence[_core.Kernel], nodes: Iterable[SerializedNode]) -> int:
    """Inserts the serialized nodes of a piece of work; returns their size. Raises ValueError for other kernels."""
    size = 0
    made: list[_core.Node] = []
    for level, index, serialized in nodes:
        made.append((level, index, _deserialized(kernels, serialized)))
        size += sum(map(len, serialized))
    tree.insert_all(made)
    return size


def _deserialized(kernels: Sequence[_core.Kernel], serialized: Sequence[bytes]) -> list[_core.Partial]:
    return [kernel.from_bytes(data) for kernel, data in zip(kernels, serialized, strict=True)]


def _missing_leaves(n_leaves: int, nodes: Sequence[tuple[int, int]]) -> list[Leaves]:
    """The leaves that no node (level, index) covers, as ranges. Raises ValueError if nodes overlap or are outside."""
    missing: list[Leaves] = []
    at = 0
    if any(level > _LEVELS or index > n_leaves for level, index in nodes):
        raise ValueError(f"a node is not one of a tree of {n_leaves} leaves")
    for start, level in sorted((index << level, level) for level, index in nodes):
        if start < at or start >= n_leaves:
            raise ValueError(f"leaf {start} is twice there, or not one of {n_leaves}")
        if start > at:
            missing.append((at, start))
        at = min(start + (1 << level), n_leaves)
    if at < n_leaves:
        missing.append((at, n_leaves))
    return missing
