"""These tests need an h5py that was built with MPI: `make test-hdf5-mpi` makes one. Elsewhere they are skipped."""

from __future__ import annotations

import h5py
import pytest

HERE = "tests/studies/parallel_hdf5/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips all tests of this folder where h5py has no MPI."""
    if h5py.get_config().mpi:
        return
    for item in items:
        if item.nodeid.startswith(HERE):
            item.add_marker(pytest.mark.skip(reason="h5py was built without MPI: make test-hdf5-mpi"))
