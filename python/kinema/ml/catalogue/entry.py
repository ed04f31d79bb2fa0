"""One trajectory as an entry of a catalogue: its files, the arguments to open them, and the snapshot, as bytes.

Paths in it are relative to the folder of the catalogue. Every file is checked against its identity, in the snapshot,
when it is first read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import (
    ArgumentError,
    CorruptFileError,
    Error,
    InternalError,
    TruncatedFileError,
    UnsupportedFormatError,
    from_os,
)
from kinema.base.resources import default_open_files
from kinema.formats import h5md
from kinema.formats.all_formats import format_named
from kinema.formats.atoms import topology_of
from kinema.formats.h5md.read.atoms import H5mdAtoms
from kinema.ml.catalogue.descriptions import can_be_kept, pack_description, unpack_description
from kinema.ml.catalogue.packing import Packer, Unpacker
from kinema.ml.mdcath import MdcathTrajectory
from kinema.model.selection.frames import FrameSelection
from kinema.model.snapshot import TrajectorySnapshot
from kinema.model.topology import Topology
from kinema.storage.output_file import write_index
from kinema.trajectory import Trajectory

# arguments of the core's constructor that an entry has; the others are functions or depend on the machine
_RECIPE = ("format", "overlap", "on_truncated", "absent", "index", "units", "dt", "time_offset", "first_time")
# MDAnalysis' readers leave nothing to store that would spare the next opening from reading the file
_WHY_NOT = "is read through MDAnalysis, whole each time it is opened; convert it first: kinema convert"
# errors that bytes other than an entry's may raise
_UNUSABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError, MemoryError)


@dataclass(frozen=True)
class EntryPlace:
    """Where an entry is, and its values in the tables of its catalogue."""

    catalogue: str
    folder: str
    """Folder of the files."""
    name: str
    n_frames: int
    n_atoms: int

    def absolute(self, path: str) -> str:
        """The absolute form of a path of the entry."""
        return os.path.normpath(os.path.join(self.folder, path))

    def size(self, path: str, then: int) -> int:
        """Bytes of a file. Raises FileNotFound if it is gone, TruncatedFileError if it had more."""
        try:
            now = os.stat(path).st_size
        except OSError as error:
            what = f"cannot open a file of {self.name} in {self.catalogue}"
            raise from_os(f"{what}, whose files are looked for below {self.folder}", error, path) from None
        if now < then:
            raise TruncatedFileError(
                f"the file has changed since the catalogue {self.catalogue} was made: it is shorter, expected "
                f"{then} bytes, found {now}; renew its entry with: kinema ml catalogue check {self.catalogue} --update",
                at=path,
            )
        return now

    def corrupt(self, what: str) -> CorruptFileError:
        """The error for an entry that cannot be used."""
        return CorruptFileError(
            f"the entry {self.name} cannot be used: {what}; make the catalogue again", at=self.catalogue
        )


@dataclass(frozen=True)
class PackedEntry:
    """An entry in the form in which it is written into a catalogue."""

    name: str
    n_frames: int
    n_atoms: int
    data: bytes


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The data with which a process opens a trajectory of a catalogue, without reading its files."""

    snapshot: TrajectorySnapshot
    data: NDArray[np.uint8]
    descriptions: Mapping[str, Any]
    place: EntryPlace

    def open(self, pool: _core.FilePool | None = None) -> _core.Trajectory:
        """Opens the trajectory; its files are checked when they are first read.

        Raises CorruptFileError for bytes that are not a snapshot.
        """
        try:
            core = self.snapshot.open(self.data, dict(self.descriptions), pool, self.place.catalogue)
        except (InternalError, TruncatedFileError, UnsupportedFormatError, *_UNUSABLE) as error:
            # the core's error for bytes that it has not written
            raise self.place.corrupt(str(error) or type(error).__name__) from None
        expected, found = (self.place.n_frames, self.place.n_atoms), (core.n_frames, core.n_atoms)
        if expected != found:
            raise self.place.corrupt(f"expected {expected[0]} frames of {expected[1]} atoms, found {found}")
        return core


@dataclass(frozen=True, eq=False)
class Entry:
    """An entry that was read: `FrameDataset` takes it as it is.

    `paths`: the files, in order, with the paths that are opened here.
    `stated`: arguments given when the files were opened: `particles`, `dt`, ...
    `topology`: the topology file that was given; "" if its own file describes its atoms.
    `grown`: files that have become longer; the trajectory still has the earlier frames only.
    """

    name: str
    paths: tuple[str, ...]
    format: str
    n_frames: int
    n_atoms: int
    stated: Mapping[str, str]
    topology: str | None
    mdcath: MdcathTrajectory | None
    hdf5: h5md.H5mdOptions | None
    grown: tuple[str, ...]
    kept: Snapshot

    @staticmethod
    def pack(name: str, trajectory: Trajectory, folder: str, mdcath: MdcathTrajectory | None = None) -> PackedEntry:
        """The entry of a trajectory for a catalogue in `folder`; its frames are found now.

        Raises ArgumentError for a view, and for files that are read through MDAnalysis.
        """
        core = trajectory.core
        trajectory.scan()
        if trajectory.choose() != FrameSelection(range(core.n_frames)):
            raise ArgumentError(f"{trajectory.paths[0]}: a catalogue has whole trajectories, found a view")
        if trajectory.transforms:
            raise ArgumentError(
                f"{trajectory.paths[0]}: a catalogue keeps files as they are, found the transforms "
                f"{', '.join(trajectory.transforms)}; apply them when an entry is opened, with with_transform"
            )
        if format_named(core.format).through_mdanalysis:
            raise ArgumentError(f"{_WHY_NOT}", at=trajectory.paths[0])
        recipe, parts = core.recipe(), core.parts()

        def relative(path: str) -> str:
            return os.path.relpath(path, folder)

        packer = Packer()
        descriptions: dict[str, Any] = {}
        for number, (path, part) in enumerate(zip(recipe["paths"], parts, strict=True)):
            if part["hdf5"]:
                described = recipe["describe"](path)
                if can_be_kept(described):
                    descriptions[str(number)] = pack_description(packer, described, part["size"], relative)
        topology = _topology_path(trajectory, relative)
        structure = {
            "paths": [relative(path) for path in recipe["paths"]],
            "sizes": [part["size"] for part in parts],
            "recipe": {key: recipe[key] for key in _RECIPE},
            "stated": dict(trajectory.stated),
            "format": core.format,
            "topology": topology,
            "own_atoms": topology is None and trajectory.topology_name is not None,
            "hdf5": None if trajectory.hdf5 is None else asdict(trajectory.hdf5),
            "mdcath": None if mdcath is None else {k: v for k, v in asdict(mdcath).items() if k != "path"},
            "descriptions": descriptions,
            "snapshot": packer.array(core.snapshot()),
        }
        return PackedEntry(name, core.n_frames, core.n_atoms, packer.packed(structure))

    @classmethod
    def unpack(cls, data: bytes, place: EntryPlace, *, only_names: bool = False) -> Entry:
        """The inverse of `pack`, with files below `place.folder`.

        `only_names`: for `reopen` alone; no file is looked at. Raises FileNotFound or TruncatedFileError for files that
        are missing or shorter than they were; CorruptFileError for bytes that are not an entry.
        """
        try:
            return cls._unpacked(Unpacker(data), place, only_names)
        except _UNUSABLE as error:
            if isinstance(error, Error):
                raise
            raise place.corrupt(str(error) or type(error).__name__) from None

    @classmethod
    def _unpacked(cls, unpacker: Unpacker, place: EntryPlace, only_names: bool) -> Entry:
        read = unpacker.structure
        paths = [place.absolute(path) for path in read["paths"]]
        options = None if read["hdf5"] is None else h5md.H5mdOptions(**read["hdf5"])
        descriptions: dict[str, Any] = {}
        sizes: list[int] = []
        if not only_names:
            sizes = [place.size(path, then) for path, then in zip(paths, read["sizes"], strict=True)]
            for number, described in read["descriptions"].items():
                path, size = paths[int(number)], sizes[int(number)]
                descriptions[path] = unpack_description(unpacker, described, path, size, place.absolute)
        snapshot = unpacker.array(read["snapshot"], "|u1")
        topology, mdcath = read["topology"], read["mdcath"]
        if topology is not None:
            topology = place.absolute(topology)
        elif read["own_atoms"]:
            topology = ""
        if mdcath is not None:
            mdcath = MdcathTrajectory(paths[0], **(mdcath | {"label_names": tuple(map(str, mdcath["label_names"]))}))
        recipe = _recipe(read["recipe"], paths, options)
        return cls(
            name=place.name,
            paths=tuple(paths),
            format=str(read["format"]),
            n_frames=place.n_frames,
            n_atoms=place.n_atoms,
            stated={str(key): str(value) for key, value in read["stated"].items()},
            topology=topology,
            mdcath=mdcath,
            hdf5=options,
            grown=tuple(path for path, then, now in zip(paths, read["sizes"], sizes, strict=False) if now > then),
            kept=Snapshot(TrajectorySnapshot(recipe, len(snapshot), 0), snapshot, descriptions, place),
        )

    def open(self) -> Trajectory:
        """Opens the trajectory; reads no file. Raises CorruptFileError if the entry is not a trajectory's."""
        return self._with(self.kept.open())

    def reopen(self) -> Trajectory:
        """Opens the files as they are now, with the earlier arguments. Raises as `kinema.open`."""
        return self._with(_core.Trajectory(**self.kept.snapshot.recipe))

    def labels(self) -> dict[str, NDArray[Any]]:
        """Values for all frames, (frames,), by name, from the file of an mdCATH trajectory; else empty."""
        return {} if self.mdcath is None else self.mdcath.labels()

    def verify(self) -> None:
        """Raises CorruptFileError or TruncatedFileError if files have changed."""
        self.kept.open().verify()

    def _with(self, core: _core.Trajectory) -> Trajectory:
        return Trajectory(core, self._topology(), hdf5=self.hdf5, stated=self.stated)

    def _topology(self) -> Topology | None:
        if not self.topology:
            if self.topology is None:
                return None
            own = format_named(self.format).own_atoms(self.paths[0], self.n_atoms)
            return Topology(own or H5mdAtoms(self.paths[0], self.hdf5 or h5md.H5mdOptions()))
        return topology_of(self.topology)


def _recipe(kept: Mapping[str, Any], paths: list[str], options: h5md.H5mdOptions | None) -> dict[str, Any]:
    """The arguments of the core's constructor."""
    return {key: kept[key] for key in _RECIPE} | {
        "paths": paths,
        "max_open_files": default_open_files(),
        "describe": functools.partial(h5md.describe, options=options, index="memory"),
        "external": None,
        "write_index": None if kept["index"] == "memory" else write_index,
    }


def _topology_path(trajectory: Trajectory, relative: Callable[[str], str]) -> str | None:
    """The topology file that the user has given; None if the trajectory's own file describes its atoms."""
    name = trajectory.topology_name
    if name is None or name == trajectory.paths[0]:
        return None
    if not os.path.isfile(name):
        raise ArgumentError(f"{trajectory.paths[0]}: the topology of an entry is a file, found {name}")
    return relative(os.path.abspath(name))
