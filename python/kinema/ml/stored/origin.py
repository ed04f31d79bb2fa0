"""Origin of the samples of an archive: files, and runs of their rows, in the order of the samples.

In an archive, group `kinema/origin`:

- `files` (n,), text of fixed length: absolute paths of the files
- `ranges` (m, 3) int64: number of the file, its first row, number of rows; in sequence these give all samples
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import CorruptFileError
from kinema.base.input_files import is_hdf5
from kinema.ml.stored.samples import OWN_GROUP
from kinema.storage.hdf5.file import OpenFile, open_hdf5, reading
from kinema.storage.hdf5.virtual import values_of

_GROUP = f"{OWN_GROUP}/origin"
# files without samples that are accepted
_EMPTY_FILES = 1 << 20


@dataclass(frozen=True, eq=False)
class SampleOrigin:
    """Origin of samples.

    `ranges`: (m, 3) int64; see the module.
    """

    files: tuple[str, ...]
    ranges: NDArray[np.int64]

    @classmethod
    def from_file(cls, path: str, rows: int) -> SampleOrigin:
        """Origin of the samples of a file that come from the file itself."""
        return cls((os.path.abspath(path),), np.array([[0, 0, rows]], np.int64))

    @classmethod
    def joined(cls, parts: Sequence[SampleOrigin]) -> SampleOrigin:
        """Origin of the samples of several parts, one part after the other."""
        numbers: dict[str, int] = {}
        ranges = []
        for part in parts:
            own = np.array([numbers.setdefault(file, len(numbers)) for file in part.files], np.int64)
            moved = part.ranges.copy()
            moved[:, 0] = own[part.ranges[:, 0]]
            ranges.append(moved)
        return cls(tuple(numbers), np.concatenate(ranges))

    def locate(self, rows: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
        """File and row of samples of the archive, (len(rows),) each."""
        ends = np.cumsum(self.ranges[:, 2])
        which = np.searchsorted(ends, rows, side="right")
        file, first, length = self.ranges[which].T
        return [self.files[number] for number in file], first + rows - (ends[which] - length)

    def table(self) -> dict[str, NDArray[Any]]:
        """The data sets of an archive that hold the origin."""
        files = np.array([os.fsencode(file) for file in self.files])
        return {f"{_GROUP}/files": files, f"{_GROUP}/ranges": self.ranges}


def origin_of(path: str, rows: int) -> SampleOrigin:
    """Origin of the samples of a file: its table, or the file itself if it has none.

    Raises CorruptFileError if the table is not of `rows` samples.
    """
    if not is_hdf5(path):
        return SampleOrigin.from_file(path, rows)
    with open_hdf5(path) as file, reading(path):
        group = file.get(_GROUP)
        if group is None:
            return SampleOrigin.from_file(path, rows)
        opened = OpenFile(path, file, os.path.getsize(path), format="HDF5")
        # at most one file for each row, and some files without samples
        most_files = rows + _EMPTY_FILES
        found = []
        for name, kinds, width, most in (("files", "S", (), most_files), ("ranges", "iu", (3,), rows + most_files)):
            node = group[name]
            fits = hasattr(node, "dtype") and node.dtype.kind in kinds and node.shape[1:] == width and node.shape
            if not fits or node.shape[0] > most:
                raise opened.corrupt(f"{_GROUP}/{name} is {node}, expected at most {most} rows for {rows} samples")
            found.append(values_of(opened, node))
        files, ranges = tuple(map(os.fsdecode, found[0].tolist())), found[1].astype(np.int64)
    good = len(files) > 0 and (ranges >= 0).all()
    if not good or ranges[:, 0].max(initial=0) >= len(files) or ranges[:, 2].sum() != rows:
        raise CorruptFileError(
            f"{_GROUP} is damaged: expected the origin of {rows} samples, found ranges of shape "
            f"{ranges.shape} in {len(files)} files",
            at=path,
        )
    return SampleOrigin(files, ranges)
