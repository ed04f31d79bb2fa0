"""`ConversionPlan`: decisions before the first sample is read: types, layouts, pieces, memory, identity."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from kinema import _core
from kinema._core import __version__
from kinema.base.errors import ArgumentError, MemoryLimitError, UnsupportedFormatError
from kinema.base.printable import counted, printable
from kinema.base.resources import default_memory, parse_memory, worker_count
from kinema.cache.node_cache import NodeCacheChoice
from kinema.execution.checkpoint.file import Checkpoint, IdentityItem
from kinema.execution.checkpoint.identity_items import plain
from kinema.formats.hdf5.series import buffered_rows
from kinema.ml.archives.layout import ArrayLayout, advice, chunk_samples, field_layouts
from kinema.ml.archives.sources import Sources
from kinema.ml.samples import SampleDataset
from kinema.ml.stored.origin import SampleOrigin, origin_of
from kinema.ml.stored.samples import OWN_GROUP, Deflated
from kinema.storage.hdf5.filters import Compression
from kinema.storage.provenance import Input, Provenance

# one type for all arrays, or types for some of them by name
DtypeChoice = DTypeLike | Mapping[str, DTypeLike] | None

# bytes that a worker reads and writes at a time: they stay in the cache of a core
_BLOCK_BYTES = 2 << 20
_LEAST_BLOCK = 256 << 10
# a worker holds a run as stored, in the type of the archive, what is compared with it, and zlib's output
_BLOCKS_A_WORKER = 4
_BATCH = 256


@dataclass(frozen=True)
class ConversionPlan:
    """A conversion of samples into one archive, as `kinema.ml.plan_conversion` returns it. Nothing is written.

    `fields`: layout of each array in the archive.
    `block_bytes`: bytes of samples that a worker reads at a time.
    """

    sources: Sources
    fields: tuple[ArrayLayout, ...]
    compression: Compression
    workers: int
    block_bytes: int

    @classmethod
    def from_paths(
        cls,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        layout: str | Sequence[int] | None,
        compression: Compression,
        fields: str | Sequence[str] | None,
        dtype: DtypeChoice,
        workers: int | None,
        memory: int | str | None,
        file_is_sample: bool | None,
        node_cache: NodeCacheChoice,
    ) -> ConversionPlan:
        """Makes a plan; reads headers alone. Raises as `kinema.ml.convert`."""
        # before any file is opened
        chunk_samples(layout, compression)
        dataset = SampleDataset(paths, fields, file_is_sample=file_is_sample, node_cache=node_cache)
        if not len(dataset):
            raise ArgumentError("has no samples", at=dataset.paths[0])
        _check_names(dataset.fields)
        types = {name: _type(dataset, name, dtype) for name in dataset.fields}
        if isinstance(dtype, Mapping):
            for name in dtype:
                if name not in types:
                    raise ArgumentError(f"dtype names {name}, and the arrays are {', '.join(types)}")
        described = {name: (dataset.shape(name), kind) for name, kind in types.items()}
        layouts = field_layouts(described, len(dataset), layout, compression)
        limit = default_memory() if memory is None else parse_memory(memory)
        n_workers, block = _shares(dataset, layouts, limit, worker_count(workers))
        return cls(Sources(dataset, types), layouts, compression, n_workers, block)

    @property
    def n_samples(self) -> int:
        """Samples of all files."""
        return len(self.sources.dataset)

    @property
    def n_bytes(self) -> int:
        """Bytes of the samples in the archive, before compression."""
        return self.n_samples * sum(one.row_bytes for one in self.fields)

    @property
    def is_placed(self) -> bool:
        """Whether all samples have their places before the first is written, so that workers write in any order."""
        return all(one.is_placed for one in self.fields)

    @cached_property
    def identities(self) -> list[_core.FileIdentity]:
        """Identities of the files as they are now."""
        return [_core.FileIdentity.of(path) for path in self.sources.dataset.paths]

    @cached_property
    def origin(self) -> SampleOrigin:
        """Origin of all samples; samples of an archive that has such a table keep theirs."""
        bounds = self.sources.bounds
        rows = np.diff(bounds).tolist()
        return SampleOrigin.joined(
            [origin_of(path, n) for path, n in zip(self.sources.dataset.paths, rows, strict=True)]
        )

    def provenance(self) -> Provenance:
        """The call that makes the archive, without anything that would differ if it were repeated."""
        paths = self.sources.dataset.paths
        inputs = [Input(path, one.size, one.fingerprint) for path, one in zip(paths, self.identities, strict=True)]
        return Provenance(
            version=__version__,
            call="kinema.ml.convert",
            inputs=tuple(inputs),
            selection=", ".join(str(one) for one in self.fields),
            frames=counted(self.n_samples, "sample"),
            parameters={"compression": _words_of(self.compression)},
            date="",
        )

    def items(self, name: str, checkpoint: Checkpoint) -> list[IdentityItem]:
        """All that decides the values of the archive, and its path."""
        paths, identities = self.sources.dataset.paths, self.identities
        folder = os.path.dirname(os.path.abspath(checkpoint.name))
        files = [
            IdentityItem.from_file(
                f"file {number + 1} of {len(paths)}", one, f"{path} of {one.size} bytes, fingerprint {one.fingerprint}"
            )
            for number, (path, one) in enumerate(zip(paths, identities, strict=True))
        ]
        return [
            plain("the version of Kinema", __version__),
            plain("the command", "ml convert"),
            plain("the number of files", str(len(paths))),
            *files,
            *(plain(f"array {number + 1}", str(one)) for number, one in enumerate(self.fields)),
            plain("the compression", _words_of(self.compression)),
            plain("the output", os.path.relpath(os.path.abspath(name), folder)),
        ]

    def __str__(self) -> str:
        dataset = self.sources.dataset
        n = min(_BATCH, self.n_samples)
        now = dataset.plan(np.random.default_rng(0).choice(self.n_samples, n, replace=False))
        useful = max(now.useful, 1)
        streams = sum(
            any(isinstance(self.sources.file(name, number).place, Deflated) for name in self.sources.fields)
            for number in range(self.sources.n_files)
        )
        lines = [
            f"{counted(self.n_samples, 'sample')} of {counted(self.sources.n_files, 'file')}, {self.n_bytes:,} bytes; "
            f"{counted(self.workers, 'worker')}, {self.block_bytes:,} bytes at a time each",
            *(printable(str(one)) for one in self.fields),
            f"compression: {_words_of(self.compression)}",
        ]
        if streams:
            lines.append(f"{counted(streams, 'file')} with deflated members, each inflated once, as a stream")
        if not self.is_placed:
            lines.append("samples are read in their order, and chunks are encoded by all workers")
        lines.append(
            f"sources as they are, in exact random order: {now.read / useful:.2f} bytes read and "
            f"{now.decoded / useful:.2f} decoded for each useful byte in batches of {n}"
        )
        return "\n".join([*lines, *advice(self.fields, self.n_samples, _BATCH)])


def _words_of(compression: Compression) -> str:
    if compression.name is None:
        words = "none"
    elif isinstance(compression.name, str):
        words = compression.name + ("" if compression.level is None else f":{compression.level}")
    else:
        words = f"filter {compression.name[0]} with {','.join(map(str, compression.name[1])) or 'no values'}"
    words += {None: "", True: ", shuffled", False: ", not shuffled"}[compression.shuffle]
    return words + (", with checksums" if compression.checksum else "")


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in name:
            raise ArgumentError(f"an array is called {name!r}, not a name in HDF5; choose others with fields=")
        if parts[0] == OWN_GROUP:
            raise ArgumentError(
                f"an array is called {name}, and {OWN_GROUP} is where an archive says where its samples come from; "
                "choose others with fields="
            )
        for other in names:
            if other.startswith(f"{name}/"):
                raise ArgumentError(f"arrays are called {name} and {other}, and HDF5 has no place for both")


def _type(dataset: SampleDataset, name: str, dtype: DtypeChoice) -> np.dtype[Any]:
    """Type of an array in the archive, in this machine's byte order."""
    stored = dataset.dtype(name)
    if stored.kind not in "biufcV":
        raise UnsupportedFormatError(
            f"{name} holds {stored}, expected numbers; choose the arrays with fields=", at=dataset.paths[0]
        )
    wanted: Any = dtype.get(name) if isinstance(dtype, Mapping) else dtype
    if wanted is None:
        return stored
    try:
        kind: np.dtype[Any] = np.dtype(wanted).newbyteorder("=")
    except TypeError as error:
        raise ArgumentError(f"dtype is a type of NumPy's, such as float32, found {wanted!r} ({error})") from None
    if stored != kind and ("V" in (stored.kind, kind.kind) or not np.can_cast(stored, kind, "same_kind")):
        raise ArgumentError(f"{dataset.paths[0]}: {name} is {stored}, which dtype={kind} cannot hold")
    return kind


def _shares(dataset: SampleDataset, layouts: Sequence[ArrayLayout], memory: int, workers: int) -> tuple[int, int]:
    """Number of workers, and bytes that each reads at a time. Raises MemoryLimitError if one worker does not fit."""
    least, waiting = _LEAST_BLOCK, 0
    for one in layouts:
        stored = [file for file in dataset.stored(one.name) if not isinstance(file.place, Deflated)]
        chunk = max((file.chunk_rows for file in stored), default=1)
        least = max(least, chunk * max(dataset.stored(one.name)[0].row_bytes, one.row_bytes))
        if not one.is_placed:
            # rows that wait until chunks are full, and are encoded
            storage = one.storage
            rows = buffered_rows(storage.chunks, storage.shape[1:], storage.dtype.itemsize, filtered=True)
            waiting += 2 * rows * one.row_bytes
    needed = waiting + _BLOCKS_A_WORKER * least
    if memory < needed:
        raise MemoryLimitError(
            f"memory={memory} bytes is too little: {needed} bytes are needed for the chunks and samples that are "
            "read and written whole"
        )
    most = max(1, (memory - waiting) // (_BLOCKS_A_WORKER * least))
    n_workers = min(workers, most)
    return n_workers, max(least, min(_BLOCK_BYTES, (memory - waiting) // (_BLOCKS_A_WORKER * n_workers)))
