"""`kinema.ml.convert`: samples of many files (`.npz`, `.npy`, HDF5) as one HDF5 archive for training."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.base.notes import emit, returns_notes
from kinema.base.printable import counted, printable
from kinema.base.progress import ProgressChoice, Report, reporting
from kinema.cache.node_cache import NodeCacheChoice
from kinema.execution.checkpoint.file import Checkpoint, CheckpointChoice
from kinema.files.conversion.resumable import block_file, is_published
from kinema.ml.archives.passes import ReadBack, WritePass
from kinema.ml.archives.plan import ConversionPlan, DtypeChoice
from kinema.ml.archives.writers import GrowingArchive, PlacedArchive, make_part, write_structure
from kinema.storage.hdf5.filters import Compression
from kinema.storage.hdf5.output import GrowingFile, NewFile, OutputPart
from kinema.storage.output_checks import check_not_input, check_target

SUFFIXES = (".h5", ".hdf5")


@dataclass(frozen=True)
class ConvertedSamples:
    """The archive that `convert` has made.

    Attributes
    ----------
    path : str
    n_samples, n_files : int
        Number of samples, and of the files that they were read from.
    fields : tuple of str
        Names of the arrays.
    layout : tuple of str
        For each array: shape, type, and "contiguous" or the samples in a chunk.
    size : int
        Bytes of the archive.
    seconds : float
        Wall time from the first byte to the last, with the file synced, without reading it back.
    gib_per_second : float
        GiB of samples per second, before compression.
    workers : int
    timings : mapping of str to float
        Seconds of all workers: "read" (with inflating and conversion of types) and "write" (with compressing); seconds
        of this process: "compare".
    verified : bool
        Whether all samples were read back and compared.
    n_restored : int
        Samples that an earlier call had written, according to the checkpoint.
    notes : tuple of str
        What a user of the archive should know (`kinema.base.notes`).
    """

    path: str
    n_samples: int
    n_files: int
    fields: tuple[str, ...]
    layout: tuple[str, ...]
    size: int
    n_bytes: int
    """Bytes of the samples, before compression."""
    seconds: float
    workers: int
    timings: Mapping[str, float]
    verified: bool
    n_restored: int = 0
    notes: tuple[str, ...] = ()

    @property
    def gib_per_second(self) -> float:
        """Speed of the conversion in GiB of samples a second; 0 if it took no time."""
        return self.n_bytes / self.seconds / 2**30 if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        restored = f"{counted(self.n_restored, 'sample')} were there already; " if self.n_restored else ""
        compared = "read back and compared" if self.verified else "not read back"
        return "\n".join(
            [
                f"{printable(self.path)}: {counted(self.n_samples, 'sample')} of {counted(self.n_files, 'file')}, "
                f"{self.size:,} bytes in {self.seconds:.2f} s, {self.gib_per_second:.2f} GiB/s on "
                f"{counted(self.workers, 'worker')}; {restored}{compared}",
                *(f"  {printable(one)}" for one in self.layout),
            ]
        )


def plan_conversion(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    layout: str | Sequence[int] | None = None,
    compression: str | tuple[int, Sequence[int]] | None = None,
    level: int | None = None,
    shuffle: bool | None = None,
    checksum: bool = False,
    fields: str | Sequence[str] | None = None,
    dtype: DtypeChoice = None,
    workers: int | None = None,
    memory: int | str | None = None,
    file_is_sample: bool | None = None,
    node_cache: NodeCacheChoice = None,
) -> ConversionPlan:
    """Plans what `convert` does with these arguments; `print` shows layout, memory and the reads of a training loop.

    Reads the headers of the sources; writes nothing. Raises as `convert`.
    """
    return ConversionPlan.from_paths(
        sources,
        layout=layout,
        compression=Compression(compression, level, shuffle, checksum),
        fields=fields,
        dtype=dtype,
        workers=workers,
        memory=memory,
        file_is_sample=file_is_sample,
        node_cache=node_cache,
    )


@returns_notes
def convert(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    layout: str | Sequence[int] | None = None,
    compression: str | tuple[int, Sequence[int]] | None = None,
    level: int | None = None,
    shuffle: bool | None = None,
    checksum: bool = False,
    fields: str | Sequence[str] | None = None,
    dtype: DtypeChoice = None,
    workers: int | None = None,
    memory: int | str | None = None,
    file_is_sample: bool | None = None,
    node_cache: NodeCacheChoice = None,
    overwrite: bool = False,
    verify: bool = True,
    checkpoint: CheckpointChoice = None,
    checkpoint_interval: float | None = None,
    progress: ProgressChoice = False,
) -> ConvertedSamples:
    """Writes the samples of files, one file after the other, as data sets of one HDF5 file.

    The file appears whole or not at all. Numbers keep every bit, unless `dtype=` is given, and are in this machine's
    byte order. `SampleDataset("train.h5").origin(ids)` returns the file and row that each sample comes from.

    Parameters
    ----------
    sources : path, list of paths, or a folder
        As for `SampleDataset`: `.npz` (stored and deflated), `.npy`, HDF5; a folder of them, with `file_is_sample`.
    output : path
        `.h5` or `.hdf5`.
    layout : str, optional
        "contiguous" (default), "samples" (about 64 KiB of samples in a chunk; default if chunks are compressed) or
        "samples:N" (N samples in a chunk). With "samples:N", chunks of the arrays that are not the widest have about 64
        KiB if N of their samples are below 4 KiB.
    compression, level, shuffle, checksum
        As for `kinema.Writer`.
    fields : str or list of str, optional
        Arrays; by default all of the first file.
    dtype : NumPy type, or mapping of types by array; optional
        Values are rounded if the type has fewer digits; a note gives the largest change. A value that the type cannot
        hold is an error.
    workers : int, optional
        Threads; by default as many as this process may use.
    memory : int or str, optional
        Limit of working memory, such as "256 MiB".
    file_is_sample : bool, optional
        As for `SampleDataset`: whether each file is one sample.
    node_cache : kinema.cache.NodeCache or path, optional
        As for `SampleDataset`.
    overwrite : bool
        Replace an existing file.
    verify : bool
        Read everything back before the file gets its name. CRC-32 checksums of pieces, computed when they were written,
        are compared; samples that an earlier call has written, by a checkpoint, are compared with the sources byte by
        byte.
    checkpoint : path or Checkpoint, optional
        A file that records the progress. However the call ends, the same call continues after the samples that are
        written, and gives the same values. The file is removed when the archive is whole.
    checkpoint_interval : float, optional
        Seconds between two saves; 30 by default.
    progress : bool, None or function

    Returns
    -------
    ConvertedSamples

    Raises
    ------
    ArgumentError
        If arrays are missing or differ in length, files do not fit together, the output exists or is an input, or the
        checkpoint is of another call; the message names the difference.
    UnsupportedFormatError
        For pickled objects, which are never unpickled, and for types that HDF5 does not have.
    MemoryLimitError, TruncatedFileError, CorruptFileError, FileIOError, ...
        With path and byte. An existing `output` stays as it was, and no other file is left, except those that a
        checkpoint names.

    Examples
    --------
    >>> np.savez("a.npz", x=np.zeros((10, 2)))
    >>> np.savez("b.npz", x=np.ones((5, 2)))
    >>> kinema.ml.convert(["a.npz", "b.npz"], "train.h5").n_samples
    15
    """
    name, saved = os.fspath(output), Checkpoint.from_choice(checkpoint, checkpoint_interval)
    _check_output(name, overwrite=overwrite, checkpoint=saved)
    plan = plan_conversion(
        sources, layout=layout, compression=compression, level=level, shuffle=shuffle, checksum=checksum,
        fields=fields, dtype=dtype, workers=workers, memory=memory, file_is_sample=file_is_sample,
        node_cache=node_cache,
    )  # fmt: skip
    paths = plan.sources.dataset.paths
    check_not_input(name, *paths)
    if saved is not None:
        if os.path.abspath(name) == os.path.abspath(saved.name):
            raise ArgumentError("the output and checkpoint are two files; give two names", at=name)
        check_not_input(saved.name, *paths)
    total = plan.n_bytes * (2 if verify else 1)
    with reporting(progress, f"converting {os.path.basename(name)}", total, "bytes") as report:
        work = _OneConversion(plan, name, verify, report, total)
        size = work.make(overwrite) if saved is None else work.resumably(saved)
    notes = _rounding_notes(plan)
    emit(notes)
    return ConvertedSamples(
        path=name,
        n_samples=plan.n_samples,
        n_files=plan.sources.n_files,
        fields=plan.sources.fields,
        layout=tuple(str(one) for one in plan.fields),
        size=size,
        n_bytes=plan.n_bytes,
        seconds=work.seconds,
        workers=plan.workers,
        timings={"read": work.writing.reading, "write": work.writing.writing, "compare": work.comparing},
        verified=verify,
        n_restored=work.n_restored,
        notes=notes,
    )


def _check_output(name: str, *, overwrite: bool, checkpoint: Checkpoint | None) -> None:
    """Raises the error that keeps `convert` from writing there, before anything is read."""
    if not name.lower().endswith(SUFFIXES):
        raise ArgumentError(
            f"archives are HDF5 files; give the output a name that ends in {' or '.join(SUFFIXES)}", at=name
        )
    check_target(name, overwrite=overwrite or is_published(name, checkpoint))


def _rounding_notes(plan: ConversionPlan) -> tuple[str, ...]:
    found = []
    for field, one in plan.sources.conversions.items():
        if one.rounds and one.largest_change:
            found.append(f"{field} is stored as {one.dtype}: no value was moved by more than {one.largest_change:.3g}")
    return tuple(found)


class _OneConversion:
    """One call of `convert` with checked arguments."""

    def __init__(self, plan: ConversionPlan, name: str, verify: bool, report: Report | None, total: int) -> None:
        self.plan, self.name, self.verify = plan, name, verify
        self.writing = WritePass(plan, checksums=verify)
        self.n_restored = 0
        self.seconds = self.comparing = 0.0
        self._report, self._total = report, total
        self._compared = 0

    def make(self, overwrite: bool) -> int:
        """Makes the archive in one call; nothing of it stays if the call raises. Returns its size in bytes."""
        plan = self.plan
        begun = time.perf_counter()
        with _new_file(self.name, overwrite) as new:
            write_structure(new.h5, plan.fields, plan.origin, plan.provenance(), self.name)
            if plan.is_placed:
                new.keep(protect=False)
                with PlacedArchive(new.temporary, self.name, plan.sources.fields) as placed:
                    self.writing.place(placed, self._advance)
            else:

                def advance() -> None:
                    new.check()
                    self._advance()

                with GrowingArchive(new, plan.fields, plan.workers) as growing:
                    self.writing.extend(growing, advance)
            self.seconds = time.perf_counter() - begun
            self._compare(new.temporary)
            new.publish()
        return os.path.getsize(self.name)

    def resumably(self, checkpoint: Checkpoint) -> int:
        """The same, or continues the archive that an earlier call has left."""
        plan = self.plan

        def opened(part: OutputPart) -> PlacedArchive | GrowingArchive:
            make_part(part, plan.fields, plan.origin, plan.provenance())
            if plan.is_placed:
                return PlacedArchive(part.temporary, self.name, plan.sources.fields, output.n_restored)
            return GrowingArchive(GrowingFile(part.temporary), plan.fields, plan.workers)

        def fill(archive: Any, taken: Callable[[], None]) -> None:
            def tick() -> None:
                taken()
                self._advance()

            self.writing.restored = archive.n_frames
            (self.writing.place if plan.is_placed else self.writing.extend)(archive, tick)

        begun = time.perf_counter()
        with block_file(self.name, checkpoint, lambda saved: plan.items(self.name, saved)) as output:
            output.write(opened, fill, progress=lambda _: None)
            self.n_restored = self.writing.restored = output.n_restored
            self.seconds = time.perf_counter() - begun
            try:
                self._compare(output.temporary)
            except CorruptFileError as error:
                if error.path == self.name:
                    output.reject()
                raise
        return os.path.getsize(self.name)

    def _compare(self, temporary: str) -> None:
        if not self.verify:
            return
        begun = time.perf_counter()
        back = ReadBack(self.plan, self.writing, temporary, self.name)

        def advance() -> None:
            self._compared = back.n_bytes
            self._advance()

        back.compare(advance)
        self.comparing = time.perf_counter() - begun

    def _advance(self) -> None:
        if self._report is not None:
            self._report(min(self.writing.n_bytes + self._compared, self._total), self._total)


@contextmanager
def _new_file(name: str, overwrite: bool) -> Iterator[NewFile]:
    """A new file that the block publishes; nothing of it stays if the block raises."""
    new = NewFile(name, overwrite=overwrite)
    try:
        yield new
    except BaseException:
        new.discard()
        new.end()
        # closed by `keep`
        with suppress(FileNotFoundError):
            os.unlink(new.temporary)
        raise
