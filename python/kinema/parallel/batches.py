"""Batches of a frame: values of atoms, brought from the ranks that have them to the ranks that take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from kinema import _core
from kinema.parallel.agreement import AWAKE_BRIEFLY, wait_for
from kinema.parallel.node_memory import NodeMemory

if TYPE_CHECKING:
    from kinema.parallel.exchange import Route

Ids = NDArray[np.uint32]
VECTORS, VECTOR_BYTES = 3, 24
"""Bytes of an atom in shared memory: three vectors of float64."""


class AtomBatch:
    """A batch of each owner's atoms, batch `number` of the frame."""

    def __init__(self, route: Route, number: int, atoms: range, batch_atoms: int, shared: NodeMemory | None) -> None:
        self.route, self.number, self.atoms = route, number, atoms
        self.exchange, self.batch_atoms, self._memory = route.exchange, batch_atoms, shared
        self.agreement, self.timings = route.exchange.agreement, route.exchange.agreement.timings
        self._n_calls = 0
        with self.timings.measure("sort"):
            self._prepare()

    def values(self, given: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Values of this rank's batch, (len(atoms), 3), taken from the values of all ranks.

        Collective; at most for three vectors of a batch.

        Parameters
        ----------
        given : (n_mine, 3), C-contiguous, of the same type of numbers on all ranks
        out : array for the result, C-contiguous
            Without it the result is read-only and valid until the next batch: it may be rows of `given`.
        """
        return self.all_values([given], [out])[0]

    def all_values(self, given: list[NDArray[Any]], out: list[NDArray[Any] | None]) -> list[NDArray[Any]]:
        """As `values`, for several vectors at once."""
        first, self._n_calls = self._n_calls, self._n_calls + len(given)
        return self._exchanged(given, out, first)

    def _prepare(self) -> None:
        """Finds the target of each row."""
        raise NotImplementedError

    def _exchanged(self, given: list[NDArray[Any]], out: list[NDArray[Any] | None], first: int) -> list[NDArray[Any]]:
        """As `all_values`; `first` is the number, in the batch, of the first of these vectors."""
        raise NotImplementedError

    def _ordered(self, owner: int) -> tuple[Ids, Ids | None]:
        """This rank's rows in the batch of an owner, in order of their atoms, and their places in it."""
        route = self.route
        begin = int(route.owners.bounds[owner] + route.begins[self.number])
        end = min(begin + self.batch_atoms, int(route.owners.bounds[owner + 1]))
        ids, rows = route.sent.part(owner * len(route.begins) + self.number)
        return _core.order_atoms(ids, rows, begin, max(0, end - begin))


class LocalBatch(AtomBatch):
    """A batch for frames in which each rank has the atoms that it takes."""

    def _prepare(self) -> None:
        place = np.flatnonzero(self.route.owners.ranks == self.agreement.rank)
        self._rows = self._ordered(int(place[0]))[0] if len(place) else np.empty(0, np.uint32)
        start = int(self._rows[0]) if len(self._rows) else 0
        follow_each_other = (self._rows == np.arange(start, start + len(self._rows), dtype=np.uint32)).all()
        self._slice = slice(start, start + len(self._rows)) if follow_each_other else None

    def _exchanged(self, given: list[NDArray[Any]], out: list[NDArray[Any] | None], first: int) -> list[NDArray[Any]]:
        found = []
        with self.timings.measure("sort"):
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
    """A batch that ranks exchange through shared memory: each rank puts its values in place."""

    def _prepare(self) -> None:
        self._half = self.exchange.next_shared()
        self._to = [(owner, *self._ordered(owner)) for owner in range(len(self.route.owners.ranks))]
        self._to = [one for one in self._to if len(one[1])]

    def _exchanged(self, given: list[NDArray[Any]], out: list[NDArray[Any] | None], first: int) -> list[NDArray[Any]]:
        with self.timings.measure("sort"):
            for owner, rows, places in self._to:
                n_atoms = len(rows) if places is None else self.batch_atoms
                for number, values in enumerate(given, first):
                    _core.place_atoms(values, rows, places, self._array(owner, number, values, n_atoms))
        with self.timings.measure("communicate"):
            # a sleeping rank leaves its core to threads that write
            wait_for(self.agreement.comm.Ibarrier(), AWAKE_BRIEFLY)
        own = np.flatnonzero(self.route.owners.ranks == self.agreement.rank)
        found = []
        for number, (values, target) in enumerate(zip(given, out, strict=True), first):
            one = self._array(int(own[0]) if len(own) else 0, number, values, len(self.atoms))
            if target is not None:
                with self.timings.measure("sort"):
                    target[:] = one
            found.append(one if target is None else target)
        return found

    def _array(self, owner: int, number: int, like: NDArray[Any], n_atoms: int) -> NDArray[Any]:
        """The array for the values of a vector of an owner's batch."""
        assert self._memory is not None
        place = ((self._half * len(self.route.owners.ranks) + owner) * VECTORS + number) * self.batch_atoms
        return self._memory.array(place * VECTOR_BYTES, n_atoms, like.dtype)


class MessageBatch(AtomBatch):
    """A batch whose values are sent from rank to rank."""

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
        self._rows = joined([rows for rows in listed if len(rows)])
        starts = np.cumsum(route.n_received) - route.n_received.ravel()
        begins = starts.reshape(route.n_received.shape)[:, number].tolist()
        pieces = zip(begins, self._n_received.tolist(), strict=True)
        self._ids = joined([route.taken[begin : begin + n] for begin, n in pieces if n])

    def _exchanged(self, given: list[NDArray[Any]], out: list[NDArray[Any] | None], first: int) -> list[NDArray[Any]]:
        found = []
        for number, (values, target) in enumerate(zip(given, out, strict=True), first):
            kind = values.dtype
            if target is None:
                target = self.exchange.room("taken", number, len(self.atoms), kind)
            sent = self.exchange.room("sent", 0, len(self._rows), kind)
            received = self.exchange.room("received", 0, len(self.atoms), kind)
            with self.timings.measure("sort"):
                _core.place_atoms(values, self._rows, None, sent)
            with self.timings.measure("communicate"):
                of_mpi = MPI._typedict[kind.char]
                wait_for(
                    all_to_all(self.agreement.comm, sent, 3 * self._n_sent, received, 3 * self._n_received, of_mpi)
                )
            with self.timings.measure("sort"):
                seen = np.zeros(len(self.atoms), np.uint8)
                _core.scatter_atoms(self._ids, self.atoms.start, [received], [target], seen)
            found.append(target)
        return found


def joined(pieces: list[Ids]) -> Ids:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.empty(0, np.uint32)


def all_to_all(
    comm: MPI.Intracomm,
    sent: NDArray[Any],
    counts: NDArray[np.int64],
    received: NDArray[Any],
    received_counts: NDArray[np.int64],
    kind: MPI.Datatype,
) -> MPI.Request:
    offsets, received_offsets = np.cumsum(counts) - counts, np.cumsum(received_counts) - received_counts
    return comm.Ialltoallv([sent, (counts, offsets), kind], [received, (received_counts, received_offsets), kind])
