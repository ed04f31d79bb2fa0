"""The access methods "hdf5-mpio-*": HDF5 files read through libhdf5 and MPI-IO on the ranks of an MPI program.

They are plain data; h5py and mpi4py are imported only when a run asks for one of them.
"""

from __future__ import annotations

from kinema.base.errors import ArgumentError
from kinema.runners.access import AccessMethod

__all__ = ["ACCESS_METHODS"]

_READERS = "kinema.studies.parallel_hdf5.collective"


def _check_h5py(access: str) -> None:
    import h5py

    if not h5py.get_config().mpi:
        raise ArgumentError(
            f"access {access!r} needs an h5py that was built with MPI, and this one was not; see docs/mpi.md"
        )


ACCESS_METHODS = tuple(
    AccessMethod(
        name,
        "whole frames through libhdf5 and MPI-IO",
        collective=collective,
        runner="mpi",
        format="H5MD",
        check_packages=_check_h5py,
        rank_reader=f"{_READERS}:{reader}",
    )
    for name, reader, collective in (
        ("hdf5-mpio-independent", "IndependentReader", False),
        ("hdf5-mpio-collective", "CollectiveReader", True),
    )
)
