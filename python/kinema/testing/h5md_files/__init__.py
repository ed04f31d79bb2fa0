"""Conformance files for HDF5 trajectories: one small file, or several, for every row of the H5MD reader's checklist.

They are written with plain h5py, never by Kinema, together with what a reader must give. It asserts nothing itself.
"""

from . import programs, storage, structure, values
from .building import CASES, N_ATOMS, N_FRAMES, Case, Expected, add_box, add_element, small_file, start_h5md, walk
from .programs import write_gromacs_topology

__all__ = [
    "CASES",
    "N_ATOMS",
    "N_FRAMES",
    "Case",
    "Expected",
    "add_box",
    "add_element",
    "programs",
    "small_file",
    "start_h5md",
    "storage",
    "structure",
    "values",
    "walk",
    "write_gromacs_topology",
]
