"""The files of a `SampleDataset`: those that its source names, and whether each of them is one sample."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.base.input_files import file_names, is_hdf5, read_regular
from kinema.base.notes import emit
from kinema.base.printable import counted
from kinema.ml.stored.samples import ENDINGS, LIST_OF_FILES, OWN_GROUP, SampleFile, arrays_of, as_samples
from kinema.storage.hdf5.file import open_hdf5, reading
from kinema.trajectory.following.patterns import GivenFiles

_LARGEST_LIST = 1 << 28
_ARCHIVES = "file_is_sample=False (--no-file-is-sample)"
_CHOOSE = "; choose arrays that all files have with fields= (--fields)"
_SAMPLES = "file_is_sample=True (--file-is-sample)"


@dataclass(frozen=True)
class SampleFiles:
    """Files of samples whose headers were read.

    `paths`: in the order of the samples.
    `statuses`: (files, 9) array; status of each file before its header was read (`_core.file_status`).
    `arrays`: list of lists of SampleFile; arrays of each file, in the order of the names that were asked for.
    """

    paths: list[str]
    statuses: NDArray[np.uint64]
    arrays: list[list[SampleFile]]
    file_is_sample: bool

    @classmethod
    def from_source(
        cls, source: Any, fields: Sequence[str] | None, file_is_sample: bool | None, local: str | None = None
    ) -> SampleFiles:
        """Reads the headers of the files that `source` names.

        `local`: folder to which files that another node has published are fetched. Raises as `SampleDataset`.
        """
        paths, folder = _paths_of(source, local)
        statuses = [_core.file_status(paths[0])]
        first = arrays_of(paths[0], fields)
        names = [one.name for one in first]
        hint = _CHOOSE if fields is None else ""
        found = [first]
        for path in paths[1:]:
            statuses.append(_core.file_status(path))
            found.append(_arrays_of_another(path, names, hint))
        whole = bool(folder) if file_is_sample is None else file_is_sample
        if file_is_sample is None and folder is not None:
            _check_one_sample_each(folder, found)
        arrays = [as_samples(one, whole=whole) for one in found]
        for one in arrays:
            _check_alike(arrays[0], one, hint, whole=whole)
        return cls(paths, np.array(statuses, np.uint64), arrays, whole)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a path has samples, not a trajectory.

    True for a folder, `.npy`, `.npz`, and for HDF5 files that Kinema has made of samples or that have data sets alone.
    """
    name = os.fspath(path)
    if os.path.isdir(name) or name.lower().endswith((".npy", ".npz")):
        return True
    if not os.path.isfile(name) or not is_hdf5(name):
        return False
    with open_hdf5(name) as file, reading(name):
        # NetCDF-4 states its conventions
        is_other = "h5md" in file or "Conventions" in file.attrs
        return not is_other and (f"{OWN_GROUP}/origin" in file or _has_arrays_alone(file))


def _has_arrays_alone(file: Any) -> bool:
    return all(hasattr(file[name], "shape") for name in file)


def _arrays_of_another(path: str, names: Sequence[str], hint: str) -> list[SampleFile]:
    """The arrays of the first file, in another file."""
    try:
        return arrays_of(path, names)
    except ArgumentError as error:
        raise ArgumentError(f"{error}{hint}", path=error.path) from None


def _check_one_sample_each(folder: str, files: Sequence[Sequence[SampleFile]]) -> None:
    """Raises ArgumentError if the files of a folder look like archives of several samples; else emits a note."""
    lengths = [{one.rows for one in file} for file in files]
    if all(length <= {1} for length in lengths):
        return
    trailing = {tuple(one.shape for one in file) for file in files}
    if any(len(length) > 1 for length in lengths) or len(trailing) > 1:
        emit([f"{folder}: each file is taken for one sample; for archives of several give {_ARCHIVES}"])
        return
    rows = [file[0].rows for file in files]
    fewest, most = min(rows), max(rows)
    if fewest == most:
        raise ArgumentError(
            f"{counted(len(files), 'file')} with {most} rows in each array may be archives of {most} samples "
            f"or one sample each; give {_ARCHIVES} for archives, {_SAMPLES} for one sample a file",
            at=folder,
        )
    raise ArgumentError(
        f"its files are archives of different numbers of samples, expected one sample each, found {fewest} "
        f"rows in {files[rows.index(fewest)][0].path}, {most} in {files[rows.index(most)][0].path}; give {_ARCHIVES}",
        at=folder,
    )


def _check_alike(first: Sequence[SampleFile], file: Sequence[SampleFile], hint: str, *, whole: bool) -> None:
    for one, other in zip(first, file, strict=True):
        if (one.shape, one.dtype) == (other.shape, other.dtype):
            continue
        if whole and one.shape[1:] == other.shape[1:] and one.shape != other.shape:
            hint = f"; archives of different numbers of samples need {_ARCHIVES}"
        raise ArgumentError(
            f"{other.name} has samples of {other.shape} {other.dtype}, expected {one.shape} "
            f"{one.dtype} as of {one.path}{hint}",
            at=other.path,
        )


def _paths_of(source: Any, local: str | None) -> tuple[list[str], str | None]:
    """The files in order, and the given folder, unless `kinema.ml.export` has made it."""
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source):
        folder = Path(os.fsdecode(source))
        if (folder / LIST_OF_FILES).is_file():
            return _exported(folder), None
        within = glob.escape(str(folder))
        found = GivenFiles(tuple(os.path.join(within, f"*{ending}") for ending in ENDINGS)).names()
        names = sorted(name for name in found if not os.path.isdir(name))
        if not names:
            raise ArgumentError(f"{folder}: has no files of samples ({', '.join(ENDINGS)})", path=str(folder))
        return GivenFiles(tuple(names), local).paths(), str(folder)
    return GivenFiles(tuple(file_names(source)), local).checked(), None


def _exported(folder: Path) -> list[str]:
    """The shards that `kinema.ml.export` has made in a folder, in the order of the samples."""
    listed = folder / LIST_OF_FILES
    try:
        shards = json.loads(read_regular(str(listed), "list of files", _LARGEST_LIST))["shards"]
        names = [shard.get("file") for shard in shards]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"{listed}: no list of exported files: {error}", path=str(listed)) from None
    if not all(isinstance(name, str) and name.endswith(ENDINGS) for name in names):
        raise ArgumentError(
            f"{folder}: was exported to other files than archives of all arrays; of npy give the files of one array, "
            "such as positions-00000.npy, with file_is_sample=False",
            path=str(folder),
        )
    return [str(folder / name) for name in names]
