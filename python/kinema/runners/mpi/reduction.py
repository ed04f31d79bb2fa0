"""The collective end of a pass: rank 0 gathers the nodes of all ranks, with Gatherv or on a tree of ranks.

Nodes are merged only on the fixed merge tree, so results have the same bits either way. One-sided puts of rows are
completed here (`row_windows`).
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, MemoryLimitError
from kinema.cache.counts import add_counts, take_counts
from kinema.runners.mpi.communicator import Ranks, RemoteError
from kinema.runners.mpi.passes import PassRank, PassSetup
from kinema.runners.mpi.row_windows import RowsOfPass
from kinema.runners.reduction import SerializedNode, insert_nodes, serialize_nodes
from kinema.runners.worker_timer import WorkerTimer

# tags of messages between ranks that merge: ready to receive, nodes
_READY, _TREE = 3, 4
# seconds between two probes for nodes
_PAUSE = 0.0001


def finish_pass(
    ranks: Ranks,
    setup: PassSetup,
    put: RowsOfPass,
    kernels: Sequence[_core.Kernel],
    own: _core.MergeTree | None,
    into: _core.MergeTree | None,
    at_work: PassRank,
) -> tuple[list[WorkerTimer], dict[int, _core.KernelResults]]:
    """Makes the collective calls after a successful pass: rank 0 gets nodes, rows and timers; called by all ranks."""
    worker_timer = at_work.worker_timer
    failed: BaseException | None = None
    rows: dict[int, _core.KernelResults] = {}
    with worker_timer.counting("waited"):
        ranks.arrive()
    try:
        if not setup.streamed:
            _gather_nodes(ranks, setup.tree_from, setup.work_plan.n_leaves, kernels, own, into, worker_timer)
    except Exception as error:
        if not ranks.is_root:
            # no other rank can be informed any more: this ends all ranks
            raise
        # the others continue with the next step, and so must this one
        failed = error
    try:
        put.complete(worker_timer)
    except ArgumentError as error:
        failed = failed or error  # the same one on all ranks
    if ranks.is_root and failed is None and not setup.retain_rows:
        try:
            rows = put.fetch(worker_timer)
        except Exception as error:
            failed = error
    # the rest of the pass is waiting for slower ranks
    worker_timer.turn_to(None)
    worker_timer.done_at = at_work.seconds()
    own_timer = worker_timer if ranks.rank < setup.work_plan.workers else None
    gathered = ranks.comm.gather((own_timer, take_counts()), 0) or []
    for _, counts in gathered:
        add_counts(counts)
    if setup.rows and setup.retain_rows and ranks.comm.bcast(failed is None):
        rows = put.retain()
    if failed is not None and ranks.is_root:
        raise failed
    return [timer for timer, _ in gathered if timer is not None], rows


def _gather_nodes(
    ranks: Ranks,
    tree_from: int,
    n_leaves: int,
    kernels: Sequence[_core.Kernel],
    own: _core.MergeTree | None,
    into: _core.MergeTree | None,
    worker_timer: WorkerTimer,
) -> None:
    """Moves the nodes of all ranks into the tree of rank 0; collective.

    `tree_from`: least bytes of all ranks together for which partials that do not grow are merged on the way, on a
        binomial tree of ranks.
    `kernels`: empty on ranks without leaves.
    `own`: the nodes of this rank; None if there are none, and on rank 0.
    `into`: the tree of rank 0.
    `worker_timer`: messages, packing and unpacking count as communicating; waiting for slower ranks is counted apart.

    On rank 0 the error of any rank is raised; other ranks return.
    """
    failed: RemoteError | None = None
    nodes: list[_core.Node] = []
    packed: list[SerializedNode] = []
    data = b""
    try:
        with worker_timer.counting("gather"):
            nodes = [] if own is None else own.take_nodes()
            packed = serialize_nodes(nodes)
            data = pickle.dumps(packed, protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        failed = RemoteError.wrap(error, ranks.rank)
    if not _none_failed(ranks, failed, into, worker_timer):
        return
    with worker_timer.counting("waited"):
        sizes = ranks.comm.allgather(len(data))
    shrink = False
    if sum(sizes) >= tree_from:
        try:
            with worker_timer.counting("gather"):
                shrink = _shrink(packed, kernels)
        except BaseException as error:
            failed = RemoteError.wrap(error, ranks.rank)
        if not _none_failed(ranks, failed, into, worker_timer):
            return
        with worker_timer.counting("waited"):
            shrink = ranks.comm.allreduce(shrink, MPI.LAND)
    if shrink:
        _reduce_on_tree(ranks, n_leaves, kernels, nodes, into, worker_timer)
    else:
        _gather_at_root(ranks, data, sizes, kernels, into, worker_timer)


def _none_failed(
    ranks: Ranks, failed: RemoteError | None, into: _core.MergeTree | None, worker_timer: WorkerTimer
) -> bool:
    """Whether no rank has failed; on rank 0 the first error is raised."""
    with worker_timer.counting("waited"):
        errors = ranks.comm.allgather(failed)
    for one in errors:
        if one is not None:
            if into is not None:
                raise one.unwrap()
            return False
    return True


def _shrink(nodes: Sequence[SerializedNode], kernels: Sequence[_core.Kernel]) -> bool:
    """Whether two merged nodes need fewer bytes than two separate ones: true of sums, not of values per frame."""
    if not nodes:
        # a rank without nodes agrees with the others
        return True
    _, _, packed = nodes[0]
    before = after = 0
    for kernel, data in zip(kernels, packed, strict=True):
        merged = kernel.from_bytes(data)
        merged.merge(kernel.from_bytes(data))
        before += 2 * len(data)
        after += len(merged.to_bytes())
    return 4 * after < 3 * before


def _gather_at_root(
    ranks: Ranks,
    data: bytes,
    sizes: Sequence[int],
    kernels: Sequence[_core.Kernel],
    into: _core.MergeTree | None,
    worker_timer: WorkerTimer,
) -> None:
    room: NDArray[np.uint8] | None = None
    if into is not None:
        try:
            room = np.empty(sum(sizes), np.uint8)
        except MemoryError:
            room = None
    # no rank may wait for a rank that has given up
    with worker_timer.counting("waited"):
        enough = ranks.comm.bcast(room is not None if into is not None else None)
    if not enough:
        if into is not None:
            raise MemoryLimitError(
                f"no room on rank 0 for what the ranks have gathered, {sum(sizes)} bytes; write rows with out=, or use "
                "gather='one-sided', which takes part by part"
            )
        return
    # all ranks are here now: this does not wait
    with worker_timer.counting("gather"):
        ranks.comm.Gatherv(np.frombuffer(data, np.uint8), None if room is None else (room, sizes), 0)
        if into is None or room is None:
            return
        at = 0
        for size in sizes:
            if size:
                insert_nodes(into, kernels, pickle.loads(room[at : at + size].data))
            at += size


def _reduce_on_tree(
    ranks: Ranks,
    n_leaves: int,
    kernels: Sequence[_core.Kernel],
    nodes: Sequence[_core.Node],
    into: _core.MergeTree | None,
    worker_timer: WorkerTimer,
) -> None:
    """Merges on a binomial tree: each rank merges the nodes of the ranks 1, 2, 4 ... after it, and sends the result."""
    failed: RemoteError | None = None
    tree = into
    try:
        if tree is None and kernels:
            with worker_timer.counting("gather"):
                tree = _core.MergeTree(n_leaves, kernels)
                tree.insert_all(nodes)
    except BaseException as error:
        failed = RemoteError.wrap(error, ranks.rank)
    distance = 1
    while distance < ranks.size:
        if ranks.rank & distance:
            packed: list[SerializedNode] = []
            try:
                if failed is None and tree is not None:
                    with worker_timer.counting("gather"):
                        packed = serialize_nodes(tree.take_nodes())
            except BaseException as error:
                failed = RemoteError.wrap(error, ranks.rank)
            _send(ranks, packed if failed is None else failed, ranks.rank - distance, worker_timer)
            return
        if ranks.rank + distance < ranks.size:
            received = _receive(ranks, ranks.rank + distance, worker_timer)
            if isinstance(received, RemoteError):
                failed = failed or received
            elif failed is None and tree is not None:
                try:
                    with worker_timer.counting("gather"):
                        insert_nodes(tree, kernels, received)
                except BaseException as error:
                    failed = RemoteError.wrap(error, ranks.rank)
        distance *= 2
    if failed is not None:
        raise failed.unwrap()


def _send(ranks: Ranks, nodes: list[SerializedNode] | RemoteError, to: int, worker_timer: WorkerTimer) -> None:
    """Sends nodes when the receiver is ready; waits until then."""
    with worker_timer.counting("waited"):
        _probe(ranks, to, _READY).recv()
    with worker_timer.counting("gather"):
        ranks.comm.send(nodes, to, tag=_TREE)


def _receive(ranks: Ranks, source: int, worker_timer: WorkerTimer) -> list[SerializedNode] | RemoteError:
    ranks.comm.send(None, source, tag=_READY)
    with worker_timer.counting("waited"):
        message = _probe(ranks, source, _TREE)
    with worker_timer.counting("gather"):
        received: list[SerializedNode] | RemoteError = message.recv()
    return received


def _probe(ranks: Ranks, source: int, tag: int) -> MPI.Message:
    """Waits for a message, sleeping between probes."""
    while (message := ranks.comm.improbe(source=source, tag=tag)) is None:
        time.sleep(_PAUSE)
    return message
