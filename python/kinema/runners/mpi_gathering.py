"""How the nodes of all ranks come to rank 0 at the end of a round: collectively, on a tree of ranks, or one-sided.

It merges nothing but on the fixed merge tree, so that results have the same bits in every way.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import MemoryLimitError
from kinema.runners.hand_out import PackedNode
from kinema.runners.mpi_ranks import Ranks, Travelling, sleep_between

__all__ = ["GlobalBytes", "bring_together"]

_TREE = 3  # tag of messages between ranks that merge


def bring_together(
    ranks: Ranks,
    gather: str,
    tree_from: int,
    n_leaves: int,
    kernels: Sequence[_core.Kernel],
    own: _core.MergeTree | None,
    into: _core.MergeTree | None,
) -> None:
    """Brings what the ranks have gathered into the tree of rank 0; called by all ranks together.

    Parameters
    ----------
    gather : {"collective", "one-sided"}
        With Gatherv, or through an array of bytes that is spread over all ranks, of which rank 0 gets part by part.
    tree_from : int
        Bytes of all ranks from which on partials that do not grow are merged on the way, on a binomial tree of ranks.
    kernels : list of Kernel
        Empty on ranks that have no leaves.
    own : MergeTree or None
        What this rank has gathered; None where there is nothing, and on rank 0.
    into : MergeTree or None
        The tree of rank 0.

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
        nodes = [] if own is None else own.take_nodes()
        packed = _pack(nodes)
        data = pickle.dumps(packed, protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        failed = Travelling.of(error, ranks.rank)
    if not _all_well(ranks, failed, into):
        return
    sizes = ranks.comm.allgather(len(data))
    if gather == "one-sided":
        _one_sided(ranks, data, sizes, kernels, into)
        return
    shrink = False
    if sum(sizes) >= tree_from:
        try:
            shrink = _shrink(packed, kernels)
        except BaseException as error:
            failed = Travelling.of(error, ranks.rank)
        if not _all_well(ranks, failed, into):
            return
        shrink = ranks.comm.allreduce(shrink, MPI.LAND)
    if shrink:
        _on_a_tree(ranks, n_leaves, kernels, nodes, into)
    else:
        _gatherv(ranks, data, sizes, kernels, into)


def _all_well(ranks: Ranks, failed: Travelling | None, into: _core.MergeTree | None) -> bool:
    """Whether no rank has failed; on rank 0 the first error is raised."""
    for one in ranks.comm.allgather(failed):
        if one is not None:
            if into is not None:
                raise one.arrived()
            return False
    return True


def _pack(nodes: Sequence[_core.Node]) -> list[PackedNode]:
    return [(level, index, [partial.to_bytes() for partial in partials]) for level, index, partials in nodes]


def _shrink(nodes: Sequence[PackedNode], kernels: Sequence[_core.Kernel]) -> bool:
    """Whether two merged nodes need fewer bytes than the two: sums and averages do, values per frame do not."""
    for _, _, packed in nodes[:1]:
        before = after = 0
        for kernel, data in zip(kernels, packed, strict=True):
            merged = kernel.from_bytes(data)
            merged.merge(kernel.from_bytes(data))
            before += 2 * len(data)
            after += len(merged.to_bytes())
        return 4 * after < 3 * before
    # a rank without nodes is no hindrance
    return True


def _insert(tree: _core.MergeTree, kernels: Sequence[_core.Kernel], data: bytes | memoryview) -> None:
    for level, index, packed in pickle.loads(data):
        tree.insert(level, index, [kernel.from_bytes(one) for kernel, one in zip(kernels, packed, strict=True)])


def _gatherv(
    ranks: Ranks, data: bytes, sizes: Sequence[int], kernels: Sequence[_core.Kernel], into: _core.MergeTree | None
) -> None:
    room: NDArray[np.uint8] | None = None
    if into is not None:
        try:
            room = np.empty(sum(sizes), np.uint8)
        except MemoryError:
            room = None
    # nobody may wait for a rank that has given up
    if not ranks.comm.bcast(room is not None if into is not None else None):
        if into is not None:
            raise MemoryLimitError(
                f"no room on rank 0 for what the ranks have gathered, {sum(sizes)} bytes; write rows with out=, or use "
                "gather='one-sided', which takes part by part"
            )
        return
    ranks.comm.Gatherv(np.frombuffer(data, np.uint8), None if room is None else (room, sizes), 0)
    if into is None or room is None:
        return
    at = 0
    for size in sizes:
        if size:
            _insert(into, kernels, room[at : at + size].data)
        at += size


def _on_a_tree(
    ranks: Ranks,
    n_leaves: int,
    kernels: Sequence[_core.Kernel],
    nodes: Sequence[_core.Node],
    into: _core.MergeTree | None,
) -> None:
    """Each rank takes in what its neighbours have, one, two, four ranks on, and passes the merged nodes on."""
    failed: Travelling | None = None
    tree = into
    try:
        if tree is None and kernels:
            tree = _core.MergeTree(n_leaves, kernels)
            for level, index, partials in nodes:
                tree.insert(level, index, partials)
    except BaseException as error:
        failed = Travelling.of(error, ranks.rank)
    distance = 1
    while distance < ranks.size:
        if ranks.rank & distance:
            found: list[PackedNode] | Travelling = []
            try:
                found = failed if failed is not None else _pack(tree.take_nodes()) if tree is not None else []
            except BaseException as error:
                found = Travelling.of(error, ranks.rank)
            ranks.comm.send(found, ranks.rank - distance, tag=_TREE)
            return
        if ranks.rank + distance < ranks.size:
            arrived = ranks.comm.recv(source=ranks.rank + distance, tag=_TREE)
            if isinstance(arrived, Travelling):
                failed = failed or arrived
            elif failed is None and tree is not None:
                try:
                    for level, index, packed in arrived:
                        partials = [kernel.from_bytes(one) for kernel, one in zip(kernels, packed, strict=True)]
                        tree.insert(level, index, partials)
                except BaseException as error:
                    failed = Travelling.of(error, ranks.rank)
        distance *= 2
    if failed is not None:
        raise failed.arrived()


def _one_sided(
    ranks: Ranks, data: bytes, sizes: Sequence[int], kernels: Sequence[_core.Kernel], into: _core.MergeTree | None
) -> None:
    whole = GlobalBytes(ranks.comm, sum(sizes))
    try:
        begins = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        whole.put(begins[ranks.rank], data)
        whole.meet()
        if into is not None:
            for begin, size in zip(begins, sizes, strict=False):
                if size:
                    _insert(into, kernels, whole.get(begin, size))
    finally:
        whole.meet()
        whole.free()


class GlobalBytes:
    """An array of bytes that is spread over all ranks in blocks of one length; each can put and get any part of it.

    One-sided, as in Global Arrays (Nieplocha et al., J. Supercomput. 10, 169 (1996)). Made, and freed, by all ranks
    together.
    """

    def __init__(self, comm: MPI.Intracomm, size: int) -> None:
        self._comm = comm
        self._block = max(1, -(-size // comm.Get_size()))
        self._window = MPI.Win.Allocate(self._block, 1, comm=comm)
        self._window.Lock_all()

    def put(self, at: int, data: bytes) -> None:
        """Writes bytes; others see them after `meet`."""
        array = np.frombuffer(data, np.uint8)
        for owner, offset, first, last in self._parts(at, len(array)):
            self._window.Put(array[first:last], owner, (offset, last - first, MPI.BYTE))
        self._window.Flush_all()

    def get(self, at: int, size: int) -> memoryview:
        """Reads bytes; those that are put at the same time may or may not be among them."""
        array = np.empty(size, np.uint8)
        for owner, offset, first, last in self._parts(at, size):
            self._window.Get(array[first:last], owner, (offset, last - first, MPI.BYTE))
        self._window.Flush_all()
        return array.data

    def meet(self) -> None:
        """Waits for all ranks; what any of them has put is there for all."""
        self._window.Sync()
        sleep_between(self._comm.Ibarrier())
        self._window.Sync()

    def free(self) -> None:
        """Gives the memory back; called by all ranks together."""
        self._window.Unlock_all()
        self._window.Free()

    def _parts(self, at: int, size: int) -> list[tuple[int, int, int, int]]:
        """Owner, place with the owner, and the range of the caller's bytes, for each owner."""
        found = []
        first = 0
        while first < size:
            owner, offset = divmod(at + first, self._block)
            last = min(size, first + self._block - offset)
            found.append((owner, offset, first, last))
            first = last
        return found
