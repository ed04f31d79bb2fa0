"""Files of the data that users name for a catalogue: folders, patterns, files, and the parts of one trajectory."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from typing import Any

from kinema.base.errors import ArgumentError, FileNotFound
from kinema.formats.registry import formats

Files = tuple[str, ...]
"""Absolute paths of the parts of one trajectory; usually one."""


def files_of(data: Any) -> list[Files]:
    """The files of each trajectory that `data` names, each once; folders and patterns in the order of their names.

    Raises ArgumentError if there are none, FileNotFound for a name that does not exist.
    """
    given = data if isinstance(data, Sequence) and not isinstance(data, (str, bytes, os.PathLike)) else [data]
    if not given:
        raise ArgumentError("a catalogue is made of files, folders or patterns; none is named")
    found: dict[Files, None] = {}
    for one in given:
        if isinstance(one, (str, os.PathLike)):
            for path in _files(os.fspath(one)):
                found.setdefault((path,))
        elif isinstance(one, Sequence) and one and all(isinstance(part, (str, os.PathLike)) for part in one):
            found.setdefault(tuple(os.path.abspath(os.fspath(part)) for part in one))
        else:
            raise ArgumentError(f"data are paths, or lists of the parts of one trajectory, found {type(one).__name__}")
    return list(found)


def name_of(files: Files, folder: str, group: str | None = None) -> str:
    """The name of a trajectory in a catalogue: its first file, relative to the catalogue's folder, and its group."""
    name = os.path.relpath(files[0], folder)
    return name if group is None else f"{name}:{group}"


def _files(name: str) -> Iterator[str]:
    if os.path.isdir(name):
        listed = sorted(_walk_files(name))
        if not listed:
            raise ArgumentError("the folder has no trajectories, by the endings of their names", at=name)
    elif os.path.exists(name):
        listed = [name]
    elif glob.has_magic(name):
        listed = sorted(path for path in glob.iglob(name, recursive=True) if os.path.isfile(path))
        if not listed:
            raise FileNotFound("no file fits this pattern", at=name)
    else:
        raise FileNotFound("no such file or folder", at=name)
    for path in listed:
        yield os.path.abspath(path)


def _walk_files(folder: str) -> Iterator[str]:
    """Files of trajectories in a folder and its sub-folders, without hidden ones."""
    own = [known for known in formats() if not known.slow]
    endings = {f".{ending}" for known in own for ending in known.extensions}
    names = {name for known in own for name in known.file_names}

    def refused(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=refused):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            known = os.path.splitext(name)[1].lower() in endings or name in names
            if known and not name.startswith(".") and ".part-" not in name:
                yield os.path.join(place, name)
