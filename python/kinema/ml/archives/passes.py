"""The two passes of a conversion: write the samples from the sources into the archive, then compare the two."""

from __future__ import annotations

import itertools
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import CorruptFileError
from kinema.base.prefetch import prefetched
from kinema.ml.archives.plan import ConversionPlan
from kinema.ml.archives.sources import ReadRows, RowsInPlace
from kinema.ml.archives.tasks import ThreadBuffers, carry_out
from kinema.ml.archives.writers import GrowingArchive, PlacedArchive
from kinema.ml.stored.samples import samples_of

Stopped = Callable[[], bool]


class SourceRows(NamedTuple):
    """Rows `start` to `stop` of an array of a file."""

    name: str
    file: int
    start: int
    stop: int


class WrittenSamples(NamedTuple):
    """Samples `start` to `stop` of an array of the archive, with the CRC-32 of their bytes."""

    name: str
    start: int
    stop: int
    checksum: int


class WritePass:
    """Writes the samples from the sources into the archive.

    `restored`: samples that are already there; they are read again only if a checksum of a whole member needs them.
    `n_bytes`: bytes of samples of the archive that are done.
    `reading`, `writing`: seconds of all workers.
    """

    def __init__(self, plan: ConversionPlan, *, checksums: bool) -> None:
        """`checksums`: whether the checksums of what is written are kept."""
        self._plan, self._sources, self._checksums = plan, plan.sources, checksums
        self._widths = {one.name: one.row_bytes for one in plan.fields}
        self._lock = threading.Lock()
        self.restored = 0
        self.written: list[WrittenSamples] = []
        self.n_bytes = 0
        self.reading = self.writing = 0.0

    def place(self, archive: PlacedArchive, tick: Callable[[], object]) -> None:
        """Writes all samples after the restored ones to their places, with all workers. `tick`: see `carry_out`."""
        buffers = ThreadBuffers()
        self.n_bytes = self.restored * sum(self._widths.values())

        def work(rows: SourceRows, stopped: Stopped) -> None:
            begun = time.perf_counter()
            first = int(self._sources.bounds[rows.file])
            spent, piece = 0.0, None
            for run in self._sources.runs(*rows, self._plan.block_bytes, buffers):
                if stopped():
                    return
                start, made = self._converted(rows.name, first, run)
                if len(made):
                    piece = self._continued(piece, rows.name, start, made)
                    before = time.perf_counter()
                    archive.write(rows.name, start, made)
                    spent += time.perf_counter() - before
                    self._count(made.nbytes)
            self._keep(piece)
            with self._lock:
                self.writing += spent
                self.reading += time.perf_counter() - begun - spent

        carry_out(self._tasks(), work, self._plan.workers, tick)

    def extend(self, archive: GrowingArchive, tick: Callable[[], object]) -> None:
        """Writes all samples after the restored ones in their order: a thread reads, all workers encode chunks."""
        self.n_bytes = self.restored * sum(self._widths.values())
        in_order = self._convert_rest()
        shapes = {one.name: (one.storage.dtype, one.storage.shape[1:]) for one in self._plan.fields}
        pieces: dict[str, WrittenSamples | None] = {}
        with closing(prefetched(lambda _: next(in_order, None), itertools.count())) as steps:
            for step in steps:
                if step is None:
                    break
                name, start, made = step
                dtype, shape = shapes[name]
                pieces[name] = self._continued(pieces.get(name), name, start, made)
                before = time.perf_counter()
                # zlib's output may begin at any byte
                values = np.require(made.view(dtype), requirements="A")
                archive.extend(name, values.reshape(-1, *shape))
                self.writing += time.perf_counter() - before
                self._count(made.nbytes)
                tick()
        for piece in pieces.values():
            self._keep(piece)

    def _convert_rest(self) -> Iterator[tuple[str, int, NDArray[np.uint8]]]:
        """Array, first sample and bytes of the samples after the restored ones, file by file, with arrays in turn."""
        sources = self._sources
        for file in range(sources.n_files):
            first = int(sources.bounds[file])
            tasks = [found for name in sources.fields for found in self._tasks_of(name, file)]
            runs = {name: self._runs_of([task for task in tasks if task.name == name]) for name in sources.fields}
            done = dict.fromkeys(runs, 0)
            while runs:
                name = min(runs, key=lambda one: done[one])
                begun = time.perf_counter()
                run = next(runs[name], None)
                if run is None:
                    del runs[name]
                    continue
                done[name] = run.first + len(run.rows)
                start, made = self._converted(name, first, run)
                self.reading += time.perf_counter() - begun
                if len(made):
                    yield name, start, made

    def _runs_of(self, tasks: list[SourceRows]) -> Iterator[ReadRows]:
        for rows in tasks:
            yield from self._sources.runs(*rows, self._plan.block_bytes, _new_room)

    def _converted(self, name: str, first: int, run: ReadRows) -> tuple[int, NDArray[np.uint8]]:
        """The rows of a run that are not restored, converted for the archive, and the number of the first sample."""
        start = first + run.first
        skipped = min(max(0, self.restored - start), len(run.rows))
        return start + skipped, self._sources.conversions[name](run.rows[skipped:])

    def _continued(
        self, piece: WrittenSamples | None, name: str, start: int, made: NDArray[np.uint8]
    ) -> WrittenSamples | None:
        """A piece extended by the rows that follow it, or a new piece; None if no checksums are kept."""
        if not self._checksums:
            return None
        if piece is not None and (piece.stop - piece.start) * self._widths[name] >= self._plan.block_bytes:
            self._keep(piece)
            piece = None
        begin, before = (start, 0) if piece is None else (piece.start, piece.checksum)
        return WrittenSamples(name, begin, start + len(made), zlib.crc32(made.data, before))

    def _keep(self, piece: WrittenSamples | None) -> None:
        if piece is not None:
            with self._lock:
                self.written.append(piece)

    def _count(self, n_bytes: int) -> None:
        with self._lock:
            self.n_bytes += n_bytes

    def _tasks(self) -> Iterator[SourceRows]:
        """All reads, file by file: streams whole, others in pieces of one run."""
        for file in range(self._sources.n_files):
            for name in self._sources.fields:
                yield from self._tasks_of(name, file)

    def _tasks_of(self, name: str, file: int) -> Iterator[SourceRows]:
        sources, one = self._sources, self._sources.file(name, file)
        missing = max(0, self.restored - int(sources.bounds[file]))
        if missing >= one.rows:
            return
        if sources.is_stream(name, file):
            yield SourceRows(name, file, 0, one.rows)
            return
        begin = 0 if sources.is_checked(name, file) else missing
        length = sources.run_length(name, file, self._plan.block_bytes)
        while begin < one.rows:
            end = min(one.rows, begin - begin % length + length)
            yield SourceRows(name, file, begin, end)
            begin = end


class ReadBack:
    """Compares the archive with the samples that were to be written.

    By checksums, or, if an earlier call has written the samples, with the sources.

    `n_bytes`: bytes compared so far.
    """

    def __init__(self, plan: ConversionPlan, written: WritePass, path: str, name: str) -> None:
        self._plan, self._written, self._name = plan, written, name
        self._found = {one.name: RowsInPlace(one) for one in samples_of(path, plan.sources.fields, whole=False)}
        self._widths = {one.name: one.row_bytes for one in plan.fields}
        self._there, self._given = ThreadBuffers(), ThreadBuffers()
        self._lock = threading.Lock()
        self.n_bytes = 0

    def compare(self, tick: Callable[[], object]) -> None:
        """Compares all samples, with all workers. Raises CorruptFileError with the archive's name if they differ."""
        pieces: Iterator[SourceRows | WrittenSamples] = itertools.chain(self._restored(), self._written.written)
        carry_out(pieces, self._compare, self._plan.workers, tick)

    def _restored(self) -> Iterator[SourceRows]:
        sources = self._plan.sources
        for file in range(sources.n_files):
            there = self._written.restored - int(sources.bounds[file])
            for name in sources.fields:
                stop = min(there, sources.file(name, file).rows)
                if stop > 0:
                    yield SourceRows(name, file, 0, stop)

    def _compare(self, piece: SourceRows | WrittenSamples, stopped: Stopped) -> None:
        if isinstance(piece, WrittenSamples):
            found = self._read(piece.name, piece.start, piece.stop)
            if zlib.crc32(found.data) != piece.checksum:
                raise self._differs(piece.name, piece.start, piece.stop)
            return
        sources = self._plan.sources
        first = int(sources.bounds[piece.file])
        for run in sources.runs(*piece, self._plan.block_bytes, self._given, check=False):
            if stopped():
                return
            start, expected = first + run.first, sources.conversions[piece.name](run.rows)
            if not np.array_equal(self._read(piece.name, start, start + len(expected)), expected):
                raise self._differs(piece.name, start, start + len(expected))

    def _read(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        found = self._found[name].read(start, stop, self._there)
        with self._lock:
            self.n_bytes += (stop - start) * self._widths[name]
        return found

    def _differs(self, name: str, start: int, stop: int) -> CorruptFileError:
        return CorruptFileError(
            f"{name} does not hold what was written, samples {start} to {stop - 1}; the disk or the "
            "memory of this machine may be faulty",
            at=self._name,
        )


def _new_room(n_bytes: int) -> NDArray[np.uint8]:
    return np.empty(n_bytes, np.uint8)
