"""MDAnalysis and its Universes: thread-safe import of the package, the files of a Universe and how they are read.

MDAnalysis is imported only when a topology or a Universe is first used.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import re
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.model.atom_table import TUPLES, Atoms

_IMPORTING = threading.Lock()
_RELEASE = re.compile(r"""^__version__ = ["'](\d+\.\d+\.\d+)["']""", re.MULTILINE)


class InstalledPackage(NamedTuple):
    """The installed MDAnalysis: its folder, version, and when the file with the version was written (ns)."""

    folder: str
    version: str
    written: int


def import_mdanalysis() -> ModuleType:
    """The package MDAnalysis, imported by one thread at a time. Call it before importing any of its modules.

    Its modules import each other. If two threads import two of them at once, each holds the import lock of a module
    that the other needs; Python then gives one of them a partially initialized module.
    """
    with _IMPORTING:
        collects = gc.isenabled() and not is_imported()
        if collects:
            # an import creates lasting objects: collecting garbage meanwhile takes a quarter of its time
            gc.disable()
        try:
            import MDAnalysis
        finally:
            if collects:
                gc.enable()
    module: ModuleType = MDAnalysis
    return module


def is_imported() -> bool:
    """Whether this process has imported MDAnalysis, or a thread of it is importing it."""
    return "MDAnalysis" in sys.modules


@functools.cache
def installed_mdanalysis() -> InstalledPackage | None:
    """The MDAnalysis that an import would give, found without importing it; None if missing or not a release."""
    try:
        spec = importlib.util.find_spec("MDAnalysis")
    except ValueError:
        return None  # a module without a place
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name("version.py")
    try:
        found = _RELEASE.search(path.read_text(encoding="utf-8"))
        written = path.stat().st_mtime_ns
    except (OSError, UnicodeDecodeError):
        return None
    return None if found is None else InstalledPackage(str(path.parent), found[1], written)


def universe_of(atoms: Atoms) -> Any:
    """An MDAnalysis Universe with these atoms and no coordinates.

    MDAnalysis guesses missing masses if elements are known. A residue or segment gets the values of its first atom.
    """
    mda = import_mdanalysis()
    from MDAnalysis.core.topologyattrs import Atomtypes, Elements, Masses

    can_be_guessed = {"types": Atomtypes, "elements": Elements, "masses": Masses}
    indices = atoms.get("resindices")
    if indices is None:
        indices = np.zeros(atoms.n_atoms, np.int64)
    _, first, residues = np.unique(indices, return_index=True, return_inverse=True)
    named = atoms.get("segids")
    segments, segindices = np.unique(
        np.array(["SYSTEM"] * len(first)) if named is None else named[first], return_inverse=True
    )
    universe = mda.Universe.empty(
        atoms.n_atoms,
        n_residues=len(first),
        n_segments=len(segments),
        atom_resindex=residues,
        residue_segindex=segindices,
    )
    universe.filename = atoms.name
    for column in atoms.columns:
        values = atoms.get(column)
        if values is None or column in ("resindices", "segids"):
            continue
        if column in TUPLES:
            universe.add_TopologyAttr(column, [tuple(row) for row in values.tolist()])
            continue
        if column in ("resids", "resnames", "icodes", "molnums"):
            values = values[first]
        # a copy: users who change the Universe must not change the table
        plain = values.astype(object if values.dtype.kind == "U" else values.dtype)
        if column in atoms.guessed and column in can_be_guessed:
            universe.add_TopologyAttr(can_be_guessed[column](plain, guessed=True))
            continue
        universe.add_TopologyAttr(column, plain)
        if column == "resids":
            universe.add_TopologyAttr("resnums", plain.copy())
    universe.add_TopologyAttr("segids", segments.astype(object))
    elements = atoms.get("elements")
    if "types" not in atoms.columns and elements is not None:
        universe.add_TopologyAttr("types", elements.astype(object))
    if "masses" not in atoms.columns and elements is not None:
        universe.guess_TopologyAttrs(to_guess=["masses"])
    return universe


def files_of_universe(universe: Any) -> list[str]:
    """The trajectory files of a Universe; raises ArgumentError if its frames are not those of its files."""
    reader = _reader_of(universe)
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

    They include arguments that only MDAnalysis has, such as `sub`, if their values change what the reader gives.

    Raises ArgumentError for a format, stated by the user, that Kinema does not read.
    """
    chain = _reader_of(universe)
    readers = getattr(chain, "readers", None)
    options: dict[str, Any] = {}
    for reader in [chain] if readers is None else readers:
        given = getattr(reader, "_kwargs", {})
        # options with which a KinemaReader opened its files
        options |= getattr(reader, "_options", {})
        if given.get("format") is not None:
            options["format"] = _format_of(reader)
        if _reads_lammps(reader):
            # a DCD file in the units of the run, which are arguments of this MDAnalysis reader
            options["units"] = {dimension: reader.units[dimension] for dimension in ("length", "time")}
        dump = _options_of_dump(reader)
        if dump:
            options["reader_options"] = dump
        elif given.get("dt") is not None:
            options["dt"] = given["dt"]
        # also an offset that was put into the time step later
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


def _options_of_dump(reader: Any) -> dict[str, Any]:
    """Options of MDAnalysis' reader of LAMMPS dumps; its `dt` is the time of a step, not of a frame."""
    if reader.format != "LAMMPSDUMP":
        return {}
    given = {"dt": getattr(reader, "_kwargs", {}).get("dt"), "unwrap_images": reader._unwrap or None}
    if "lammps_coordinate_convention" in vars(reader):
        given["lammps_coordinate_convention"] = reader.lammps_coordinate_convention
    return {name: value for name, value in given.items() if value is not None}


def _format_of(reader: Any) -> str:
    """The format that the user stated, by Kinema's or MDAnalysis' name; raises ArgumentError if it has no files."""
    if _reads_lammps(reader):
        return "DCD"
    names = [reader.format] if isinstance(reader.format, str) else list(reader.format)
    known = {one["name"] for one in _core.formats() if one["reads"]}
    for name in names:
        if name.upper() in known:
            return str(name.upper())
    if names[0].upper() not in ("CHAIN", "MEMORY", "NULL", "CHEMFILES"):
        return str(names[0])
    raise ArgumentError(
        f"the universe reads its trajectory with format={names[0]!r}, which Kinema does not know; open the file itself"
    )
