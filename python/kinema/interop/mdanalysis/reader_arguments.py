"""Arguments of `KinemaReader`: all their names, those passed to `kinema.open`, threads and units."""

from __future__ import annotations

import difflib
import multiprocessing
from collections.abc import Iterable
from typing import Any

from kinema.base.errors import ArgumentError, missing_package
from kinema.base.resources import worker_count
from kinema.formats.registry import formats
from kinema.trajectory.opening import open_arguments

# `kinema.open`'s names of units -> MDAnalysis' names
_UNIT_NAMES = {"angstrom": "Angstrom", "nm": "nm", "ps": "ps"}
# times are this reader's own arguments
_OPEN_ARGUMENTS = set(open_arguments()) - {
    "paths",
    "topology",
    "format",
    "dt",
    "time_offset",
}
# arguments that MDAnalysis passes to every reader, or to topology parsers and readers alike
_OF_MDANALYSIS = {"format", "n_atoms", "time_offset", "atom_style", "mmap"}


def refuse_unknown(kwargs: dict[str, Any], own: Iterable[str]) -> None:
    """Raises ArgumentError for the first argument unknown to the reader (`own`), `kinema.open` and MDAnalysis."""
    for name in kwargs:
        if name not in _OPEN_ARGUMENTS and name not in _OF_MDANALYSIS and not name.isupper():
            close = difflib.get_close_matches(name, [*_OPEN_ARGUMENTS, *({*own} - {"filename", "kwargs"})], 1)
            hint = f"; did you mean {close[0]}=?" if close else ""
            raise ArgumentError(f"the reader has no argument {name}={hint}")


def check_parallel(comm: Any, driver: str | None) -> None:
    """Raises ArgumentError if `comm` is not a communicator, or `driver` cannot be used."""
    if driver not in (None, "mpio"):
        raise ArgumentError(f"driver must be 'mpio' or None, found {driver!r}")
    if comm is not None:
        try:
            from kinema.runners.mpi.communicator import check_communicator
        except ImportError as missing:
            raise missing_package("comm=", "mpi4py", "mpi", missing) from None

        check_communicator(comm)
    elif driver is not None:
        raise ArgumentError("driver='mpio' needs comm=, the communicator of the ranks that open the file together")
    if driver is not None:
        import h5py

        if not h5py.get_config().mpi:
            raise ArgumentError(
                "driver='mpio' needs an h5py that was built with MPI, and this one was not (see docs/mpi.md); leave "
                "driver= out: with comm= alone the file is opened once, and each rank reads its frames by itself"
            )


def threads_of(workers: int | None) -> int:
    """As many threads as asked for; in a process of `multiprocessing` one, as its siblings use the other cores."""
    return 1 if workers is None and multiprocessing.parent_process() is not None else worker_count(workers)


def open_options(given: dict[str, Any], *, refresh_offsets: bool = False, continuous: bool = False) -> dict[str, Any]:
    """The arguments of `kinema.open` among those that MDAnalysis passes to a reader."""
    options = {name: value for name, value in given.items() if name in _OPEN_ARGUMENTS}
    named = given.get("format")
    # MDAnalysis passes the user's argument: "KINEMA", this class, or the name of a format
    if isinstance(named, str) and named.upper() in {one.name for one in formats()}:
        options["format"] = named.upper()
    if refresh_offsets:
        options.setdefault("index", "rebuild")
    options.setdefault("overlap", "last" if continuous else "all")
    return options


def units_of(name: str) -> dict[str, str | None]:
    """MDAnalysis' names of the units of a format."""
    known = next((one for one in formats() if one.name == name), None)
    length = None if known is None else _UNIT_NAMES.get(known.length_unit.split()[0])
    time = None if known is None else _UNIT_NAMES.get(known.time_unit.split()[0])
    both = length is not None and time is not None
    return {
        "length": length,
        "time": time,
        "velocity": f"{length}/{time}" if both else None,
        "force": f"kJ/(mol*{length})" if length is not None else None,
    }
