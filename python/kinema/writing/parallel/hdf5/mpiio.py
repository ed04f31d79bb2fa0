"""`MpiioFields`: the strategies "mpiio" and "mpiio-collective" of H5MD: parallel HDF5 writes what each rank has.

Rank 0 makes the data sets and writes steps, times, cells and atoms, by itself; in between all ranks have the file open
through h5py's driver "mpio", and write their atoms of each frame. What is compressed is written collectively, whole
rows of chunks at a time.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, MissingPackageError
from kinema.formats.h5md.write.encoding import ChunkEncoder
from kinema.formats.hdf5.filters import missing_filters
from kinema.formats.hdf5.output import LIBVER, hdf5_errors
from kinema.writing.frames import FrameArrays
from kinema.writing.parallel.agreement import Agreement
from kinema.writing.parallel.exchange import Exchange, even_owners
from kinema.writing.parallel.frames import RankFrame
from kinema.writing.parallel.hdf5.on_root import Hdf5File
from kinema.writing.parallel.placers import info_of
from kinema.writing.parallel.rank_file import FileRequest, FileState

__all__ = ["MpiioFields"]


class MpiioFields(Hdf5File):
    """See the module."""

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        if not h5py.get_config().mpi:
            raise MissingPackageError(
                f"strategy {request.strategy!r} of H5MD needs an h5py that is built on parallel HDF5, and this one is "
                "not: docs/mpi.md says how one is built (`make test-hdf5-mpi` does it on Debian); the "
                "strategies 'gather' and 'subfiles' need none"
            )
        if request.mode == "a":
            raise ArgumentError(
                "mode='a' is not for HDF5 through MPI-IO, which changes the file where it lies, so that a killed run "
                "would leave it damaged; use strategy='gather'"
            )
        super().__init__(request, agreement)
        self._exchange = Exchange(agreement, self.state.n_atoms)
        self._owners = even_owners(self.state.n_atoms, agreement.size, agreement.size)
        self._h5: Any = None
        self._datasets: dict[str, Any] = {}
        # frames whose values are not in the file yet, and the row of the first
        self._held: list[dict[str, NDArray[Any]]] = []
        self._first = 0
        self._names: dict[str, str] = {}
        self._kinds: dict[str, np.dtype[Any]] = {}
        self._observed: list[tuple[str, NDArray[Any], dict[str, Any]]] = []

    def begin(self, first: FrameArrays) -> dict[str, ChunkEncoder]:
        """As `Hdf5File.begin`."""
        self.writer.allocate_early()
        super().begin(first)
        # a file that grows, with a row of steps for each frame
        self.writer.flush()
        made = super().begin(first)
        self._names = {name: series.dataset.name for name, series in self.writer._group.fields.items()}
        return made

    def take_values(self, frame: RankFrame, row: int) -> None:
        """As `Hdf5File.take_values`."""
        own = self._owners.of(self.agreement.rank)
        values = {name: np.empty((len(own), 3), given.dtype) for name, given in frame.vectors.items()}
        widest = max(3 * given.dtype.itemsize for given in values.values())
        batch_atoms = max(1, self.request.hints.batch_bytes // widest)
        route = self._exchange.route(frame.ids, self._owners, batch_atoms, counts=frame.counts)
        for batch in route.batches():
            for name, given in frame.vectors.items():
                batch.values(given, values[name][batch.atoms.start - own.start : batch.atoms.stop - own.start])
        error: Exception | None = None
        try:
            with self.agreement.timings.of("encode"):
                prepared = {name: self.encoders[name].prepared(one) for name, one in values.items()}
        except Exception as raised:
            error = raised
        self.agreement.check(error)
        if not self._held:
            self._first = row
        self._held.append(prepared)
        self._kinds = {name: given.dtype for name, given in frame.vectors.items()}

    def took(self) -> None:
        """As `Hdf5File.took`."""
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
                self.writer.take_back()
                self.writer.leave_fields()
                self.writer.write_announced(n_frames, self._kinds, **self.stamps.taken(n_frames))
                observed, self._observed = self._observed, []
                for name, value, stamps in observed:
                    self.writer.write_observable(name, value, **stamps)
            return self._state()

        self._on_root(count)

    def add_observable(self, name: str, value: Any, **options: Any) -> None:
        """As `RankFile.add_observable`."""
        self.bring()
        super().add_observable(name, value, **options)

    def write_observable(self, name: str, value: Any, **options: Any) -> None:
        """As `RankFile.write_observable`; while all ranks have the file it waits until rank 0 has it again."""
        if self._h5 is None:
            super().write_observable(name, value, **options)
            return

        def check() -> None:
            if name not in self.writer._observables:
                raise ArgumentError(f"observable {name} is unknown, add it first with add_observable")
            step, time = options.get("step"), options.get("time")
            if step is None:
                step, time = self.stamps.steps[-1], self.stamps.times[-1] if time is None else time
            self._observed.append((name, np.array(value), {"step": step, "time": time}))

        self.on_root(check)

    # how

    def _open(self) -> None:
        """All ranks have the file, which rank 0 releases."""
        path, self._names = self.on_root(lambda: (self.writer.release(), self._names))

        def opened() -> Any:
            info = info_of(self.request.hints.info)
            try:
                with hdf5_errors(self.request.path):
                    return h5py.File(path, "r+", driver="mpio", comm=self.agreement.comm, info=info, libver=LIBVER)
            finally:
                info.Free()

        self._h5 = self.agreement.together(opened)
        self._datasets = {name: self._h5[place] for name, place in self._names.items()}
        self.agreement.together(self._check_filters)

    def _check_filters(self) -> None:
        """Raises MissingPackageError on a rank that cannot write chunks, before others wait for it."""
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

        with self.agreement.timings.of("sync"):
            try:
                self.agreement.together(close)
            except BaseException:
                self.break_off()
                raise

    def _write(self) -> None:
        """Writes the frames that are held; collective."""
        if not self._held:
            return
        if self._h5 is None:
            self._open()
        error: BaseException | None = None
        held, self._held = self._held, []
        with self.agreement.timings.of("write"):
            for name, dataset in self._datasets.items():
                try:
                    with hdf5_errors(self.request.path):
                        self._write_field(name, dataset, [one[name] for one in held])
                except BaseException as raised:
                    error = raised
        self.check(error)

    def _write_field(self, name: str, dataset: Any, rows: list[NDArray[Any]]) -> None:
        own = self._owners.of(self.agreement.rank)
        stop = self._first + len(rows)
        if dataset.shape[0] < stop:
            # of all ranks
            dataset.id.set_extent((stop, *dataset.shape[1:]))
        collective = self.request.strategy == "mpiio-collective" or bool(self.encoders[name].storage.filters)
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
        values = np.stack(rows)
        there.select_hyperslab((self._first, own.start, 0), values.shape)
        dataset.id.write(h5py.h5s.create_simple(values.shape), there, values, dxpl=transfer)
