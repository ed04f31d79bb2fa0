"""Fields of an H5MD file as virtual data sets over those of other files, which have some atoms or frames each."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError, from_os
from kinema.formats.h5md.schema import ELEMENTS, PARTICLES

__all__ = ["MOST_RUNS", "SubfileNames", "VirtualPart", "make_fields_virtual", "runs_of"]

MOST_RUNS = 1 << 16
"""Runs of neighbouring atoms that all parts may have together: each is an entry that readers go through."""

# virtual data sets came with HDF5 1.10
_LIBVER = ("v108", "v110")


@dataclass(frozen=True)
class VirtualPart:
    """Another file, and which frames and atoms of all it has, in their order.

    Attributes
    ----------
    name : str
        As libhdf5 finds it from the folder of the virtual file.
    first_frame, n_frames : int
    atoms : list of (first, stop)
        Runs of neighbouring atoms.
    """

    name: str
    first_frame: int
    n_frames: int
    atoms: Sequence[tuple[int, int]]


_NAME = re.compile(r"part\d{4,}-(?P<tag>[0-9a-f]{8})\.h5md")


@dataclass(frozen=True)
class SubfileNames:
    """Names of the files below a virtual one: `NAME.d/partNNNN-TAG.h5md`, with a tag of their own for each.

    Attributes
    ----------
    path : str
        Of the virtual file.
    tag : str
    """

    path: str
    tag: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def folder(self) -> str:
        """Where they lie."""
        return f"{self.path}.d"

    def make_folder(self) -> None:
        """FileAccessError, FileIOError, ... where it cannot be made."""
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError as error:
            raise from_os("cannot make the folder", error, path=self.folder) from None

    def of(self, number: int) -> str:
        """The path of one."""
        return os.path.join(self.folder, f"part{number:04}-{self.tag}.h5md")

    def relative(self, number: int) -> str:
        """The same from the folder of the virtual file, which all can be moved with."""
        return f"{os.path.basename(self.folder)}/{os.path.basename(self.of(number))}"

    def remove(self, numbers: Iterable[int]) -> None:
        """Removes some, as far as they are there; and the folder if it is empty then."""
        for number in numbers:
            with suppress(FileNotFoundError):
                os.unlink(self.of(number))
        with suppress(OSError):
            os.rmdir(self.folder)

    def remove_others(self) -> None:
        """Removes those of a virtual file that was there before, and is replaced."""
        with suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                found = _NAME.fullmatch(name)
                if found and found["tag"] != self.tag:
                    os.unlink(os.path.join(self.folder, name))


def runs_of(atoms: NDArray[np.integer[Any]]) -> list[tuple[int, int]]:
    """Runs of neighbours among rising numbers, as (first, stop)."""
    if not len(atoms):
        return []
    ends = np.flatnonzero(np.diff(atoms) != 1)
    firsts = atoms[np.concatenate([[0], ends + 1])]
    stops = atoms[np.concatenate([ends, [len(atoms) - 1]])] + 1
    return list(zip(firsts.tolist(), stops.tolist(), strict=True))


def make_fields_virtual(
    path: str, group: str, parts: Sequence[VirtualPart], kinds: Mapping[str, np.dtype[Any]]
) -> None:
    """Puts virtual data sets in place of those of the fields `kinds` of an H5MD file, which has no rows of them.

    Values whose file is missing are NaN. ArgumentError for atoms in too many runs.
    """
    n_runs = sum(len(part.atoms) for part in parts)
    if n_runs > MOST_RUNS:
        raise ArgumentError(
            f"{path}: the atoms of the ranks are {n_runs} runs of neighbours, and a virtual H5MD has at most "
            f"{MOST_RUNS}; give each rank atoms that lie together, or use strategy='gather'"
        )
    n_frames = max((part.first_frame + part.n_frames for part in parts), default=0)
    with h5py.File(path, "r+", libver=_LIBVER, locking=False) as h5:
        for name_of_field, kind in kinds.items():
            element = h5[f"{PARTICLES}/{group}/{ELEMENTS[name_of_field]}"]
            old = element["value"]
            layout = h5py.VirtualLayout((n_frames, *old.shape[1:]), kind)
            for part in parts:
                n_atoms = sum(stop - first for first, stop in part.atoms)
                shape = (part.n_frames, n_atoms, 3)
                source = h5py.VirtualSource(part.name, old.name, shape, kind)
                frames, begin = slice(part.first_frame, part.first_frame + part.n_frames), 0
                for first, stop in part.atoms:
                    layout[frames, first:stop, :] = source[:, begin : begin + stop - first, :]
                    begin += stop - first
            attributes = [(name, old.attrs.get_id(name).dtype, old.attrs[name]) for name in old.attrs]
            del element["value"]
            made = element.create_virtual_dataset("value", layout, fillvalue=np.nan)
            for name, dtype, value in attributes:
                made.attrs.create(name, value, dtype=dtype)
