"""`SampleDataset`: samples x features of any type, in HDF5, `.npy` and `.npz` files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, Error
from kinema.base.progress import Report
from kinema.base.resources import parse_memory, worker_count
from kinema.cache.counts import emit_troubles
from kinema.cache.node_cache import NodeCache, NodeCacheChoice, node_cache_of
from kinema.ml.batch import Batch
from kinema.ml.dataset import Dataset, Extents, Reading
from kinema.ml.processes import ProcessLocal, file_pool
from kinema.ml.sample_numbers import sample_numbers
from kinema.ml.stored.deflated import DeflatedMembers
from kinema.ml.stored.origin import SampleOrigin, origin_of
from kinema.ml.stored.sample_files import SampleFiles
from kinema.ml.stored.samples import Deflated, SampleFile, extents_of
from kinema.storage.hdf5.stored_dataset import StoredDataset

__all__ = ["SampleDataset", "Transform", "transformed"]

_OTHERS = "; choose other arrays with fields= (--fields)"
Transform = Callable[[Batch], Mapping[str, Any] | None]


class SampleDataset(Dataset):
    """Samples of archives: rows of arrays; all arrays of a file have the same number of rows.

    HDF5 data sets (contiguous or in chunks, compressed by the filters that Kinema has), `.npy` and stored members of
    `.npz` are read in place. Deflated members are decompressed from their beginning; `explain()` says so.

    Parameters
    ----------
    source : path, list of paths, or a folder
        A pattern (`"*.npz"`) stands for the matching files, in the order of the numbers in their names. Files that
        another node has published and keeps (`kinema.cache.publish(local=)`) are fetched to the folder of `node_cache`.
        A folder stands for all its files, in the order of their names: archives, or one file for each sample
        (`file_is_sample`). A folder that `kinema.ml.export` has made stands for its shards.
    fields : str or list of str, optional
        Names of the arrays (data sets or members). By default all at the root of the first file. The array of a `.npy`
        file is called "samples".
    dtype : NumPy type, optional
        Type of all arrays; by default as stored, in this machine's byte order.
    transform : callable, optional
        Takes each batch and changes its arrays, or returns a mapping of other arrays.
    file_is_sample : bool, optional
        Whether each file is one sample. By default the files of a folder are, with a note; if all of them may be
        archives of several samples, the folder is refused until this is given.
    memory : int or str
        Limit for samples of deflated members that are kept decompressed.
    node_cache : kinema.cache.NodeCache or path, optional
        Blocks of the files are kept in a folder of this node, and fetched once for all its processes. Headers and the
        structure of HDF5 files are read from the files themselves.

    Raises
    ------
    FileNotFound, FileAccessError, TruncatedFileError, CorruptFileError, UnsupportedFormatError, ArgumentError
        Pickled objects are refused: nothing is ever unpickled.

    Examples
    --------
    >>> np.savez("a.npz", x=np.arange(20.0).reshape(10, 2))
    >>> samples = kinema.ml.SampleDataset("a.npz")
    >>> samples.read([5, 2, 2])["x"]
    array([[10., 11.],
           [ 4.,  5.],
           [ 4.,  5.]])
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        fields: str | Sequence[str] | None = None,
        *,
        dtype: DTypeLike | None = None,
        transform: Transform | None = None,
        file_is_sample: bool | None = None,
        memory: int | str = "256 MiB",
        node_cache: NodeCacheChoice = None,
    ) -> None:
        self._transform = transform
        self._memory = parse_memory(memory)
        wanted = [fields] if isinstance(fields, str) else None if fields is None else list(fields)
        cache = node_cache_of(node_cache)
        found = SampleFiles.from_source(source, wanted, file_is_sample, None if cache is None else cache.root)
        self._whole, files = found.file_is_sample, found.arrays
        first = files[0]
        self._names = tuple(one.name for one in first)
        self._paths = [os.path.abspath(path) for path in found.paths]
        self._statuses = found.statuses
        self._files = {name: [file[i] for file in files] for i, name in enumerate(self._names)}
        self._types = {one.name: _type(one, dtype) for one in first}
        rows = [file[0].rows for file in files]
        self._bounds = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        self._node_cache = None if cache is None else cache.sized(max(map(_unit, first)))
        self._opened: ProcessLocal[_OpenSamples] = ProcessLocal(self._open)
        self._origins: dict[int, SampleOrigin] = {}

    def __len__(self) -> int:
        return int(self._bounds[-1])

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return self._names

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, in the order of the samples."""
        return tuple(self._paths)

    def stored(self, field: str) -> tuple[SampleFile, ...]:
        """How an array is stored in each file, in the order of the files. Raises KeyError if there is no such array."""
        return tuple(self._files[field])

    def origin(self, ids: ArrayLike) -> tuple[list[str], NDArray[np.int64]]:
        """Where samples come from.

        If `kinema.ml.convert` has made the archive, from the files that it was made from; otherwise from the archive
        itself.

        Parameters
        ----------
        ids : as `read`

        Returns
        -------
        files : list of str
            File of each sample.
        rows : (len(ids),) int64
            Row of each sample in its file.

        Raises
        ------
        As `read`; CorruptFileError if the table of origins is damaged.
        """
        numbers = sample_numbers(ids, len(self))
        which = np.searchsorted(self._bounds, numbers, side="right") - 1
        files: list[str] = [""] * len(numbers)
        rows = np.zeros(len(numbers), np.int64)
        for file in np.unique(which):
            places = np.flatnonzero(which == file)
            found, rows[places] = self._origin_of(file).locate(numbers[places] - self._bounds[file])
            for place, name in zip(places, found, strict=True):
                files[place] = name
        return files, rows

    def _origin_of(self, file: int) -> SampleOrigin:
        if file not in self._origins:
            n_rows = int(self._bounds[file + 1] - self._bounds[file])
            self._origins[file] = origin_of(self._paths[file], n_rows)
        return self._origins[file]

    def sources(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The files that samples come from, as `origin` names them, and the number of the file of each sample, (n,)."""
        joined = SampleOrigin.joined([self._origin_of(file) for file in range(len(self._bounds) - 1)])
        return joined.files, np.repeat(joined.ranges[:, 0], joined.ranges[:, 2])

    def shape(self, field: str) -> tuple[int, ...]:
        """Shape of a sample of an array. Raises KeyError if there is no such array."""
        return self._files[field][0].shape

    def dtype(self, field: str) -> np.dtype[Any]:
        """Type of an array of a batch. Raises KeyError if there is no such array."""
        return self._types[field]

    @property
    def sample_bytes(self) -> int:
        return sum(int(np.prod(self.shape(name), dtype=np.int64)) * self._types[name].itemsize for name in self._names)

    @property
    def chunk_samples(self) -> int:
        return max(one.chunk_rows for files in self._files.values() for one in files)

    @property
    def rows_stand_alone(self) -> bool:
        return self._transform is None

    @property
    def bounds(self) -> NDArray[np.int64]:
        return self._bounds.copy()

    def read(self, ids: ArrayLike, *, out: Batch | None = None, workers: int | None = None) -> Batch:
        numbers = sample_numbers(ids, len(self))
        batch = (Batch() if out is None else out).start(numbers)
        opened = self._opened.get()
        with opened.reading(numbers):
            for name in self._names:
                self._fill(opened.arrays[name], name, numbers, batch, worker_count(workers))
        if self._node_cache is not None:
            emit_troubles()
        return transformed(batch, self._transform)

    def _fill(self, array: _OpenArray, name: str, numbers: NDArray[np.int64], batch: Batch, workers: int) -> None:
        stored, wanted = self._files[name][0].dtype, self._types[name]
        shape = (len(numbers), *self.shape(name))
        native = stored.newbyteorder("=")
        raw = batch.room(name, shape, native) if native == wanted else batch.scratch(f"{name} as stored", shape, native)
        array.read(numbers, raw.view(np.uint8).reshape(len(numbers), array.row_bytes), workers)
        if stored != native:
            raw.view(stored).byteswap(inplace=True)
        if native != wanted:
            np.copyto(batch.room(name, shape, wanted), raw, casting="same_kind")

    @property
    def file_is_sample(self) -> bool:
        """Whether each file is one sample."""
        return self._whole

    def moments(
        self, field: str, ids: NDArray[np.int64], workers: int, progress: Report | None = None
    ) -> _core.Moments | None:
        """Moments of the features of an array over these samples, ascending, summed while they are read.

        None if the array can only be read by `read`: deflated members, values in another byte order or type.
        """
        opened, stored = self._opened.get(), self._files[field][0].dtype
        if not stored.isnative or stored != self._types[field] or stored.kind not in "iuf" or stored.name == "float16":
            return None
        with opened.reading(ids):
            return opened.arrays[field].moments(ids, stored.name, self.chunk_samples, workers, progress)

    def plan(self, ids: ArrayLike) -> Reading:
        numbers = sample_numbers(ids, len(self))
        opened = self._opened.get()
        plans = [opened.arrays[name].plan(numbers) for name in self._names]
        return Reading(*(sum(column) for column in zip(*plans, strict=True)))

    @property
    def node_cache(self) -> NodeCache | None:
        return self._node_cache

    def extents(self, ids: NDArray[np.int64]) -> Extents:
        which = np.searchsorted(self._bounds, ids, side="right") - 1
        found: list[tuple[NDArray[np.int64], ...]] = []
        for number in np.unique(which):
            places = np.flatnonzero(which == number)
            for name in self._names:
                offsets, lengths, rows = extents_of(self._files[name][number], ids[places] - self._bounds[number])
                found.append((places[rows], np.full(len(rows), number), offsets, lengths))
        return Extents.from_runs(self._paths, found)

    def _better_layout(self) -> str:
        if any(isinstance(one.place, Deflated) for files in self._files.values() for one in files):
            return (
                "deflated members are decompressed from their beginning: archives of numpy.savez (stored), or one HDF5 "
                "file, are read in place"
            )
        return super()._better_layout()

    def _open(self) -> _OpenSamples:
        return _OpenSamples(self._paths, self._statuses, self._files, self._bounds, self._memory, self._node_cache)

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {self.shape(name)} {self._types[name]}" for name in self._names)
        return f"<SampleDataset {self._paths[0]}: {len(self)} samples in {len(self._paths)} files, {arrays}>"


class _OpenSamples:
    """The archives as open in this process."""

    def __init__(
        self,
        paths: list[str],
        statuses: NDArray[np.uint64],
        files: Mapping[str, list[SampleFile]],
        bounds: NDArray[np.int64],
        memory: int,
        node_cache: NodeCache | None,
    ) -> None:
        self._bounds = bounds
        members, pool = DeflatedMembers(memory, node_cache), file_pool(node_cache)
        self.arrays = {name: _OpenArray(arrays, bounds, members, pool) for name, arrays in files.items()}
        self._unchanged = _core.UnchangedFiles(paths, statuses, pool)

    @contextmanager
    def reading(self, numbers: NDArray[np.int64]) -> Iterator[None]:
        """Context of the reads of a batch.

        Raises CorruptFileError if a file of these samples has changed since its header was read, also in place of the
        error of a read that has failed for this reason.
        """
        touched = np.unique(np.searchsorted(self._bounds, numbers, side="right") - 1)
        try:
            yield
        except Error:
            self._unchanged.check(touched)
            raise
        self._unchanged.check(touched)


class _OpenArray:
    """One array over all files: those that are read in place, and those that are deflated."""

    def __init__(
        self, files: list[SampleFile], bounds: NDArray[np.int64], members: DeflatedMembers, pool: _core.FilePool
    ) -> None:
        self._files, self._bounds, self._members = files, bounds, members
        self.row_bytes = int(np.prod(files[0].shape, dtype=np.int64)) * files[0].dtype.itemsize
        self._deflated = np.array([isinstance(one.place, Deflated) for one in files])
        in_place = [one for one in files if not isinstance(one.place, Deflated)]
        described = [(one.path, one.rows, one.place) for one in in_place]
        self._rows = _core.Rows(described, self.row_bytes, pool) if described else None
        # number of the first sample, counted among the samples that are read in place
        lengths = np.where(self._deflated, 0, np.diff(bounds))
        self._starts = np.concatenate([[0], np.cumsum(lengths)])

    def _split(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        file = np.searchsorted(self._bounds, numbers, side="right") - 1
        return file, self._deflated[file]

    def read(self, numbers: NDArray[np.int64], out: NDArray[np.uint8], workers: int) -> None:
        """Reads the bytes of these samples into `out`, (samples, bytes of a sample)."""
        if not self._deflated.any():
            assert self._rows is not None
            self._rows.read(numbers, out.reshape(-1), workers)
            return
        file, deflated = self._split(numbers)
        for one in np.unique(file[deflated]):
            places = np.flatnonzero(file == one)
            self._members.read(self._files[one], numbers[places] - self._bounds[one], out, places)
        if self._rows is not None and not deflated.all():
            places = np.flatnonzero(~deflated)
            rows = np.empty((len(places), out.shape[1]), np.uint8)
            own = numbers[places] - self._bounds[file[places]] + self._starts[file[places]]
            self._rows.read(own, rows.reshape(-1), workers)
            out[places] = rows

    def moments(
        self, numbers: NDArray[np.int64], dtype: str, coupled: int, workers: int, progress: Report | None
    ) -> _core.Moments | None:
        """Moments of the columns of these samples; None if a member is deflated."""
        if self._rows is None or self._deflated.any():
            return None
        return self._rows.moments(numbers, dtype, coupled, workers, progress)

    def plan(self, numbers: NDArray[np.int64]) -> tuple[int, int, int, int]:
        """As the fields of `Reading`."""
        file, deflated = self._split(numbers)
        useful = read = decoded = reads = 0
        if self._rows is not None:
            own = (numbers - self._bounds[file] + self._starts[file])[~deflated]
            found = self._rows.plan(own)
            useful, read, decoded, reads = (found[key] for key in ("useful", "read", "decoded", "reads"))
        useful += len(np.unique(numbers[deflated])) * self.row_bytes
        for one in np.unique(file[deflated]):
            place = self._files[one].place
            if isinstance(place, Deflated) and not self._members.is_kept(self._files[one]):
                read += place.stored
                decoded += self._files[one].rows * self.row_bytes
                reads += 1
        return useful, read, decoded, reads


def transformed(batch: Batch, transform: Transform | None) -> Batch:
    """The batch after its transform. Raises ArgumentError if the result is not a mapping of arrays."""
    if transform is None:
        return batch
    given = transform(batch)
    if given is None or given is batch:
        return batch
    if not isinstance(given, Mapping):
        raise ArgumentError(f"transform must return a mapping of arrays or None, found {type(given).__name__}")
    ids = batch.ids
    arrays = {name: np.asarray(array) for name, array in given.items()}
    batch.start(ids)
    for name, array in arrays.items():
        batch.put(name, array)
    return batch


def _type(one: SampleFile, dtype: DTypeLike | None) -> np.dtype[Any]:
    native = one.dtype.newbyteorder("=")
    if not np.prod(one.shape, dtype=np.int64) * native.itemsize:
        raise ArgumentError(
            f"{one.path}: {one.name} has samples without values, of shape {one.shape}{_OTHERS}", path=one.path
        )
    if dtype is None:
        return native
    wanted = np.dtype(dtype).newbyteorder("=")
    if not np.can_cast(native, wanted, "same_kind"):
        raise ArgumentError(
            f"{one.path}: {one.name} is {one.dtype}, which dtype={wanted} cannot hold{_OTHERS}", path=one.path
        )
    return wanted


def _unit(one: SampleFile) -> int:
    """Bytes that are read together for a sample."""
    if isinstance(one.place, StoredDataset) and one.place.chunks is not None and len(one.place.sizes):
        return max(1, int(one.place.sizes.mean()))
    return one.row_bytes
