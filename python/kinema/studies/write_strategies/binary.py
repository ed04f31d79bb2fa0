"""Native binary records, used only by the experiment: three float64 each, the counterpart of the paper's ASCII records.

A file has a head of five records (title; level, number of atoms, step; three vectors of the cell), then for each atom
one record with its name (8 bytes) and its index from 1 (int64), and one for each vector. All records are 24 bytes in
the machine's byte order, so that the place of atom i can be computed, as in CONFIG.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, FileIOError

RECORD = 24
_HEAD_RECORDS = 5
_FIELDS = ("positions", "velocities", "forces")


@dataclass(frozen=True)
class RecordLayout:
    """Places of the parts of a frame's record, as in `_core.FrameLayout`.

    `bytes`: size of the record.
    `pieces`: list of (offset, bytes); bytes that belong to no atom.
    `planes`: list of (offset, width of an atom).
    """

    bytes: int
    pieces: list[tuple[int, builtins.bytes]]
    planes: list[tuple[int, int]]


@dataclass
class BinaryRecords:
    """Encodes atoms as native binary records: an `AtomRecordsLike` for one frame.

    `fields`: list of names; "positions"; with "velocities"; with "forces" too.
    `names`: list of text; distinct names.
    `codes`: (n_atoms,) numbers in `names`.
    """

    n_atoms: int
    fields: list[str]
    names: Sequence[str]
    codes: NDArray[np.uint8]
    format: str = "native binary"
    head: bytes = b""
    losses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if tuple(self.fields) != _FIELDS[: len(self.fields)] or not self.fields:
            raise ArgumentError(f"fields are the first of {', '.join(_FIELDS)}, found {', '.join(self.fields)}")
        if self.codes.shape != (self.n_atoms,):
            raise ArgumentError(f"codes are of {self.n_atoms} atoms, found shape {self.codes.shape}")
        self._names = np.array([name.encode("ascii") for name in self.names], "S8").view(np.int64)
        self._atom = _atom_type(len(self.fields))

    @property
    def widths(self) -> list[int]:
        """Bytes per atom: one plane."""
        return [self._atom.itemsize]

    def time_by(self, _steps: Any, _times: Any) -> None:
        """None: such files have no series of times."""
        return

    def marker(self, _committed: int) -> None:
        """None: such files have no number of frames, only one frame."""
        return

    def stamp_losses(self, _frame: int, _step: int, time: float, _cell: Any) -> list[str]:
        """The time, which is not kept."""
        return [] if np.isnan(time) or time == 0 else ["the time is not kept"]

    def frame(self, frame: int, step: int, _time: float, cell: NDArray[np.float64] | None) -> RecordLayout:
        """The layout of the one frame; raises ArgumentError for a second."""
        if frame != 0:
            raise ArgumentError("a file of native binary records has one frame")
        numbers = np.array([len(self.fields) - 1, self.n_atoms, step], np.int64)
        vectors = np.zeros((3, 3)) if cell is None else np.asarray(cell, np.float64)
        data = b"Kinema: native binary".ljust(RECORD) + numbers.tobytes() + vectors.tobytes()
        width = self._atom.itemsize
        return RecordLayout(len(data) + self.n_atoms * width, [(0, data)], [(len(data), width)])

    def encode(
        self,
        values: Sequence[NDArray[Any] | None],
        start: int,
        stop: int,
        ids: NDArray[Any] | None,
        first_id: int,
        out: Sequence[NDArray[np.uint8]],
    ) -> None:
        """Encodes atoms start..stop of the arrays (n, 3) into out[0], as `_core.AtomRecords.encode`."""
        made = out[0].view(self._atom)
        numbers = out[0].view(np.int64).reshape(len(made), -1)
        if ids is None:
            codes = self.codes[first_id + start : first_id + stop]
            numbers[:, 1] = np.arange(first_id + start + 1, first_id + stop + 1)
        else:
            codes = self.codes[ids[start:stop]]
            numbers[:, 1] = ids[start:stop].astype(np.int64) + 1
        numbers[:, 0] = np.take(self._names, codes)
        numbers[:, 2] = 0
        for name, vectors in zip(self.fields, values, strict=False):
            if vectors is None:
                raise ArgumentError(f"{name} are missing")
            if vectors.dtype == np.float64:
                _core.place_atoms(vectors[start:stop], None, None, made[name])
            else:
                made[name] = vectors[start:stop]


def _atom_type(levels: int) -> np.dtype[Any]:
    first: list[Any] = [("name", "S8"), ("index", "i8"), ("rest", "i8")]
    return np.dtype(first + [(name, "f8", 3) for name in _FIELDS[:levels]])


def read_binary(path: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
    """Atoms start..stop, structured: "name", "index" from 1, and the vectors that the file has ("positions", ...).

    Raises FileIOError if the size of the file does not match its head.
    """
    head = np.fromfile(path, np.int64, 6)
    level, n_atoms = (int(one) for one in head[3:5]) if len(head) == 6 else (-1, 0)
    kind = _atom_type(level + 1) if 0 <= level <= 2 else None
    offset = RECORD * _HEAD_RECORDS
    expected = None if kind is None else offset + n_atoms * kind.itemsize
    found = os.path.getsize(path)
    if kind is None or found != expected:
        raise FileIOError(f"native binary records, expected {expected} bytes, found {found}", at=path)
    last = n_atoms if stop is None else min(stop, n_atoms)
    return np.fromfile(path, kind, max(0, last - start), offset=offset + start * kind.itemsize)
