"""Design of an experiment on loading: its samples, layouts, loops and time limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kinema.base.choices import check_choice
from kinema.base.comparison import LEAST_REPEATS
from kinema.base.errors import ArgumentError

PAGE_CACHES = ("warm", "drop")
AS_THEY_ARE = "as they are"
"""The layout of the user's own files."""


@dataclass(frozen=True)
class SampleLayout:
    """A way to store samples.

    `kind`: {"npz", "files", "hdf5"}; archives of many samples each, archives of one sample each, or HDF5.
    `deflated`: whether archives are compressed.
    `chunk`: samples per chunk; 0: a batch; None: contiguous.
    `options`: options of h5py's `create_dataset`.
    `convert`: options of `kinema ml convert` that make it, with {chunk} for the samples per chunk; "" if it cannot make
        it.
    """

    name: str
    kind: str
    deflated: bool = False
    chunk: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    convert: str = ""


_GZIP = {"compression": "gzip", "compression_opts": 1, "shuffle": True}

LAYOUTS = (
    SampleLayout("NPZ", "npz"),
    SampleLayout("NPZ, deflated", "npz", deflated=True),
    SampleLayout("an NPZ a sample", "files"),
    SampleLayout("HDF5, contiguous", "hdf5", convert="--layout contiguous"),
    SampleLayout("HDF5, a sample a chunk", "hdf5", chunk=1, convert="--layout samples:1"),
    SampleLayout("HDF5, a batch a chunk", "hdf5", chunk=0, convert="--layout samples:{chunk}"),
    SampleLayout("HDF5, a sample a chunk, gzip", "hdf5", False, 1, _GZIP, "--layout samples:1 --compress gzip:1"),
    SampleLayout("HDF5, a batch a chunk, gzip", "hdf5", False, 0, _GZIP, "--layout samples:{chunk} --compress gzip:1"),
)


@dataclass(frozen=True)
class LoadingDesign:
    """Settings of a comparison. Raises ArgumentError for numbers that do not make an experiment.

    `sources`: files of samples, or a folder of them, as `kinema.ml.SampleDataset` takes them.
    `fields`: arrays; by default all of the first file.
    `file_is_sample`: as in `kinema.ml.SampleDataset`.
    `batches`: largest number of batches in each loop; by default as many as the time allows.
    `time_limit`: approximate seconds of a repeat of a loop: its current batch is finished, except one that is read
        sample by sample.
    `size`: largest number of bytes of samples that are written in each layout.
    `page_cache`: {"warm", "drop"}; whether files are dropped from memory before each loop.
    `seed`: seed for the choice of samples, and for their order.
    """

    sources: tuple[str, ...]
    fields: tuple[str, ...] | None = None
    file_is_sample: bool | None = None
    batch: int = 256
    batches: int | None = None
    time_limit: float = 1.0
    repeats: int = LEAST_REPEATS
    size: int = 256 << 20
    page_cache: str = "drop"
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("page_cache", self.page_cache, PAGE_CACHES)
        if not self.sources:
            raise ArgumentError("no samples are named; give their files, or a folder of them")
        counts = {"batch": self.batch, "batches": self.batches or 1, "size": self.size, "repeats": self.repeats}
        for name, value in counts.items():
            if value < 1:
                raise ArgumentError(f"{name} must be at least 1, found {value}")
        if not 0 < self.time_limit < float("inf"):
            raise ArgumentError(f"time_limit must be above 0 s, found {self.time_limit:g}")
