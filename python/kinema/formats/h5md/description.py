"""Description of an HDF5 trajectory: where the bytes of its fields lie, which row each frame has, units.

Plain data: `read/` fills it in from the file, and the decoder in Rust reads frames by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kinema.base.choices import EXTERNAL, check_choice
from kinema.base.frozen_dataclass import dataclass
from kinema.formats.declared import AxisReading
from kinema.storage.hdf5.stored_dataset import StoredDataset

if TYPE_CHECKING:
    from kinema.storage.hdf5.trust.verdicts import KnownStructures

ABSENT = -1
"""Row of a frame in which a field has no values and reads as NaN."""

FORBIDDEN = -2
"""Row of a frame in which a field has no values and reading it is an error."""

Quantity = Literal["positions", "velocities", "forces"]
RowReader = Callable[[NDArray[np.int64]], NDArray[Any]]


@dataclass(frozen=True)
class H5mdReading(AxisReading):
    """Options of `kinema.open` for HDF5 files."""

    old_names: ClassVar[Mapping[str, str]] = {"group": "particles"}

    particles: str | None = None
    """str

    The particles group, "system", "particles/system" or "/particles/system"; required if a file has several."""

    dataset: str | None = None
    """str

    A bare data set of positions, (frames, 3 N) or (frames, N, 3), in any HDF5 file."""

    unwrap: bool = False
    """bool

    Add the image vectors to the positions, so that particles leave the box instead of jumping across it."""

    root: str | None = None
    """str

    The group that holds the H5MD structure, if it is not the file's root and there are several."""

    absent_particles: str = "mask"
    """{"mask", "error"}

    Result for particles that are missing in some frames: NaN, or an error."""

    external: str = "folder"
    """{"folder", "none", "any"}

    Other files that a file may refer to by external links and virtual data sets: those in its own folder and below,
    symbolic links of both resolved, none, or any. Files that these refer to count as well. Raw files as storage of data
    sets are always refused. See docs/trust.md."""

    def check(self) -> None:
        check_choice("absent_particles", self.absent_particles, ("mask", "error"))
        check_choice("external", self.external, EXTERNAL)


@dataclass(frozen=True)
class H5mdOptions(H5mdReading):
    """A user's options for reading an HDF5 trajectory: `H5mdReading`, and the options of all formats.

    Picklable, so that worker processes use the same options.
    """

    axis: Quantity | None = None
    absent_particles: Literal["mask", "error"] = "mask"
    units: Mapping[str, str] | None = None
    """Units, if the file has none or wrong ones: {"length": "nm", "time": "ps", "velocity": "nm ps-1",
    "force": "kJ mol-1 nm-1"}. These override the file's units."""
    absent: Literal["error", "nan", "hold"] = "error"
    """Result for frames in which a quantity has no row: an error when read, NaN, or the last row before them."""
    stored: bool = True
    """Whether structures of files are stored, and stored ones used."""


@dataclass(frozen=True, slots=True)
class FieldDescription:
    """One field (positions, velocities, forces, cell), and the row of it that each frame of the trajectory has."""

    pieces: tuple[tuple[int, StoredDataset], ...]
    """(First row, array); one unless the data set is virtual. If `reader` is set, they serve only to identify files,
    and are mostly empty.

    Positions, velocities, forces: (rows, N, 3), or (rows, 3 N) for a bare data set; cell: (rows, 3) or (rows, 3, 3).
    If `fixed`, the same without the first dimension."""
    rows: NDArray[np.int64] | None
    """Row for each frame of the trajectory; None: frame i is row i; `ABSENT`, `FORBIDDEN`: it has none."""
    fixed: bool
    """Time-independent: the array has no frame dimension."""
    scale: float
    """Factor from the file's unit to angstrom, angstrom/ps or kJ/(mol angstrom)."""
    unit: str | None
    """As the file states it, or the user instead."""
    reader: RowReader | None
    """Set if bytes cannot be read directly or values must be rearranged: rows (n,) -> (n, N, 3), cells (n, 3, 3),
    float32 or float64, in the file's unit. Takes no negative rows; safe to call from several threads; not picklable."""
    reason: str
    """Why `reader` is needed, in words; empty without one."""
    fills: tuple[float, ...] = ()
    """The file's values for numbers that were never written; they read as NaN."""


@dataclass(frozen=True, slots=True)
class H5mdDescription:
    """Description of one HDF5 file as a trajectory."""

    path: str
    other_files: tuple[str, ...]
    """Files from which virtual data sets take their values."""
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
    """Whether a vector field is stored in a type that float32 cannot hold (float64, int32, ...)."""
    variant: str
    """"H5MD 1.1, group system, written by GROMACS 2026.1"."""
    remarks: tuple[str, ...]
    """Choices that were made and are worth knowing."""
    warnings: tuple[str, ...]
    """Surprises for users: "positions are read through h5py: filter szip"."""
    format: str = "H5MD"
    """ "H5MD", also for other layouts, or "NetCDF"."""
    reads_forward: bool = False
    """Whether frames can only be found from the front of the file."""
    periodic: tuple[bool, bool, bool] = (True, True, True)
    """Along which edges cells are periodic."""
    cut_at: int | None = None
    """Byte offset of an incomplete frame after all others."""

    def known_structures(self) -> KnownStructures:
        """Known structures of the file and of files that it refers to, for other processes."""
        # imported here because it needs h5py, and files that other programs read have descriptions too
        from kinema.storage.hdf5.trust.other_files import known_structures

        return known_structures(self.path)
