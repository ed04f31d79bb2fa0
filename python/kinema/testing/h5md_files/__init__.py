"""Conformance files for HDF5 trajectories: one small file, or several, for every row of the H5MD reader's checklist.

They are written with plain h5py, never by Kinema; each comes with the values that a reader must return.
"""

from kinema.testing.h5md_files import programs, storage, structure, values
from kinema.testing.h5md_files.building import (
    CASES,
    N_ATOMS,
    N_FRAMES,
    ConformanceFile,
    Expected,
    add_box,
    add_element,
    particles_all,
    small_file,
    start_h5md,
    walk,
    write_small_chunks,
)
from kinema.testing.h5md_files.programs import write_gromacs_topology

__all__ = [
    "CASES",
    "N_ATOMS",
    "N_FRAMES",
    "ConformanceFile",
    "Expected",
    "add_box",
    "add_element",
    "particles_all",
    "programs",
    "small_file",
    "start_h5md",
    "storage",
    "structure",
    "values",
    "walk",
    "write_gromacs_topology",
    "write_small_chunks",
]
