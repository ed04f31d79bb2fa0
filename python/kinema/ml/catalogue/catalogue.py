"""`Catalogue`: thousands of trajectories in one file; each opens without touching the others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.ml.catalogue.container import CatalogueFile
from kinema.ml.catalogue.entry import Entry, EntryPlace
from kinema.trajectory import Trajectory

_LISTED = 5


class Catalogue(Mapping[str, Trajectory]):
    """The trajectories of a catalogue by name; made by `kinema.ml.make_catalogue` or `kinema ml catalogue make`.

        catalogue = kinema.ml.Catalogue("mdcath.kinema-catalogue")
        traj = catalogue["mdcath_dataset_1abcA00.h5:1abcA00/320/0"]
        frames = kinema.ml.FrameDataset(catalogue, fields=["positions", "forces"])

    Opening a catalogue reads its tables alone. A trajectory is opened from the headers, indices and chunk maps in the
    catalogue, without reading its files. Each file is compared with its identity when it is first read; a file that has
    changed raises CorruptFileError or TruncatedFileError, which names it.

    Parameters
    ----------
    path : path
    folder : path, optional
        Folder of the files; by default the folder of the catalogue. The catalogue has the paths relative to its folder,
        so that a data set can be moved, or copied, together with its catalogue. Files with other inodes are compared by
        samples of their content.

    Raises
    ------
    FileNotFound, FileAccessError, FileIOError, ArgumentError, TruncatedFileError, CorruptFileError
    """

    def __init__(self, path: str | os.PathLike[str], *, folder: str | os.PathLike[str] | None = None) -> None:
        self.file = CatalogueFile(path)
        self.folder = os.path.dirname(self.file.path) if folder is None else os.path.abspath(os.fspath(folder))

    @property
    def path(self) -> str:
        """Path of the catalogue, as given."""
        return self.file.name

    def __len__(self) -> int:
        return len(self.file)

    def __iter__(self) -> Iterator[str]:
        """The names, in the order in which trajectories were added."""
        return map(self.name_of, range(len(self)))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.file.find(name) is not None

    def __getitem__(self, name: str) -> Trajectory:
        return self.open(name)

    def open(self, name: str) -> Trajectory:
        """Opens the trajectory with this name; reads none of its files.

        Raises
        ------
        ArgumentError, which is also a KeyError
            If there is no such name.
        FileNotFound
            If a file is missing.
        TruncatedFileError
            If a file is shorter than it was.
        CorruptFileError
            If the entry is damaged.
        """
        return self.entry(self.number_of(name)).open()

    def number_of(self, name: str) -> int:
        """Position of a trajectory, from 0. For unknown names, raises as `open`."""
        number = self.file.find(name) if isinstance(name, str) else None
        if number is None:
            raise UnknownName(self._unknown(name))
        return number

    def name_of(self, number: int) -> str:
        """Name of the trajectory at a position."""
        return self.file.name_of(number)

    def entry(self, number: int, *, only_names: bool = False) -> Entry:
        """Entry of the trajectory at a position: `paths`, `stated`, ... Raises as `open`.

        `only_names`: for `Entry.reopen`; the files are not looked at.
        """
        file = self.file
        place = EntryPlace(
            file.name, self.folder, file.name_of(number), int(file.n_frames[number]), int(file.n_atoms[number])
        )
        return Entry.unpack(file.entry(number), place, only_names=only_names)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Name, frames and atoms of each trajectory, from the tables; no entry is read."""
        file = self.file
        for number in range(len(self)):
            frames, atoms = int(file.n_frames[number]), int(file.n_atoms[number])
            yield {"name": file.name_of(number), "frames": frames, "atoms": atoms}

    def _unknown(self, name: Any) -> str:
        if not isinstance(name, str):
            return f"{self.path}: trajectories are named by text, found {type(name).__name__}"
        near = self.file.containing(name, _LISTED) or self.file.containing(os.path.basename(name), _LISTED)
        listed = f"; names with it: {', '.join(near)}" if near else ""
        if not near:
            first = [self.name_of(number) for number in range(min(_LISTED, len(self)))]
            listed = f"; its names are {', '.join(first)}{', ...' if len(self) > _LISTED else ''}"
        return f"{self.path}: there is no trajectory {name!r} among its {len(self):,}{listed}"

    def __repr__(self) -> str:
        return f"<Catalogue {self.path}: {len(self):,} trajectories, {int(self.file.n_frames.sum()):,} frames>"


class UnknownName(ArgumentError, KeyError):
    """A name that a catalogue does not have."""
