"""Exchange of atoms: from the ranks that have them to those that write them, in order of their numbers, in batches.

Of each frame the numbers of all atoms are exchanged first (4 bytes each): whoever receives them finds those that are
missing or given twice before a value is sent, and knows which rows of which rank belong where. Values follow batch by
batch and field by field, so that no rank ever has more than a batch of what others have given. Where each rank has the
atoms that it takes, no value is sent.
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

__all__ = ["Exchange", "Owners", "Route", "even_owners"]

Ids = NDArray[np.uint32]
_ID_TYPES = tuple(np.dtype(name) for name in ("u4", "i8", "i4", "u8"))

# an atom that a rank gives by a wrong number is missing where another rank looks for it: the former is what went wrong
_FOUND_BY_ANOTHER, _OF_A_RANK = 1, 2


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

    def route(self, ids: NDArray[np.integer[Any]], owners: Owners, *, error: BaseException | None = None) -> Route:
        """Where the atoms of a frame go; collective.

        Parameters
        ----------
        ids : (n_mine,) numbers of the atoms that this rank has, in any order
        owners : those who take them
        error : of what this rank has done for the frame before; raised on all ranks

        Raises
        ------
        ArgumentError
            The same on all ranks: a number out of range, of no rank, or of two; it names rank and number.
        """
        agreement, timings = self.agreement, self.agreement.timings
        counts, mine, order = np.zeros(len(owners.ranks), np.int64), np.empty(0, np.uint32), None
        with timings.of("sort"):
            if error is None:
                try:
                    counts, mine, order = _partition(_as_ids(ids), owners.bounds)
                except ArgumentError as raised:
                    error = _range_error(ids, self.n_atoms, agreement.rank) or raised
        sent = np.zeros(agreement.size, np.int64)
        sent[owners.ranks] = counts
        received, taken = sent, mine
        if agreement.size > 1:
            received = np.empty(agreement.size, np.int64)
            with timings.of("communicate"):
                wait_for(agreement.comm.Ialltoall(sent, received))
                taken = np.empty(int(received.sum()), np.uint32)
                wait_for(_alltoallv(agreement.comm, mine, sent, taken, received, MPI.UINT32_T))
        weight = _OF_A_RANK
        with timings.of("sort"):
            if error is None:
                error = self._wrong_ids(taken, received, owners)
                weight = _FOUND_BY_ANOTHER
        is_away = int(sent.sum() - sent[agreement.rank]) > 0
        rows = agreement.gathered(np.array([0 if error is None else weight, is_away], np.int64))
        if rows[:, 0].any():
            agreement.fail(int(np.argmax(rows[:, 0])), error)
        starts = np.concatenate([[0], np.cumsum(received)])
        return Route(self, owners, order, mine, taken, starts, not rows[:, 1].any())

    def room(self, use: str, number: int, n_atoms: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """An array (n_atoms, 3) whose memory the next call for the same use and number takes again."""
        n_bytes = 3 * n_atoms * kind.itemsize
        buffer = self._buffers.get((use, number))
        if buffer is None or len(buffer) < n_bytes:
            buffer = self._buffers[use, number] = np.empty(n_bytes, np.uint8)
        return buffer[:n_bytes].view(kind).reshape(n_atoms, 3)

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
class Route:
    """Where the atoms of a frame go.

    Attributes
    ----------
    order : this rank's rows, those of the first owner first; None where they are given so
    mine : their numbers, in this order
    taken : numbers of the atoms that this rank takes, those of the first rank first
    starts : where those of each rank begin in `taken`
    is_local : whether each rank has the atoms that it takes, and no others
    """

    exchange: Exchange
    owners: Owners
    order: Ids | None
    mine: Ids
    taken: Ids
    starts: NDArray[np.int64]
    is_local: bool

    def batches(self, batch_atoms: int) -> Iterator[AtomBatch]:
        """The frame in batches of so many atoms of each owner; as many on all ranks."""
        owners, agreement = self.owners, self.exchange.agreement
        begins = np.arange(0, owners.longest, batch_atoms)
        with agreement.timings.of("sort"):
            sent = self._sent(begins)
            own = owners.of(agreement.rank)
            received = self._received(np.minimum(own.start + begins + batch_atoms, own.stop))
            sources = np.flatnonzero(np.diff(self.starts))
        for number, begin in enumerate(begins.tolist()):
            yield AtomBatch(self, own[begin : begin + batch_atoms], number, sent, received, sources)

    def _received(self, ends: NDArray[np.int64]) -> list[_Sorted]:
        """The rows of each rank that sends some, by batch; none where no values are sent."""
        if self.is_local:
            return []
        pieces = zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
        return [_Sorted.by(self.taken[begin:end], [0, *ends.tolist()]) for begin, end in pieces if begin < end]

    def _sent(self, begins: NDArray[np.int64]) -> _Sorted:
        """The rows of this rank by owner, and of each owner by batch."""
        first, last = self.owners.bounds[:-1, None], self.owners.bounds[1:, None]
        bounds = np.minimum(first + begins, last).ravel().tolist()
        found = _Sorted.by(self.mine, [*bounds, int(self.owners.bounds[-1])])
        order = self.order
        if found.order is not None:
            order = found.order if order is None else order[found.order]
        return _Sorted(found.ends, found.ids, order)


@dataclass(frozen=True)
class _Sorted:
    """Rows sorted by the range of their numbers: where the rows of range i end, which is where those of i + 1 begin;
    their numbers; which rows these are, None where they are in order."""

    ends: NDArray[np.int64]
    ids: Ids
    order: Ids | None

    @classmethod
    def by(cls, ids: Ids, bounds: list[int]) -> _Sorted:
        counts, ids, order = _core.partition_atoms(ids, bounds)
        return cls(np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]), ids, order)

    def rows(self, part: int) -> slice:
        """Places of the rows of a range."""
        return slice(int(self.ends[part]), int(self.ends[part + 1]))


class AtomBatch:
    """A batch of the atoms of each owner, number `number` of the frame.

    Attributes
    ----------
    atoms : range
        Those of this rank.
    """

    def __init__(
        self,
        route: Route,
        atoms: range,
        number: int,
        sent: _Sorted,
        received: list[_Sorted],
        sources: NDArray[np.int64],
    ) -> None:
        self._route, self.atoms = route, atoms
        self._exchange, self._n_calls = route.exchange, 0
        agreement = self._exchange.agreement
        with agreement.timings.of("sort"):
            owners = route.owners
            n_batches = (len(sent.ends) - 1) // len(owners.ranks)
            pieces = [sent.rows(owner * n_batches + number) for owner in range(len(owners.ranks))]
            self._sent = np.zeros(agreement.size, np.int64)
            self._sent[owners.ranks] = [piece.stop - piece.start for piece in pieces]
            pieces = [piece for piece in pieces if piece.start < piece.stop]
            self._rows = _rows_of(pieces, sent.order)
            self._received = np.zeros(agreement.size, np.int64)
            if route.is_local:
                self._ids = _joined([sent.ids[piece] for piece in pieces])
            else:
                arrived = [one.ids[one.rows(number)] for one in received] if len(atoms) else []
                if arrived:
                    self._received[sources] = [len(ids) for ids in arrived]
                self._ids = _joined(arrived)
            self._in_order = bool((self._ids == np.arange(atoms.start, atoms.stop, dtype=np.uint32)).all())
            if route.is_local and not self._in_order:
                # from which row each atom of the batch comes
                rows = np.empty(len(atoms), np.uint32)
                given = np.arange(self._rows.start, self._rows.stop) if isinstance(self._rows, slice) else self._rows
                rows[self._ids - np.uint32(atoms.start)] = given
                self._rows = rows

    def values(self, given: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Values of this rank's batch, (len(atoms), 3), of those that all ranks have given; collective.

        Parameters
        ----------
        given : (n_mine, 3) of the same type of numbers on all ranks, C-contiguous
        out : where they are put, C-contiguous
            Without it they are read only, and hold until the next batch: they may be rows of `given`.
        """
        self._n_calls += 1
        timings = self._exchange.agreement.timings
        is_local = self._route.is_local
        if is_local and out is None and isinstance(self._rows, slice):
            return given[self._rows]
        if out is None:
            out = self._exchange.room("taken", self._n_calls, len(self.atoms), given.dtype)
        if is_local:
            with timings.of("sort"):
                self._put(given, out)
            return out
        with timings.of("sort"):
            if isinstance(self._rows, slice):
                sent = given[self._rows]
            else:
                sent = self._put(given, self._exchange.room("sent", 0, len(self._rows), given.dtype))
            received = out
            if not self._in_order:
                received = self._exchange.room("received", 0, len(self.atoms), given.dtype)
        with timings.of("communicate"):
            kind = MPI._typedict[given.dtype.char]
            comm = self._exchange.agreement.comm
            wait_for(_alltoallv(comm, sent, 3 * self._sent, received, 3 * self._received, kind))
        if not self._in_order:
            with timings.of("sort"):
                seen = np.zeros(len(self.atoms), np.uint8)
                _core.scatter_atoms(self._ids, self.atoms.start, [received], [out], seen)
        return out

    def _put(self, given: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """This batch's rows of `given`, in `out`."""
        if isinstance(self._rows, slice):
            out[:] = given[self._rows]
        else:
            _core.take_atoms(given, self._rows, out)
        return out


def _rows_of(pieces: list[slice], order: Ids | None) -> slice | Ids:
    """Rows of given arrays, of these pieces of their order; a slice where they lie one behind the other."""
    if order is not None:
        return _joined([order[piece] for piece in pieces])
    if len(pieces) <= 1:
        return pieces[0] if pieces else slice(0, 0)
    return np.concatenate([np.arange(piece.start, piece.stop, dtype=np.uint32) for piece in pieces])


def _joined(pieces: list[Ids]) -> Ids:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.empty(0, np.uint32)


def _as_ids(ids: NDArray[np.integer[Any]]) -> Any:
    """The same numbers as an array that is sorted without a copy where it is one already."""
    if ids.dtype not in _ID_TYPES:
        ids = ids.astype(np.uint64 if ids.dtype.kind == "u" else np.int64)
    return np.ascontiguousarray(ids)


def _partition(ids: Any, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ids, Ids | None]:
    counts, mine, order = _core.partition_atoms(ids, bounds.tolist())
    return counts.astype(np.int64), mine, order


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
