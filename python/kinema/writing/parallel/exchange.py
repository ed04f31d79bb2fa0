"""Exchange of atoms: from the ranks that have them to those that write them, in order of their numbers, in batches.

Of each frame the numbers of all atoms are exchanged first (4 bytes each): whoever receives them finds those that are
missing or given twice before a value is sent. Values follow batch by batch, so that no rank ever has more than a batch
of what others have given. On one node each rank puts them where they belong, in memory that the ranks share; between
nodes they are sent. Where each rank has the atoms that it takes, nothing of them is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema import _core
from kinema.errors import ArgumentError
from kinema.writing.parallel.agreement import Agreement, wait_for
from kinema.writing.parallel.node_memory import NodeMemory, is_one_node

__all__ = ["Exchange", "Owners", "Route", "even_owners"]

Ids = NDArray[np.uint32]
_ID_TYPES = tuple(np.dtype(name) for name in ("u4", "i8", "i4", "u8"))

# an atom that a rank gives by a wrong number is missing where another rank looks for it: the former is what went wrong
_FOUND_BY_ANOTHER, _OF_A_RANK = 1, 2

# of an atom in shared memory: three vectors of float64
_VECTORS, _VECTOR_BYTES = 3, 24
# bytes of shared memory of all ranks together, about; each rank has it among its own
_MOST_SHARED = 32 << 20


@dataclass(frozen=True)
class Owners:
    """Which ranks take which atoms: `ranks[i]`, in rising order, those from `bounds[i]` up to `bounds[i + 1]`."""

    ranks: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @property
    def longest(self) -> int:
        """The most atoms that a rank takes."""
        return int(np.diff(self.bounds).max())

    def of(self, rank: int) -> range:
        """The atoms that a rank takes."""
        place = np.flatnonzero(self.ranks == rank)
        if not len(place):
            return range(0)
        return range(int(self.bounds[place[0]]), int(self.bounds[place[0] + 1]))


def even_owners(n_atoms: int, n_ranks: int, n_writers: int) -> Owners:
    """`n_writers` ranks, spread over all of them, which take as many atoms each; the last ones perhaps one fewer."""
    n_writers = max(1, min(n_writers, n_ranks, n_atoms))
    places = np.arange(n_writers + 1, dtype=np.int64)
    return Owners(places[:-1] * n_ranks // n_writers, places * n_atoms // n_writers)


class Exchange:
    """Exchanges atoms among the ranks of an agreement.

    Parameters
    ----------
    agreement : Agreement
    n_atoms : int
        Of each frame, over all ranks.
    """

    def __init__(self, agreement: Agreement, n_atoms: int) -> None:
        self.agreement, self.n_atoms = agreement, n_atoms
        self._buffers: dict[tuple[str, int], NDArray[np.uint8]] = {}
        self._is_one_node: bool | None = None
        self._shared: NodeMemory | None = None
        # batches that were exchanged; the same on all ranks
        self._n_shared = 0

    def route(
        self,
        ids: NDArray[np.integer[Any]],
        owners: Owners,
        batch_atoms: int | None = None,
        *,
        error: BaseException | None = None,
    ) -> Route:
        """Where the atoms of a frame go; collective.

        Parameters
        ----------
        ids : (n_mine,) numbers of the atoms that this rank has, in any order
        owners : those who take them
        batch_atoms : the most atoms of a batch that an owner takes; all by default
        error : of what this rank has done for the frame before; raised on all ranks

        Raises
        ------
        ArgumentError
            The same on all ranks: a number out of range, of no rank, or of two; it names rank and number.
        """
        agreement, timings = self.agreement, self.agreement.timings
        begins = np.arange(0, owners.longest, self._batch_atoms(owners, batch_atoms))
        counts, sent = np.zeros((len(owners.ranks), len(begins)), np.int64), _Sorted.none()
        with timings.of("sort"):
            if error is None:
                try:
                    counts, sent = self._sorted(ids, owners, begins)
                except ArgumentError as raised:
                    error = _range_error(ids, self.n_atoms, agreement.rank) or raised
        n_sent = np.zeros((agreement.size, len(begins)), np.int64)
        n_sent[owners.ranks] = counts
        n_received, taken = n_sent, sent.ids
        if agreement.size > 1:
            n_received = np.empty_like(n_sent)
            with timings.of("communicate"):
                wait_for(agreement.comm.Ialltoall(n_sent, n_received))
                taken = self._numbers("taken", int(n_received.sum()))
                n_from = n_received.sum(axis=1)
                wait_for(_alltoallv(agreement.comm, sent.ids, n_sent.sum(axis=1), taken, n_from, MPI.UINT32_T))
        weight = _OF_A_RANK
        with timings.of("sort"):
            if error is None:
                error = self._wrong_ids(taken, n_received.sum(axis=1), owners)
                weight = _FOUND_BY_ANOTHER
        is_away = int(n_sent.sum() - n_sent[agreement.rank].sum()) > 0
        rows = agreement.gathered(np.array([0 if error is None else weight, is_away], np.int64))
        if rows[:, 0].any():
            agreement.fail(int(np.argmax(rows[:, 0])), error)
        return Route(self, owners, begins, sent, taken, n_sent, n_received, not rows[:, 1].any())

    def _batch_atoms(self, owners: Owners, most: int | None) -> int:
        """Atoms of a batch: as many as shared memory holds twice for each owner, where there is such memory."""
        if self._is_one_node is None:
            self._is_one_node = self.agreement.size > 1 and is_one_node(self.agreement)
        most = owners.longest if most is None else min(most, owners.longest)
        if self._is_one_node:
            most = min(most, _MOST_SHARED // (2 * _VECTORS * _VECTOR_BYTES * len(owners.ranks)))
        return max(1, most)

    def _sorted(
        self, ids: NDArray[np.integer[Any]], owners: Owners, begins: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], _Sorted]:
        """Rows of each owner and batch, and all of them: by owner, and of each owner by batch."""
        first, last = owners.bounds[:-1, None], owners.bounds[1:, None]
        bounds = [*np.minimum(first + begins, last).ravel().tolist(), int(owners.bounds[-1])]
        packed, order = self._numbers("ids", len(ids)), self._numbers("order", len(ids))
        counts, is_sorted = _core.partition_atoms(_as_ids(ids), bounds, packed, order)
        ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        found = counts.astype(np.int64).reshape(len(owners.ranks), len(begins))
        return found, _Sorted(ends, packed, None if is_sorted else order)

    def shared(self, batch_atoms: int, n_owners: int) -> NodeMemory | None:
        """Memory of all ranks, for two batches of each owner; None where there is none. Collective."""
        n_bytes = 2 * n_owners * _VECTORS * _VECTOR_BYTES * batch_atoms
        if not self._is_one_node:
            return None
        if self._shared is None or self._shared.data is None or len(self._shared.data) < n_bytes:
            self._shared = None  # given back before there is another one
            self._shared = NodeMemory(self.agreement, n_bytes)
            self._is_one_node = self._shared.data is not None
        return self._shared if self._is_one_node else None

    def next_shared(self) -> int:
        """Which half of the shared memory the next batch has: others may still read the one before it."""
        self._n_shared += 1
        return self._n_shared % 2

    def room(self, use: str, number: int, n_atoms: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """An array (n_atoms, 3) whose memory the next call for the same use and number takes again."""
        return self._bytes(use, number, 3 * n_atoms * kind.itemsize).view(kind).reshape(n_atoms, 3)

    def _numbers(self, use: str, n: int) -> Ids:
        """(n,) whose memory the next frame takes again: pages that are new cost more than what is put into them."""
        return self._bytes(use, 0, 4 * n).view(np.uint32)

    def _bytes(self, use: str, number: int, n_bytes: int) -> NDArray[np.uint8]:
        buffer = self._buffers.get((use, number))
        if buffer is None or len(buffer) < n_bytes:
            buffer = self._buffers[use, number] = np.empty(n_bytes, np.uint8)
        return buffer[:n_bytes]

    def _wrong_ids(self, taken: Ids, received: NDArray[np.int64], owners: Owners) -> ArgumentError | None:
        """What is wrong with the numbers that this rank was sent; None where it has each of its range once."""
        own = owners.of(self.agreement.rank)
        seen = np.zeros(len(own), np.uint8)
        n_twice, _, n_missing, _ = _core.scatter_atoms(taken, own.start, [], [], seen)
        if not n_twice and not n_missing:
            return None
        if n_twice:
            order = np.argsort(taken, kind="stable")
            first = int(np.flatnonzero(np.diff(taken[order]) == 0)[0])
            twice = int(taken[order[first]])
            sources = np.repeat(np.arange(len(received)), received)[order[first : first + 2]].tolist()
            who = f"rank {sources[0]} twice" if sources[0] == sources[1] else f"ranks {sources[0]} and {sources[1]}"
            return ArgumentError(f"ids: atom {twice} is given by {who}, expected each atom from one rank, once")
        missing = np.flatnonzero(seen == 0)
        more = "" if len(missing) == 1 else f" (nor are {len(missing) - 1} others of those that rank"
        more += f" {self.agreement.rank} writes)" if more else ""
        return ArgumentError(
            f"ids: atom {own.start + int(missing[0])} is given by no rank{more}, as rank {self.agreement.rank} finds; "
            f"expected each of 0 to {self.n_atoms - 1} once"
        )


@dataclass(frozen=True)
class _Sorted:
    """Rows sorted by the range of their numbers: where the rows of range i end, which is where those of i + 1 begin;
    their numbers; which rows these are, None where they are in order."""

    ends: NDArray[np.int64]
    ids: Ids
    order: Ids | None

    @classmethod
    def none(cls) -> _Sorted:
        return cls(np.zeros(1, np.int64), np.empty(0, np.uint32), None)

    def part(self, number: int) -> tuple[Ids, Ids | int]:
        """Of a range the numbers, and the rows, or the first of rows that follow each other."""
        piece = slice(int(self.ends[number]), int(self.ends[number + 1]))
        return self.ids[piece], piece.start if self.order is None else self.order[piece]


@dataclass(frozen=True)
class Route:
    """Where the atoms of a frame go; it holds until the next frame.

    Attributes
    ----------
    begins : where the batches of each owner begin, from its first atom on
    sent : this rank's rows, by owner and batch
    taken : numbers of the atoms that this rank takes, those of the first rank first, each by batch
    n_sent, n_received : (ranks, batches) how many atoms of each batch go to each rank, and come from it
    is_local : whether each rank has the atoms that it takes, and no others
    """

    exchange: Exchange
    owners: Owners
    begins: NDArray[np.int64]
    sent: _Sorted
    taken: Ids
    n_sent: NDArray[np.int64]
    n_received: NDArray[np.int64]
    is_local: bool

    @property
    def n_batches(self) -> int:
        """Batches of the frame, as many on all ranks."""
        return len(self.begins)

    def batches(self) -> Iterator[AtomBatch]:
        """The frame in batches of each owner."""
        own = self.owners.of(self.exchange.agreement.rank)
        batch_atoms = int(self.begins[1]) if self.n_batches > 1 else self.owners.longest
        shared = None if self.is_local else self.exchange.shared(batch_atoms, len(self.owners.ranks))
        kind = LocalBatch if self.is_local else MessageBatch if shared is None else SharedBatch
        for number, begin in enumerate(self.begins.tolist()):
            yield kind(self, number, own[begin : begin + batch_atoms], batch_atoms, shared)


class AtomBatch:
    """A batch of the atoms of each owner, number `number` of the frame.

    Attributes
    ----------
    atoms : range
        Those of this rank.
    """

    def __init__(self, route: Route, number: int, atoms: range, batch_atoms: int, shared: NodeMemory | None) -> None:
        self.route, self.number, self.atoms = route, number, atoms
        self.exchange, self.batch_atoms, self._memory = route.exchange, batch_atoms, shared
        self.agreement, self.timings = route.exchange.agreement, route.exchange.agreement.timings
        self._n_calls = 0
        with self.timings.of("sort"):
            self._prepare()

    def values(self, given: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Values of this rank's batch, (len(atoms), 3), of those that all ranks have given; collective, at most
        for three vectors of a batch.

        Parameters
        ----------
        given : (n_mine, 3) of the same type of numbers on all ranks, C-contiguous
        out : where they are put, C-contiguous
            Without it they are read only, and hold until the next batch: they may be rows of `given`.
        """
        return self.all_values([given], [out])[0]

    def all_values(self, given: list[NDArray[Any]], out: list[NDArray[Any] | None]) -> list[NDArray[Any]]:
        """The same of several vectors at once."""
        first, self._n_calls = self._n_calls, self._n_calls + len(given)
        return self._exchanged(given, out, first)

    def _prepare(self) -> None:
        """Finds which rows go where."""
        raise NotImplementedError

    def _exchanged(self, given: list[NDArray[Any]], out: list[NDArray[Any] | None], first: int) -> list[NDArray[Any]]:
        """As `all_values`; `first` is the number of the first of these vectors in the batch."""
        raise NotImplementedError

    def _ordered(self, owner: int) -> tuple[Ids, Ids | None]:
        """This rank's rows of the batch of an owner in order of their atoms, and their places in it."""
        route = self.route
        begin = int(route.owners.bounds[owner] + route.begins[self.number])
        end = min(begin + self.batch_atoms, int(route.owners.bounds[owner + 1]))
        ids, rows = route.sent.part(owner * len(route.begins) + self.number)
        return _core.order_atoms(ids, rows, begin, max(0, end - begin))


class LocalBatch(AtomBatch):
    """Each rank has the atoms that it takes."""

    def _prepare(self) -> None:
        place = np.flatnonzero(self.route.owners.ranks == self.agreement.rank)
        self._rows = self._ordered(int(place[0]))[0] if len(place) else np.empty(0, np.uint32)
        start = int(self._rows[0]) if len(self._rows) else 0
        follow_each_other = (self._rows == np.arange(start, start + len(self._rows), dtype=np.uint32)).all()
        self._slice = slice(start, start + len(self._rows)) if follow_each_other else None

    def _exchanged(self, given: list[NDArray[Any]], out: list[NDArray[Any] | None], first: int) -> list[NDArray[Any]]:
        found = []
        with self.timings.of("sort"):
            for number, (values, target) in enumerate(zip(given, out, strict=True), first):
                if self._slice is not None and target is None:
                    found.append(values[self._slice])
                    continue
                if target is None:
                    target = self.exchange.room("taken", number, len(self.atoms), values.dtype)
                if self._slice is not None:
                    target[:] = values[self._slice]
                else:
                    _core.place_atoms(values, self._rows, None, target)
                found.append(target)
        return found


class SharedBatch(AtomBatch):
    """Each rank puts its values where they belong, in memory that all ranks share."""

    def _prepare(self) -> None:
        self._half = self.exchange.next_shared()
        self._to = [(owner, *self._ordered(owner)) for owner in range(len(self.route.owners.ranks))]
        self._to = [one for one in self._to if len(one[1])]

    def _exchanged(self, given: list[NDArray[Any]], out: list[NDArray[Any] | None], first: int) -> list[NDArray[Any]]:
        with self.timings.of("sort"):
            for owner, rows, places in self._to:
                n_atoms = len(rows) if places is None else self.batch_atoms
                for number, values in enumerate(given, first):
                    _core.place_atoms(values, rows, places, self._array(owner, number, values, n_atoms))
        with self.timings.of("communicate"):
            wait_for(self.agreement.comm.Ibarrier())
        own = np.flatnonzero(self.route.owners.ranks == self.agreement.rank)
        found = []
        for number, (values, target) in enumerate(zip(given, out, strict=True), first):
            one = self._array(int(own[0]) if len(own) else 0, number, values, len(self.atoms))
            if target is not None:
                with self.timings.of("sort"):
                    target[:] = one
            found.append(one if target is None else target)
        return found

    def _array(self, owner: int, number: int, like: NDArray[Any], n_atoms: int) -> NDArray[Any]:
        """Where the values of a vector of an owner's batch are."""
        assert self._memory is not None
        place = ((self._half * len(self.route.owners.ranks) + owner) * _VECTORS + number) * self.batch_atoms
        return self._memory.array(place * _VECTOR_BYTES, n_atoms, like.dtype)


class MessageBatch(AtomBatch):
    """Values are sent from rank to rank."""

    def _prepare(self) -> None:
        route, number = self.route, self.number
        self._n_sent, self._n_received = route.n_sent[:, number], route.n_received[:, number]
        n_owners, n_batches = len(route.owners.ranks), len(route.begins)
        parts = [route.sent.part(owner * n_batches + number)[1] for owner in range(n_owners)]
        counts = self._n_sent[route.owners.ranks].tolist()
        listed = [
            np.arange(rows, rows + n, dtype=np.uint32) if isinstance(rows, int) else rows
            for rows, n in zip(parts, counts, strict=True)
        ]
        self._rows = _joined([rows for rows in listed if len(rows)])
        starts = np.cumsum(route.n_received) - route.n_received.ravel()
        begins = starts.reshape(route.n_received.shape)[:, number].tolist()
        pieces = zip(begins, self._n_received.tolist(), strict=True)
        self._ids = _joined([route.taken[begin : begin + n] for begin, n in pieces if n])

    def _exchanged(self, given: list[NDArray[Any]], out: list[NDArray[Any] | None], first: int) -> list[NDArray[Any]]:
        found = []
        for number, (values, target) in enumerate(zip(given, out, strict=True), first):
            kind = values.dtype
            if target is None:
                target = self.exchange.room("taken", number, len(self.atoms), kind)
            sent = self.exchange.room("sent", 0, len(self._rows), kind)
            received = self.exchange.room("received", 0, len(self.atoms), kind)
            with self.timings.of("sort"):
                _core.place_atoms(values, self._rows, None, sent)
            with self.timings.of("communicate"):
                of_mpi = MPI._typedict[kind.char]
                wait_for(
                    _alltoallv(self.agreement.comm, sent, 3 * self._n_sent, received, 3 * self._n_received, of_mpi)
                )
            with self.timings.of("sort"):
                seen = np.zeros(len(self.atoms), np.uint8)
                _core.scatter_atoms(self._ids, self.atoms.start, [received], [target], seen)
            found.append(target)
        return found


def _joined(pieces: list[Ids]) -> Ids:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.empty(0, np.uint32)


def _as_ids(ids: NDArray[np.integer[Any]]) -> Any:
    """The same numbers as an array that is sorted without a copy where it is one already."""
    if ids.dtype not in _ID_TYPES:
        ids = ids.astype(np.uint64 if ids.dtype.kind == "u" else np.int64)
    return np.ascontiguousarray(ids)


def _range_error(ids: NDArray[np.integer[Any]], n_atoms: int, rank: int) -> ArgumentError | None:
    if not len(ids):
        return None
    least, most = int(ids.min()), int(ids.max())
    if 0 <= least and most < n_atoms:
        return None
    wrong = least if least < 0 else most
    return ArgumentError(f"ids: rank {rank} gives atom {wrong}, expected numbers from 0 to {n_atoms - 1}")


def _alltoallv(
    comm: MPI.Intracomm,
    sent: NDArray[Any],
    counts: NDArray[np.int64],
    received: NDArray[Any],
    received_counts: NDArray[np.int64],
    kind: MPI.Datatype,
) -> MPI.Request:
    offsets, received_offsets = np.cumsum(counts) - counts, np.cumsum(received_counts) - received_counts
    return comm.Ialltoallv([sent, (counts, offsets), kind], [received, (received_counts, received_offsets), kind])
