"""Ways to come by the frames of a run, by name, as the publications on parallel MDAnalysis compare them.

It reads nothing: a plan carries the name to the core, and "hdf5-mpio-*" to the reader that goes through libhdf5.
"""

from __future__ import annotations

from typing import Literal, get_args

from kinema.errors import ArgumentError

__all__ = ["ACCESSES", "MPIO", "Access", "check_access", "check_parallel_hdf5"]

# "direct": blocks of frames, of which the selected atoms are read: what Kinema does unless told otherwise
# "frame": one frame at a time with all of its atoms, of which the selected ones are picked
# "subset": one frame at a time, of which the selected atoms are read
# "in-memory": all frames of a worker's piece with all of their atoms, before the first of them is computed
# "hdf5-mpio-*": HDF5 files through libhdf5 and MPI-IO, each rank by itself or all ranks together
Access = Literal["direct", "frame", "subset", "in-memory", "hdf5-mpio-independent", "hdf5-mpio-collective"]

ACCESSES: tuple[Access, ...] = get_args(Access)
MPIO: tuple[Access, ...] = ("hdf5-mpio-independent", "hdf5-mpio-collective")


def check_access(access: str) -> Access:
    """The access of that name; ArgumentError for another."""
    for known in ACCESSES:
        if access == known:
            return known
    raise ArgumentError(f"access must be one of {', '.join(map(repr, ACCESSES))}, found {access!r}")


def check_parallel_hdf5(access: Access, runner: str, format: str) -> None:
    """ArgumentError where `access` goes through MPI-IO and something for it is missing, named first to last: the runner
    "mpi", an HDF5 file, an h5py that was built with MPI."""
    if access not in MPIO:
        return
    if runner != "mpi":
        raise ArgumentError(f"access {access!r} is for runner='mpi', and this is {runner!r}")
    if format != "H5MD":
        raise ArgumentError(f"access {access!r} is for HDF5 files, and this is a {format} file")
    import h5py

    if not h5py.get_config().mpi:
        raise ArgumentError(
            f"access {access!r} needs an h5py that was built with MPI, and this one was not; see docs/mpi.md"
        )
