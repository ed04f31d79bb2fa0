"""MDAnalysis and its Universes: the import of the package by threads, the files of a Universe and how they are read.

MDAnalysis is imported when a topology or a Universe is first used, and not before.
"""

from __future__ import annotations

import os
import threading
from types import ModuleType
from typing import Any

from kinema import _core
from kinema.errors import ArgumentError

__all__ = ["files_of_universe", "import_mdanalysis", "options_of_universe"]

_IMPORTING = threading.Lock()


def import_mdanalysis() -> ModuleType:
    """The package MDAnalysis, imported by one thread at a time. Call it before importing any of its modules.

    Its modules import each other. If two threads import two of them at once, each holds the import lock of a module
    that the other needs; Python then gives one of them a partially initialized module.
    """
    with _IMPORTING:
        import MDAnalysis
    module: ModuleType = MDAnalysis
    return module


def files_of_universe(universe: Any) -> list[str]:
    """The trajectory files of a Universe; ArgumentError where its frames are not those of its files."""
    reader = _reader_of(universe)
    if getattr(reader, "transformations", None):
        raise ArgumentError(
            "the universe transforms its frames on the fly, which its files do not hold; open the files themselves "
            "to read them untransformed"
        )
    names = getattr(reader, "filenames", None)
    if names is None:
        names = [getattr(reader, "filename", None)]
    paths = [name for name in names if isinstance(name, (str, os.PathLike))]
    # a trajectory that was transferred to memory, perhaps in part, still has its file's name
    in_memory = getattr(reader, "format", None) == "MEMORY"
    if in_memory or len(paths) != len(names) or not paths:
        raise ArgumentError(
            f"the universe's trajectory ({type(reader).__name__}) is not in files but in memory; "
            "write it to a file and open that"
        )
    return [str(os.fspath(name)) for name in paths]


def options_of_universe(universe: Any) -> dict[str, Any]:
    """The arguments of `kinema.open` for the frames, times and units that the reader of a Universe gives.

    Also arguments that only MDAnalysis has, with values that change what the reader gives, such as `sub`.

    Raises
    ------
    ArgumentError
        For a format, stated by the user, that Kinema does not read.
    """
    chain = _reader_of(universe)
    readers = getattr(chain, "readers", None)
    options: dict[str, Any] = {}
    for reader in [chain] if readers is None else readers:
        given = getattr(reader, "_kwargs", {})
        # those that a KinemaReader has opened its files with
        options |= getattr(reader, "_options", {})
        if given.get("format") is not None:
            options["format"] = _format_of(reader)
        if _reads_lammps(reader):
            # a DCD file in the units of the run, which MDAnalysis has as arguments of this reader
            options["units"] = {dimension: reader.units[dimension] for dimension in ("length", "time")}
        if given.get("dt") is not None:
            options["dt"] = given["dt"]
        # also one that was put into the time step later
        offset = getattr(reader.ts, "data", {}).get("time_offset", given.get("time_offset"))
        if offset:
            options["time_offset"] = offset
        if given.get("convert_units") is False:
            options["convert_units"] = False
        if given.get("sub") is not None:
            options["sub"] = given["sub"]
    if readers is not None:
        # without continuous=True a chain gives all frames of all files
        options["overlap"] = "last" if getattr(chain, "_kwargs", {}).get("continuous") else "all"
    return options


def _reader_of(universe: Any) -> Any:
    reader = getattr(universe, "trajectory", None)
    if reader is None:
        raise ArgumentError("the universe has no trajectory; load one, or open the trajectory file itself")
    return reader


def _reads_lammps(reader: Any) -> bool:
    """Whether it is MDAnalysis' reader of DCD files that LAMMPS has written."""
    return bool(getattr(reader, "flavor", None) == "LAMMPS" and reader.format == "LAMMPS")


def _format_of(reader: Any) -> str:
    """Kinema's name of the format that the user has stated; ArgumentError for one that it does not read."""
    if _reads_lammps(reader):
        return "DCD"
    names = [reader.format] if isinstance(reader.format, str) else list(reader.format)
    known = {one["name"] for one in _core.formats() if one["reads"]}
    for name in names:
        if name.upper() in known:
            return str(name.upper())
    raise ArgumentError(
        f"the universe reads its trajectory with format={names[0]!r}, which Kinema does not know; open the file itself"
    )
