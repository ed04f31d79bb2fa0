"""The end of a round: how the nodes of all ranks come to rank 0, with Gatherv or on a tree of ranks.

It merges nothing but on the fixed merge tree, so that results have the same bits in every way. Rows that are put in
their place one-sided are not its business (`rows`).
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError, MemoryLimitError
from kinema.runners.gathering import PackedNode, insert_nodes, pack_nodes
from kinema.runners.mpi.ranks import Ranks, Travelling
from kinema.runners.mpi.round import RankAtWork, Setup
from kinema.runners.mpi.rows import RowsOfRound
from kinema.runners.tally import Tally

__all__ = ["finish_round"]

# tags of messages between ranks that merge: that one is ready for them, nodes
_READY, _TREE = 3, 4
# seconds between two looks for nodes
_PAUSE = 0.0001


def finish_round(
    ranks: Ranks,
    setup: Setup,
    put: RowsOfRound,
    kernels: Sequence[_core.Kernel],
    own: _core.MergeTree | None,
    into: _core.MergeTree | None,
    at_work: RankAtWork,
) -> tuple[list[Tally], dict[int, _core.Found]]:
    """What all ranks do together after a round that went well: nodes, rows and sums of timings come to rank 0."""
    tally = at_work.tally
    failed: BaseException | None = None
    found: dict[int, _core.Found] = {}
    try:
        if not setup.streamed:
            _bring_together(ranks, setup.tree_from, setup.division.n_leaves, kernels, own, into, tally)
    except Exception as error:
        if not ranks.leads:
            # what could be told was told: this ends all ranks
            raise
        # the others go on to the next step, and so must this one
        failed = error
    try:
        put.complete(tally)
    except ArgumentError as error:
        failed = failed or error  # the same one on all ranks
    if ranks.leads and failed is None and not setup.keep_rows:
        try:
            found = put.fetch(tally)
        except Exception as error:
            failed = error
    # what is left of the round is waiting for those who come later
    tally.done_at = at_work.seconds()
    told = ranks.comm.gather(tally if ranks.rank < setup.division.workers else None, 0)
    if setup.rows and setup.keep_rows and ranks.comm.bcast(failed is None):
        found = put.keep()
    if failed is not None and ranks.leads:
        raise failed
    return [one for one in told or [] if one is not None], found


def _bring_together(
    ranks: Ranks,
    tree_from: int,
    n_leaves: int,
    kernels: Sequence[_core.Kernel],
    own: _core.MergeTree | None,
    into: _core.MergeTree | None,
    tally: Tally,
) -> None:
    """Brings what the ranks have gathered into the tree of rank 0; called by all ranks together.

    Parameters
    ----------
    tree_from : int
        Bytes of all ranks from which on partials that do not grow are merged on the way, on a binomial tree of ranks.
    kernels : list of Kernel
        Empty on ranks that have no leaves.
    own : MergeTree or None
        What this rank has gathered; None where there is nothing, and on rank 0.
    into : MergeTree or None
        The tree of rank 0.
    tally : Tally
        Messages, and what makes bytes of nodes and nodes of bytes, are counted as communicating; apart from that
        waiting for those who come later.

    Raises
    ------
    Exception
        On rank 0, what went wrong on any rank; others return.
    """
    failed: Travelling | None = None
    nodes: list[_core.Node] = []
    packed: list[PackedNode] = []
    data = b""
    try:
        with tally.counting("communicate"):
            nodes = [] if own is None else own.take_nodes()
            packed = pack_nodes(nodes)
            data = pickle.dumps(packed, protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        failed = Travelling.of(error, ranks.rank)
    if not _all_well(ranks, failed, into, tally):
        return
    with tally.counting("waited"):
        sizes = ranks.comm.allgather(len(data))
    shrink = False
    if sum(sizes) >= tree_from:
        try:
            with tally.counting("communicate"):
                shrink = _shrink(packed, kernels)
        except BaseException as error:
            failed = Travelling.of(error, ranks.rank)
        if not _all_well(ranks, failed, into, tally):
            return
        with tally.counting("waited"):
            shrink = ranks.comm.allreduce(shrink, MPI.LAND)
    if shrink:
        _on_a_tree(ranks, n_leaves, kernels, nodes, into, tally)
    else:
        _gatherv(ranks, data, sizes, kernels, into, tally)


def _all_well(ranks: Ranks, failed: Travelling | None, into: _core.MergeTree | None, tally: Tally) -> bool:
    """Whether no rank has failed; on rank 0 the first error is raised."""
    with tally.counting("waited"):
        told = ranks.comm.allgather(failed)
    for one in told:
        if one is not None:
            if into is not None:
                raise one.arrived()
            return False
    return True


def _shrink(nodes: Sequence[PackedNode], kernels: Sequence[_core.Kernel]) -> bool:
    """Whether two merged nodes need fewer bytes than the two: sums and averages do, values per frame do not."""
    if not nodes:
        # a rank without nodes is no hindrance
        return True
    _, _, packed = nodes[0]
    before = after = 0
    for kernel, data in zip(kernels, packed, strict=True):
        merged = kernel.from_bytes(data)
        merged.merge(kernel.from_bytes(data))
        before += 2 * len(data)
        after += len(merged.to_bytes())
    return 4 * after < 3 * before


def _gatherv(
    ranks: Ranks,
    data: bytes,
    sizes: Sequence[int],
    kernels: Sequence[_core.Kernel],
    into: _core.MergeTree | None,
    tally: Tally,
) -> None:
    room: NDArray[np.uint8] | None = None
    if into is not None:
        try:
            room = np.empty(sum(sizes), np.uint8)
        except MemoryError:
            room = None
    # nobody may wait for a rank that has given up
    with tally.counting("waited"):
        enough = ranks.comm.bcast(room is not None if into is not None else None)
    if not enough:
        if into is not None:
            raise MemoryLimitError(
                f"no room on rank 0 for what the ranks have gathered, {sum(sizes)} bytes; write rows with out=, or use "
                "gather='one-sided', which takes part by part"
            )
        return
    # all ranks are here now, and nothing is waited for
    with tally.counting("communicate"):
        ranks.comm.Gatherv(np.frombuffer(data, np.uint8), None if room is None else (room, sizes), 0)
        if into is None or room is None:
            return
        at = 0
        for size in sizes:
            if size:
                insert_nodes(into, kernels, pickle.loads(room[at : at + size].data))
            at += size


def _on_a_tree(
    ranks: Ranks,
    n_leaves: int,
    kernels: Sequence[_core.Kernel],
    nodes: Sequence[_core.Node],
    into: _core.MergeTree | None,
    tally: Tally,
) -> None:
    """Each rank takes in what its neighbours have, one, two, four ranks on, and passes the merged nodes on."""
    failed: Travelling | None = None
    tree = into
    try:
        if tree is None and kernels:
            with tally.counting("communicate"):
                tree = _core.MergeTree(n_leaves, kernels)
                for level, index, partials in nodes:
                    tree.insert(level, index, partials)
    except BaseException as error:
        failed = Travelling.of(error, ranks.rank)
    distance = 1
    while distance < ranks.size:
        if ranks.rank & distance:
            packed: list[PackedNode] = []
            try:
                if failed is None and tree is not None:
                    with tally.counting("communicate"):
                        packed = pack_nodes(tree.take_nodes())
            except BaseException as error:
                failed = Travelling.of(error, ranks.rank)
            _send(ranks, packed if failed is None else failed, ranks.rank - distance, tally)
            return
        if ranks.rank + distance < ranks.size:
            arrived = _receive(ranks, ranks.rank + distance, tally)
            if isinstance(arrived, Travelling):
                failed = failed or arrived
            elif failed is None and tree is not None:
                try:
                    with tally.counting("communicate"):
                        insert_nodes(tree, kernels, arrived)
                except BaseException as error:
                    failed = Travelling.of(error, ranks.rank)
        distance *= 2
    if failed is not None:
        raise failed.arrived()


def _send(ranks: Ranks, found: list[PackedNode] | Travelling, to: int, tally: Tally) -> None:
    """Sends when the other one is there: until then it is waiting, not sending."""
    with tally.counting("waited"):
        _arriving(ranks, to, _READY).recv()
    with tally.counting("communicate"):
        ranks.comm.send(found, to, tag=_TREE)


def _receive(ranks: Ranks, source: int, tally: Tally) -> list[PackedNode] | Travelling:
    ranks.comm.send(None, source, tag=_READY)
    with tally.counting("waited"):
        message = _arriving(ranks, source, _TREE)
    with tally.counting("communicate"):
        arrived: list[PackedNode] | Travelling = message.recv()
    return arrived


def _arriving(ranks: Ranks, source: int, tag: int) -> MPI.Message:
    """Waits for a message, and leaves the processor to others meanwhile."""
    while (message := ranks.comm.improbe(source=source, tag=tag)) is None:
        time.sleep(_PAUSE)
    return message
