"""`MpiioFields`: H5MD with the strategies "mpiio" and "mpiio-collective": parallel HDF5 writes each rank's atoms.

Rank 0 alone makes the data sets and writes steps, times, cells and atoms. In between, all ranks have the file open
through h5py's driver "mpio" and write their atoms of each frame. Compressed fields are written collectively, in whole
rows of chunks. For other fields rank 0 makes room ahead, and makes all changes to the structure of a file that must
survive a kill; ranks write only numbers, into existing chunks.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, FileIOError, MissingPackageError, os_errors
from kinema.formats.given_frames import FrameArrays
from kinema.formats.hdf5.encoding import ChunkEncoder
from kinema.formats.hdf5.series import set_rows
from kinema.parallel.agreement import Agreement
from kinema.parallel.exchange import Exchange, even_owners
from kinema.parallel.hdf5.hdf5_file import Hdf5File
from kinema.parallel.placers import info_of
from kinema.parallel.rank_file import FileRequest, FileState
from kinema.parallel.rank_frames import RankFrame
from kinema.storage.hdf5.filters import missing_filters
from kinema.storage.hdf5.output import LIBVER, hdf5_errors

# seconds that a rank waits for the others after its collective write has failed
_PATIENCE = 30.0


class MpiioFields(Hdf5File):
    """See the module."""

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        if not h5py.get_config().mpi:
            raise MissingPackageError(
                f"strategy {request.strategy!r} of H5MD needs an h5py that is built on parallel HDF5, and this one is "
                "not: docs/mpi.md says how one is built (`make test-hdf5-mpi` does it on Debian); the "
                "strategies 'gather' and 'subfiles' need none"
            )
        super().__init__(request, agreement)
        self._exchange = Exchange(agreement, self.state.n_atoms)
        self._owners = even_owners(self.state.n_atoms, agreement.size, agreement.size)
        self._h5: Any = None
        self._datasets: dict[str, Any] = {}
        # frames whose values are not in the file yet; below, the row of the first of them
        self._held: list[dict[str, NDArray[Any]]] = []
        self._first = 0
        # rows allocated in the data sets; compressed data sets grow as they are written
        self._room = 0
        self._path = ""
        self._names: dict[str, str] = {}
        self._observed: list[tuple[str, NDArray[Any], dict[str, Any]]] = []
        self.call_on_root(self._check_growth)

    def begin(self, first: FrameArrays) -> dict[str, ChunkEncoder]:
        if self.sink.n_frames:
            made = super().begin(first)
            _, self._names = self.place_of_fields()
            return made
        if self.request.mode == "a" and self.request.options.get("compression") is not None:
            raise self._no_growth("it is compressed")
        self.sink.allocate_early()
        super().begin(first)
        # a growing file, with an explicit step per frame
        self.sink.commit()
        made = super().begin(first)
        _, self._names = self.place_of_fields()
        return made

    def take_values(self, frame: RankFrame, row: int) -> None:
        own = self._owners.rank_atoms(self.agreement.rank)
        values = {name: np.empty((len(own), 3), given.dtype) for name, given in frame.vectors.items()}
        widest = max(3 * given.dtype.itemsize for given in values.values())
        batch_atoms = max(1, self.request.hints.batch_bytes // widest)
        route = self._exchange.route(frame.ids, self._owners, batch_atoms, counts=frame.counts)
        for batch in route.batches():
            for name, given in frame.vectors.items():
                batch.values(given, values[name][batch.atoms.start - own.start : batch.atoms.stop - own.start])
        error: Exception | None = None
        try:
            with self.agreement.timings.measure("encode"):
                prepared = {name: self.encoders[name].prepared(one) for name, one in values.items()}
        except Exception as raised:
            error = raised
        self.agreement.check(error)
        if not self._held:
            self._first = row
        self._held.append(prepared)
        if self._verification is not None and len(own):
            for name, one in prepared.items():
                self._verification.add(name, row, [one], own.start)

    def took(self) -> None:
        rows = max(encoder.chunk_rows for encoder in self.encoders.values())
        if self.state.n_frames % rows == 0 and len(self._held) >= min(self._asked_buffer or 1, 64):
            self._write()

    def bring(self) -> None:
        """As `Hdf5File.bring`: rank 0 takes the file back."""
        if not self.encoders:
            return
        self._write()
        self._close()

        def count() -> FileState:
            n_frames = len(self.stamps)
            if n_frames:
                self.sink.take_back()
                self.sink.stored(self.stamps.taken(n_frames, self.kinds))
                observed, self._observed = self._observed, []
                for name, value, stamps in observed:
                    self.sink.write_observable(name, value, **stamps)
            return self._state()

        self._update_on_root(count)

    def close(self) -> None:
        """As `RankFile.close`; unused room is given back."""
        self.bring()
        if self._room:
            self._update_on_root(self._trimmed)
        super().close()

    def add_observable(self, name: str, value: Any, **options: Any) -> None:
        self.bring()
        super().add_observable(name, value, **options)

    def write_observable(self, name: str, value: Any, **options: Any) -> None:
        """As `RankFile.write_observable`; while all ranks have the file open, it waits until rank 0 has it again."""
        if self._h5 is None:
            super().write_observable(name, value, **options)
            return

        def check() -> None:
            if name not in self.sink._observables:
                raise ArgumentError(f"observable {name} is unknown, add it first with add_observable")
            step, time = options.get("step"), options.get("time")
            if step is None:
                step, time = self.stamps.steps[-1], self.stamps.times[-1] if time is None else time
            self._observed.append((name, np.array(value), {"step": step, "time": time}))

        self.call_on_root(check)

    # how

    def _check_growth(self) -> None:
        """On rank 0: raises ArgumentError if a killed run could leave the file unreadable."""
        if self.request.mode != "a":
            return
        for name, dataset in self.sink.datasets.items():
            if self.sink.encoders[name].storage.filters:
                raise self._no_growth("it is compressed")
            if dataset.id.get_create_plist().get_alloc_time() != h5py.h5d.ALLOC_TIME_EARLY:
                raise self._no_growth("it was not made by 'mpiio'")

    def _no_growth(self, why: str) -> ArgumentError:
        return ArgumentError(
            f"mode='a' is not for this file with HDF5 through MPI-IO: {why}, so HDF5 would change "
            "its structure in place, and a killed run would leave it damaged; use strategy='gather'",
            at=self.request.path,
        )

    @property
    def _is_filtered(self) -> bool:
        return any(encoder.storage.filters for encoder in self.encoders.values())

    def _trimmed(self) -> FileState:
        self.sink.commit()
        self.sink.trim()
        return self._state()

    def _make_room(self, rows: int) -> None:
        """Lets rank 0 lengthen the data sets, in an order of writes that a kill leaves readable; collective."""
        if self._is_filtered or rows <= self._room:
            return
        was_open = self._h5 is not None
        self._close()
        announced = self.request.options.get("n_frames") or 0

        def lengthen() -> int:
            if was_open:
                self.sink.take_back()
            room = max(2 * rows, int(announced))
            self.sink.make_room(room)
            return room

        self._room = self.call_on_root(lengthen)

    def _open(self) -> None:
        """Opens the file on all ranks; rank 0 releases it before."""
        self._path, self._names = self.call_on_root(lambda: (self.sink.release(), self._names))

        def opened() -> Any:
            info = info_of(self.request.hints.info)
            try:
                with hdf5_errors(self.request.path):
                    return h5py.File(
                        self._path, "r+", driver="mpio", comm=self.agreement.comm, info=info, libver=LIBVER
                    )
            finally:
                info.Free()

        self._h5 = self.agreement.together(opened)
        self._datasets = {name: self._h5[place] for name, place in self._names.items()}
        self.agreement.together(self._check_filters)

    def _check_filters(self) -> None:
        """Raises MissingPackageError on a rank that cannot write chunks, before other ranks wait for it."""
        for dataset in self._datasets.values():
            missing = missing_filters(dataset)
            if missing:
                raise MissingPackageError(
                    f"{self.request.path}: HDF5 lacks filter {missing[0]} on rank {self.agreement.rank}; install "
                    "hdf5plugin, or choose compression='gzip'"
                )

    def _close(self) -> None:
        if self._h5 is None:
            return
        h5, self._h5, self._datasets = self._h5, None, {}

        def close() -> None:
            with hdf5_errors(self.request.path):
                h5.close()

        with self.agreement.timings.measure("sync"):
            try:
                self.agreement.together(close)
            except BaseException:
                self.break_off()
                raise

    def _write(self) -> None:
        """Writes the frames that are held; collective."""
        if not self._held:
            return
        self._make_room(self._first + len(self._held))
        if self._h5 is None:
            self._open()
        held, self._held = self._held, []
        try:
            # a rank's error here reaches the others; inside collective calls they would wait for it
            values = self.agreement.together(lambda: self._values_for(held))
        except BaseException:
            self._give_up()
            raise
        error: BaseException | None = None
        with self.agreement.timings.measure("write"):
            for name, dataset in self._datasets.items():
                try:
                    with hdf5_errors(self.request.path):
                        self._write_field(name, dataset, values[name], len(held))
                except BaseException as raised:
                    error = error or raised
        self._check_written(error)

    def _give_up(self) -> None:
        """Takes no more frames; all ranks, which know of the failure, close the file."""
        self.break_off()
        h5, self._h5, self._datasets = self._h5, None, {}
        with suppress(OSError, RuntimeError):
            h5.close()

    def _is_collective(self, name: str) -> bool:
        return self.request.strategy == "mpiio-collective" or bool(self.encoders[name].storage.filters)

    def _values_for(self, held: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        """Rows of each field to be written. Raises FileIOError if this rank has no room for all ranks' rows."""
        n_bytes = 0
        for encoder in self.encoders.values():
            rows = -(-len(held) // encoder.chunk_rows) * encoder.chunk_rows
            n_bytes += rows * encoder.storage.row_bytes
        if any(map(self._is_collective, self.encoders)):
            self._check_free(n_bytes)
        return {name: np.stack([one[name] for one in held]) for name in self.encoders}

    def _check_free(self, n_bytes: int) -> None:
        path = self.request.path
        with os_errors("cannot write the file", path):
            disk, size = os.statvfs(self._path), os.stat(self._path)
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        free = disk.f_bavail * disk.f_frsize
        if limit != resource.RLIM_INFINITY:
            # some of the data to be written already has room
            free = min(free, max(0, limit - size.st_size))
        if n_bytes > free:
            raise FileIOError(f"cannot write the file: no space left, expected {n_bytes} bytes, found {free}", at=path)

    def _check_written(self, error: BaseException | None) -> None:
        """Raises the error of any rank on all of them.

        If this rank has failed in a collective call of HDF5, others may wait for it there and never come here: this
        rank then raises its error after some seconds.
        """
        row = np.array([error is not None], np.int64)
        if error is None:
            failed = self.agreement.gathered(row)[:, 0]
        else:
            rows = self.agreement.gathered_within(_PATIENCE, row)
            if rows is None:
                self.break_off()
                rank = self.agreement.rank
                error.add_note(f"on rank {rank}; other ranks wait for it within a collective call of HDF5: end the job")
                raise error
            failed = rows[:, 0]
        if failed.any():
            self._give_up()
            self.agreement.fail(int(np.argmax(failed)), error)

    def _write_field(self, name: str, dataset: Any, values: NDArray[Any], n_rows: int) -> None:
        own = self._owners.rank_atoms(self.agreement.rank)
        stop, collective = self._first + n_rows, self._is_collective(name)
        if dataset.shape[0] < stop:
            # compressed fields only; on all ranks
            set_rows(dataset, stop)
        transfer = h5py.h5p.create(h5py.h5p.DATASET_XFER)
        transfer.set_dxpl_mpio(h5py.h5fd.MPIO_COLLECTIVE if collective else h5py.h5fd.MPIO_INDEPENDENT)
        there = dataset.id.get_space()
        if not len(own):
            if not collective:
                return
            there.select_none()
            here = h5py.h5s.create_simple((1,))
            here.select_none()
            dataset.id.write(here, there, np.zeros(1, dataset.dtype), dxpl=transfer)
            return
        there.select_hyperslab((self._first, own.start, 0), values.shape)
        dataset.id.write(h5py.h5s.create_simple(values.shape), there, values, dxpl=transfer)
