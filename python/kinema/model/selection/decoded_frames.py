"""Verdicts: which frames of a file were decoded, and what was found, kept in the user's cache folder.

A verdict holds for the file that it was made of, as long as its `FileIdentity` is unchanged; a copy is decoded again.
Verdicts are kept for files whose frames are decoded from their own bytes alone: all formats except HDF5, whose files
may refer to other files.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from kinema import _core
from kinema.base.errors import Error
from kinema.base.notes import emit
from kinema.storage.stored_records import Record, RecordFolder

_FORMATS = ("XTC", "TRR", "NetCDF", "DCD", "DL_POLY HISTORY", "DL_POLY CONFIG")
# number of the set of checks that decoders make: raised whenever they find more, so that earlier verdicts do not count
_CHECKS = 2


@dataclass(frozen=True)
class DamagedBytes:
    """A frame of a file that cannot be decoded, by its number in the file, with its first and last byte.

    `message` is the error's, without the path; `truncated` says which error it is, `offset` its byte.
    """

    frame: int
    first_byte: int
    last_byte: int
    message: str
    truncated: bool
    offset: int | None


@dataclass(frozen=True)
class Verdict:
    """Result of decoding the frames from `start` to `stop` of a file."""

    start: int
    stop: int
    damaged: tuple[DamagedBytes, ...] = ()
    not_finite: tuple[int, ...] = ()

    def joined(self, other: Verdict) -> Verdict:
        """Both as one if they overlap or meet; else the one with more frames."""
        if self.start > other.stop or other.start > self.stop:
            return max(self, other, key=lambda one: one.stop - one.start)
        damaged = {one.frame: one for one in (*self.damaged, *other.damaged)}
        return Verdict(
            min(self.start, other.start),
            max(self.stop, other.stop),
            tuple(damaged[frame] for frame in sorted(damaged)),
            tuple(sorted({*self.not_finite, *other.not_finite})),
        )


class Verdicts:
    """The verdict on each file of a scanned trajectory; None if none holds.

    Trajectories opened with stored=False load and store nothing; those with index="rebuild" load nothing.
    """

    def __init__(self, trajectory: _core.Trajectory) -> None:
        self._trajectory = trajectory
        self._parts = trajectory.parts()
        # if all frames of a file are damaged, each takes some 300 bytes
        self._records = RecordFolder("verdicts", trajectory.index)
        # taken before a frame is decoded: a file that changes meanwhile has another identity at the end
        self._identities = [self._identity(number) for number in range(len(self._parts))]
        self._known = [self._load(number) for number in range(len(self._parts))]

    def __getitem__(self, part: int) -> Verdict | None:
        return self._known[part]

    @property
    def kept(self) -> bool:
        """Whether a verdict on some of the files can be stored."""
        return any(identity is not None for identity in self._identities)

    def add(self, part: int, verdict: Verdict) -> None:
        """Stores a verdict, merged with the known one, unless the file has changed since this object was made.

        If storing fails, a note says so: the frames are decoded again the next time.
        """
        known, identity = self._known[part], self._identities[part]
        verdict = verdict if known is None else known.joined(verdict)
        if not self._records.stores or identity is None or verdict == known:
            return
        try:
            if not identity.is_unchanged(_core.FileIdentity.of(self._parts[part]["path"], places=0)):
                return
        except Error as error:
            why_not = str(error)
        else:
            record = Record({"verdict": asdict(verdict)})
            why_not = self._records.store(self._name(part), identity, self._facts(part), record)
        if why_not:
            emit([f"which frames can be decoded is not kept for the next run: {why_not}"])
            return
        self._known[part] = verdict

    def _name(self, part: int) -> bytes:
        return os.fsencode(os.path.realpath(self._parts[part]["path"]))

    def _identity(self, number: int) -> _core.FileIdentity | None:
        """Identity of a file when it was scanned; None if its verdicts are not kept or it cannot be read."""
        part = self._parts[number]
        if not self._records.stores or part["format"] not in _FORMATS or part["hdf5"]:
            return None
        try:
            return self._trajectory.identity(number, places=0)
        except Error:
            return None

    def _facts(self, number: int) -> dict[str, Any]:
        """Facts besides the file that a verdict depends on."""
        part = self._parts[number]
        return {
            "version": _core.__version__,
            "checks": _CHECKS,
            "format": part["format"],
            "frames": part["file_frames"],
            # another index may number the frames differently
            "damaged": [list(one) for one in part["damaged"]],
        }

    def _load(self, part: int) -> Verdict | None:
        """The stored verdict on a file with this identity; None if it cannot be read."""
        identity = self._identities[part]
        if identity is None:
            return None
        record, _ = self._records.load(self._name(part), identity, self._facts(part))
        try:
            verdict = {} if record is None else record.values["verdict"]
            if not verdict:
                return None
            damaged = tuple(DamagedBytes(**one) for one in verdict["damaged"])
            return Verdict(verdict["start"], verdict["stop"], damaged, tuple(verdict["not_finite"]))
        except (KeyError, TypeError, AttributeError):
            return None
