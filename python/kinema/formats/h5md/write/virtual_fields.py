"""Fields of an H5MD file as virtual data sets over other files, each of which has some atoms or frames."""

from __future__ import annotations

import glob
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, Error, os_errors
from kinema.formats.h5md.schema import ELEMENTS, PARTICLES
from kinema.storage.hdf5.file import open_hdf5
from kinema.storage.hdf5.output import hdf5_errors, written_in_place
from kinema.storage.hdf5.storage import Storage, VirtualBox, replace_dataset

MOST_RUNS = 1 << 16
"""Most runs of neighbouring atoms in all parts together: readers go through an entry for each."""

VIRTUAL_LIBVER = ("v108", "v110")
"""HDF5 1.10 introduced virtual data sets; all else of a file is in the format of 1.8."""


@dataclass(frozen=True)
class VirtualPart:
    """Another file, with the frames and atoms that it has, in their order.

    `name`: as libhdf5 finds it from the folder of the virtual file.
    `atoms`: list of (first, stop); runs of neighbouring atoms.
    """

    name: str
    first_frame: int
    n_frames: int
    atoms: Sequence[tuple[int, int]]


_NAME = re.compile(r"part(?P<number>\d{4,})-(?P<tag>[0-9a-f]{8})\.h5md")


@dataclass(frozen=True)
class SubfileNames:
    """Names of the files below a virtual one: `NAME.d/partNNNN-TAG.h5md`, with a tag for each virtual file."""

    path: str
    tag: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def folder(self) -> str:
        """The folder of these files."""
        return f"{self.path}.d"

    def make_folder(self) -> None:
        """Makes the folder; raises FileAccessError, FileIOError, ... on failure."""
        with os_errors("cannot make the folder", self.folder):
            os.makedirs(self.folder, exist_ok=True)

    def subfile_path(self, number: int) -> str:
        """The path of file `number`."""
        return os.path.join(self.folder, f"part{number:04}-{self.tag}.h5md")

    def relative(self, number: int) -> str:
        """Path of file `number` relative to the virtual file's folder, so that all can be moved together."""
        return f"{os.path.basename(self.folder)}/{os.path.basename(self.subfile_path(number))}"

    def remove(self, numbers: Iterable[int]) -> None:
        """Removes the files with these numbers, if they exist, and the folder if it is then empty."""
        for number in numbers:
            with suppress(FileNotFoundError):
                os.unlink(self.subfile_path(number))
        with suppress(OSError):
            os.rmdir(self.folder)

    @classmethod
    def existing(cls, path: str, parts: Iterable[str]) -> SubfileNames | None:
        """The naming of a virtual file's existing parts; None if they are named otherwise."""
        found = [_NAME.fullmatch(os.path.basename(name)) for name in parts]
        tags = {one["tag"] if one else "" for one in found}
        return cls(path, tags.pop()) if len(tags) == 1 and "" not in tags else None

    @staticmethod
    def number_of(name: str) -> int:
        """The number of a part with such a name."""
        found = _NAME.fullmatch(os.path.basename(name))
        assert found is not None
        return int(found["number"])

    def remove_others(self) -> None:
        """Removes the files of an earlier virtual file that is being replaced.

        Files that hold values for temporary files of a stopped run stay. If one of these temporary files cannot be
        read, all files stay.
        """
        stem, suffix = os.path.splitext(self.path)
        kept = {self.tag}
        for name in glob.glob(f"{glob.escape(stem)}.part-*{glob.escape(suffix)}"):
            try:
                with open_hdf5(name, external="any") as h5:
                    for group in h5[PARTICLES].values():
                        found = [_NAME.fullmatch(os.path.basename(part)) for part in parts_of_fields(group)]
                        kept |= {one["tag"] for one in found if one}
            except (Error, OSError, KeyError, AttributeError):
                return
        with suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                one = _NAME.fullmatch(name)
                if one and one["tag"] not in kept:
                    os.unlink(os.path.join(self.folder, name))


def runs_of(atoms: NDArray[np.integer[Any]]) -> list[tuple[int, int]]:
    """Runs of neighbours among rising numbers, as (first, stop)."""
    if not len(atoms):
        return []
    ends = np.flatnonzero(np.diff(atoms) != 1)
    firsts = atoms[np.concatenate([[0], ends + 1])]
    stops = atoms[np.concatenate([ends, [len(atoms) - 1]])] + 1
    return list(zip(firsts.tolist(), stops.tolist(), strict=True))


def check_runs(n_runs: int, path: str) -> None:
    """Raises ArgumentError for atoms in too many runs."""
    if n_runs > MOST_RUNS:
        raise ArgumentError(
            f"{path}: the atoms of the ranks are {n_runs} runs of neighbours, and a virtual H5MD has at most "
            f"{MOST_RUNS}; give each rank atoms that lie together, or use strategy='gather'"
        )


def make_fields_virtual(
    path: str, group: str, parts: Sequence[VirtualPart], kinds: Mapping[str, np.dtype[Any]]
) -> None:
    """Replaces the data sets of the fields `kinds` of an H5MD file, which have no rows, by virtual data sets.

    Values whose file is missing are NaN. Raises ArgumentError for atoms in too many runs.
    """
    check_runs(sum(len(part.atoms) for part in parts), path)
    n_frames = max((part.first_frame + part.n_frames for part in parts), default=0)
    with hdf5_errors(path), written_in_place(path, "r+", libver=VIRTUAL_LIBVER) as h5:
        for name_of_field, kind in kinds.items():
            element = h5[f"{PARTICLES}/{group}/{ELEMENTS[name_of_field]}"]
            boxes: list[VirtualBox] = []
            for part in parts:
                boxes += _boxes(part.name, element["value"].name, part.atoms, part.n_frames, part.first_frame)
            storage = Storage((n_frames, *element["value"].shape[1:]), kind, virtual=tuple(boxes))
            replace_dataset(element, "value", storage, fill=np.nan)


def make_growing_fields(group: h5py.Group, parts: Mapping[str, Sequence[tuple[int, int]]]) -> None:
    """Replaces the data sets of the fields of a particles group, which have no rows, by virtual data sets.

    Their number of frames is that of the parts, whenever a reader opens them. `parts` are names of files, as libhdf5
    finds them from the folder of the virtual one, and the runs of atoms of each.
    """
    for name in ELEMENTS.values():
        if name not in group:
            continue
        value = group[name]["value"]
        boxes: list[VirtualBox] = []
        for part, runs in parts.items():
            boxes += _boxes(part, value.name, runs, None)
        storage = Storage((0, *value.shape[1:]), value.dtype, virtual=tuple(boxes), grows=True)
        del value
        replace_dataset(group[name], "value", storage, fill=np.nan)


def _boxes(
    file: str, dataset: str, runs: Sequence[tuple[int, int]], n_frames: int | None, first_frame: int = 0
) -> Iterator[VirtualBox]:
    """A part's share of a field, a box for each run of atoms; without `n_frames` all its frames."""
    shape, begin = (n_frames or 0, sum(stop - first for first, stop in runs), 3), 0
    for first, stop in runs:
        yield VirtualBox(file, dataset, shape, (first_frame, first), (0, begin), (n_frames, stop - first))
        begin += stop - first


def parts_of_fields(group: h5py.Group) -> dict[str, list[tuple[int, int]]]:
    """Names of the files that hold the virtual fields of a particles group, and the runs of atoms of each.

    Empty if fields are not virtual data sets with any number of frames. The files are not opened.
    """
    parts: dict[str, list[tuple[int, int]]] = {}
    for name in ELEMENTS.values():
        value = group[name].get("value") if isinstance(group.get(name), h5py.Group) else None
        if value is None or not value.is_virtual:
            continue
        for source in value.virtual_sources():
            if source.vspace.get_select_type() != h5py.h5s.SEL_HYPERSLABS or not source.vspace.is_regular_hyperslab():
                continue
            start, _, _, block = source.vspace.get_regular_hyperslab()
            runs = parts.setdefault(source.file_name, [])
            run = (int(start[1]), int(start[1] + block[1]))
            if run not in runs:
                runs.append(run)
    return parts
