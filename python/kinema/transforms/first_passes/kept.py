"""Stations of first passes in the user's cache folder: used for the same files, and for files that have grown.

A record belongs to frames, atoms, arguments, earlier transforms, and the way the files were opened. It stores the
identity of each file, and which of its frames count. If all files are unchanged, all stations are valid; otherwise only
the stations of frames before the first change. A file that has grown is compared at all sampled places, up to its old
end.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Any

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError, Error
from kinema.base.notes import emit
from kinema.execution.checkpoint.identity_items import digest_of
from kinema.storage.stored_records import Record, RecordFolder
from kinema.transforms.first_passes.base import FirstPass, Stations

# places at which content is sampled: of all files together, and least of each
_PLACES, _PLACES_A_FILE = 1024, 16
# name of transforms that call a function, whose effect is not known
_FUNCTION = "python"


class KeptStations:
    """The stored stations of a pass; none if earlier transforms are functions, or files cannot be recognised."""

    def __init__(self, made: FirstPass) -> None:
        self._made, core = made, made.trajectory.core
        self._path = core.paths[0]
        self._frames = made.trajectory.choose()
        self._folder = RecordFolder(made.name, core.index)
        self._parts: list[dict[str, Any]] = []
        if self._folder.stores and not any(before.name == _FUNCTION for before in core.transforms):
            self._parts = [
                {"path": os.path.realpath(part["path"]), "kept": list(part["kept"]), "hdf5": part["hdf5"]}
                for part in core.parts()
            ]
        self._facts = self._facts_of(core)

    def _facts_of(self, core: _core.Trajectory) -> dict[str, Any]:
        """All that stations depend on, except the files."""
        made, recipe = self._made, core.recipe()
        whole, stride = len(self._frames) == core.n_frames, self._frames.stride
        chosen = "all" if whole else digest_of(self._frames.numbers()) if stride is None else str(stride)
        arguments = made.kernel_arguments
        stack = b"\0".join(before.identity for before in core.transforms)
        return {
            "version": _core.__version__,
            "frames": chosen,
            "atoms": digest_of(made.selection.indices),
            "arguments": {name: _value_text(arguments[name]) for name in sorted(arguments)},
            "transforms": blake2b(stack, digest_size=16).hexdigest(),
            "opened with": {
                **made.trajectory.stated,
                **{name: str(recipe[name]) for name in ("format", "overlap", "on_truncated", "absent", "units")},
            },
        }

    def _name(self) -> bytes:
        first = os.fsencode(os.path.realpath(self._path))
        return b"\0".join([first, *(repr(fact).encode() for fact in self._facts.values())])

    def load(self) -> Stations | None:
        """The stations of the unchanged first frames; None if there are none.

        Unchanged files are not read.
        """
        self._look_again()
        if not self._parts:
            return None
        record, why_not = self._folder.load(self._name(), None, self._facts)
        if record is not None:
            try:
                return self._held(record)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                why_not = str(error) or type(error).__name__
        if why_not:
            emit([f"{self._path}: the stored {self._made.name} were not used, and are found again: {why_not}"])
        return None

    def _held(self, record: Record) -> Stations | None:
        values = record.values
        n_kept, every = int(values["frames"]), int(values["every"])
        sums = record.arrays["sums"].view(self._made.dtype).reshape(-1, *self._made.shape)
        if every < 1 or len(sums) != -(-n_kept // every):
            raise ValueError(f"there are {len(sums)} stations, every {every} of {n_kept} frames")
        stations = Stations(every, sums, float(values["longest"]), int(values["frame"]), self._frames)
        held = self._frames_held(values["parts"])
        if self._facts["frames"] != "all":
            # a selection's stations are valid all together or not at all
            is_same = held == sum(stop - start for start, stop in (part["kept"] for part in self._parts))
            return stations if is_same and n_kept == len(self._frames) else None
        held = min(held, n_kept)
        # the stored longest step covers all frames
        return stations.truncate(held) if 0 < held and stations.frame < held else None

    def _frames_held(self, parts: list[dict[str, Any]]) -> int:
        """The number of frames before the first change since the record was made."""
        held = 0
        for then, now in zip(parts, self._parts, strict=False):
            (start, stop), (start_now, stop_now) = then["kept"], now["kept"]
            if then["path"] != now["path"] or start != start_now or _state_since(then) == "changed":
                break
            held += min(stop, stop_now) - start
            if stop != stop_now:
                break
        return held

    def watch(self) -> None:
        """Records the files' identities. Call it before a pass, which then reads nothing older than its record says."""
        try:
            for part in self._parts:
                part.update(_state_of(part, len(self._parts), self._made.trajectory.core.index))
        except (Error, OSError):
            self._parts = []  # reading the files raises the error
        self._look_again()

    def _look_again(self) -> None:
        """Stops storing and using stations if a path no longer leads to the opened file, which frames are read from."""
        core = self._made.trajectory.core
        try:
            states = (core.identity(number, 0).state_of(part["path"]) for number, part in enumerate(self._parts))
            if any(state != "unchanged" for state in states):
                self._parts = []
        except Error:
            self._parts = []  # as above

    def store(self, stations: Stations) -> None:
        """Stores the stations of all frames, unless a file has changed meanwhile, except by growing.

        Emits a note if they cannot be stored.
        """
        if not self._parts or len(stations.frames) != len(self._frames):
            return
        if any(_state_since(part) == "changed" for part in self._parts):
            return
        values = {
            "every": stations.every,
            "frames": len(stations.frames),
            "longest": stations.longest,
            "frame": stations.frame,
            "parts": self._parts,
        }
        sums = np.ascontiguousarray(stations.sums).reshape(-1)
        column = sums.view(np.uint32) if sums.dtype == np.int32 else sums
        first = _core.FileIdentity.from_bytes(bytes.fromhex(self._parts[0]["identity"]))
        why_not = self._folder.store(self._name(), first, self._facts, Record(values, {"sums": column}))
        if why_not:
            emit([f"{self._path}: {self._made.name} are not kept for the next run: {why_not}"])


def _state_of(part: dict[str, Any], n_parts: int, index: str) -> dict[str, Any]:
    """The present identity of a file, and of the files that it links to."""
    places = max(_PLACES_A_FILE, _PLACES // n_parts)
    others: tuple[str, ...] = ()
    if part["hdf5"]:
        # imported for HDF5 files only
        from kinema.storage.hdf5.trust.other_files import drawn_in

        others = drawn_in(part["path"], "any", stored=index != "memory")
        # libhdf5 changes many places of a file when the file grows
        places = 0
    return {
        "identity": _core.FileIdentity.of(part["path"], places).to_bytes().hex(),
        "others": [[other, _core.FileIdentity.of(other, 0).to_bytes().hex()] for other in others],
    }


def _state_since(part: dict[str, Any]) -> str:
    """As `FileIdentity.state_of`; also "changed" if a file that it links to has changed or is gone."""

    def state_of(path: str, identity: str) -> str:
        return _core.FileIdentity.from_bytes(bytes.fromhex(identity)).state_of(path)

    try:
        if any(state_of(other, identity) != "unchanged" for other, identity in part["others"]):
            return "changed"
        return state_of(part["path"], part["identity"])
    except Error as error:
        # bytes that are not an identity: the record is damaged
        if isinstance(error, ArgumentError):
            raise ValueError(str(error)) from None
        return "changed"


def _value_text(value: Any) -> str:
    return digest_of(value) if isinstance(value, np.ndarray) else repr(value)
