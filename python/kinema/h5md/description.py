"""What Kinema knows of an HDF5 trajectory before it reads any frame: where bytes lie, which row each frame has, units.

It holds plain data and reads nothing; the modules beside it fill it in from the file, the Rust half reads by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["ABSENT", "FORBIDDEN", "NOT_STORED", "FieldDescription", "H5mdDescription", "H5mdOptions", "StoredArray"]

NOT_STORED = 2**64 - 1
"""Address of a chunk for which the file has no storage; its elements are the fill value."""

ABSENT = -1
"""Row of a frame for which a field has no values and NaN is to be given."""

FORBIDDEN = -2
"""Row of a frame for which a field has no values and reading it is an error."""

Quantity = Literal["positions", "velocities", "forces"]
RowReader = Callable[[NDArray[np.int64]], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class H5mdOptions:
    """How a user wants an HDF5 trajectory to be understood; picklable, so that worker processes understand it alike."""

    group: str | None = None
    """Particles group, "system", "particles/system" or "/particles/system"; None: the only one."""
    dataset: str | None = None
    """Bare data set with positions, (frames, 3 N) or (frames, N, 3), in any HDF5 file."""
    units: Mapping[str, str] | None = None
    """Units where the file has none, or wrong ones: {"length": "nm", "time": "ps", "velocity": "nm ps-1",
    "force": "kJ mol-1 nm-1"}. What is given counts more than what the file says."""
    axis: Quantity | None = None
    """The quantity whose steps are the frames; None: the first that is there of positions, velocities, forces."""
    absent: Literal["error", "nan", "hold"] = "error"
    """Frames for which a quantity has no row: an error when they are read, NaN, or the last row before them."""
    unwrap: bool = False
    """Add the image vectors to the positions, so that particles leave the box instead of jumping across it."""
    root: str | None = None
    """Where the H5MD structure starts; None: found by its group `h5md` with attribute `version`."""
    absent_particles: Literal["mask", "error"] = "mask"
    """Particles that are not there in some frames (fill value in `id`): NaN positions, or an error."""


@dataclass(frozen=True, slots=True)
class StoredArray:
    """How a numeric HDF5 data set lies in its file: all that is needed to read it without libhdf5."""

    name: str
    """Full path in the file, for messages."""
    file: int
    """0: the file itself; n: `H5mdDescription.other_files[n - 1]` (sources of virtual data sets)."""
    shape: tuple[int, ...]
    dtype: str
    """NumPy's array-interface string: "<f4", ">f8", "<f2", "<i4", "|u1"."""
    chunks: tuple[int, ...] | None
    """Shape of a chunk; None: contiguous or compact."""
    addresses: NDArray[np.uint64]
    """Byte address in the file, user block included, of every chunk of the whole grid ceil(shape / chunks), row-major;
    `NOT_STORED` where none is allocated; one element for contiguous storage; empty for compact."""
    sizes: NDArray[np.uint64]
    """Stored bytes, in the order of `addresses`."""
    masks: NDArray[np.uint32]
    """Filter masks, in the order of `addresses`; bit i set: filter i was left out."""
    filters: tuple[tuple[int, tuple[int, ...]], ...]
    """(filter's number, client values) in the order of writing."""
    partial_chunks_unfiltered: bool
    """H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS: chunks that stick out of the extent are stored without filters."""
    fill: bytes
    """One element in the file's byte order, for chunks that are not stored."""
    inline: bytes | None
    """The whole data of a compact data set."""


@dataclass(frozen=True, slots=True)
class FieldDescription:
    """One field (positions, velocities, forces, cell) and which row of it each frame of the trajectory has."""

    pieces: tuple[tuple[int, StoredArray], ...]
    """(First row, array); one unless the data set is virtual. Where `reader` is set they are not read but by
    fingerprints, and mostly empty.

    Positions, velocities, forces: (rows, N, 3), or (rows, 3 N) for a bare data set; cell: (rows, 3) or (rows, 3, 3).
    Where `fixed`, the same without the first dimension."""
    rows: NDArray[np.int64] | None
    """Row for each frame of the trajectory; None: frame i is row i; `ABSENT`, `FORBIDDEN`: it has none."""
    fixed: bool
    """Time-independent: the array has no frame dimension."""
    scale: float
    """Factor from the file's unit to angstrom, angstrom/ps or kJ/(mol angstrom)."""
    unit: str | None
    """As the file, or the user in its place, says it."""
    reader: RowReader | None
    """Where bytes cannot be read directly or values must be rearranged: rows (n,) -> (n, N, 3), for the cell (n, 3, 3),
    float32 or float64, in the file's unit. Takes no negative rows; safe to call from several threads; not picklable."""
    reason: str
    """Why `reader` is needed, in words, else ""."""


@dataclass(frozen=True, slots=True)
class H5mdDescription:
    """All that is known of one HDF5 file as a trajectory."""

    path: str
    other_files: tuple[str, ...]
    """Files that virtual data sets take their values from."""
    group: str
    """"particles/system"; for other layouts the place of the coordinates."""
    n_atoms: int
    n_frames: int
    steps: NDArray[np.int64] | None
    """(n_frames,)."""
    times: NDArray[np.float64] | None
    """(n_frames,) in the file's unit."""
    time_scale: float
    """Factor to ps."""
    positions: FieldDescription | None
    velocities: FieldDescription | None
    forces: FieldDescription | None
    cell: FieldDescription | None
    wide: bool
    """Some vector field is stored in more than float32 holds (float64, int32, ...)."""
    variant: str
    """"H5MD 1.1, group system, written by GROMACS 2026.1"."""
    remarks: tuple[str, ...]
    """Choices that were made and are worth knowing."""
    warnings: tuple[str, ...]
    """What may surprise: "positions are read through h5py: filter szip"."""
