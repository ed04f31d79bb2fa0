"""Options of an H5MD file that are fixed before its first frame, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinema.base.errors import ArgumentError
from kinema.formats.given_frames import real_array
from kinema.formats.h5md.schema import FIELDS
from kinema.formats.h5md.write.atoms import FileAtoms
from kinema.formats.h5md.write.metadata import Dialect, Origin
from kinema.formats.h5md.write.units import LENGTHS, FileUnits
from kinema.storage.hdf5.rounding import Rounding, rounding_within
from kinema.storage.hdf5.storage import Layout, Storage


@dataclass(frozen=True)
class Bound:
    """The bound within which positions are rounded, as requested, and the rounding in the file's unit."""

    value: float
    unit: str
    rounding: Rounding

    @property
    def loss(self) -> str:
        """The loss in words, for `Writer.losses`."""
        return f"positions are rounded, none by more than {self.value:g} {self.unit}"


@dataclass(frozen=True)
class FileOptions:
    """All choices made before the first frame; checked by the writer."""

    n_atoms: int
    group: str
    fields: tuple[str, ...] | None
    dtype: np.dtype[Any]
    layout: Layout
    n_frames: int | None
    align: int | None
    bound: Bound | None
    units: FileUnits
    cell: NDArray[Any] | None
    boundary: tuple[str, str, str] | None
    atoms: FileAtoms
    origin: Origin
    dialect: Dialect
    workers: int
    grows: bool
    allocate_early: bool = False
    """Whether the space of fields is allocated at once, so that others can write into it."""

    def __post_init__(self) -> None:
        """Raises ArgumentError if layout, number of frames and mode contradict each other."""
        if self.layout.contiguous and self.n_frames is None:
            raise ArgumentError("layout='contiguous' needs n_frames=, the number of frames that will be written")
        if self.layout.contiguous and self.grows:
            raise ArgumentError("layout='contiguous' cannot grow, choose another layout for mode='a'")
        self.field_storage()

    def field_storage(self) -> Storage:
        """Storage of the data set of a field."""
        storage = self.layout.new_field(self.n_atoms, self.dtype, self.n_frames)
        return replace(storage, early=self.allocate_early)

    def check_announced(self, n_frames: int, *, complete: bool) -> None:
        """Raises ArgumentError for more frames than announced, and if `complete` also for fewer."""
        if not self.layout.contiguous or self.n_frames is None:
            return
        if n_frames > self.n_frames:
            raise ArgumentError(f"n_frames={self.n_frames} were announced, found frame {n_frames}")
        if complete and n_frames < self.n_frames:
            raise ArgumentError(
                f"{n_frames} frames were written of n_frames={self.n_frames}, and a contiguous layout cannot be cut; "
                "nothing is kept"
            )


def field_names(fields: Sequence[str] | None) -> tuple[str, ...] | None:
    """Fields in their order in the file; raises ArgumentError for an empty list, repeats and unknown names."""
    if fields is None:
        return None
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    if not names or len(set(names)) != len(names) or not set(names) <= set(FIELDS):
        raise ArgumentError(f"fields are some of {', '.join(FIELDS)}, found {fields!r}")
    return tuple(name for name in FIELDS if name in names)


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """float32 or float64, little-endian; raises ArgumentError for other types."""
    kind = np.dtype(dtype)
    if kind not in (np.dtype("float32"), np.dtype("float64")):
        raise ArgumentError(f"dtype is float32 or float64, found {kind}")
    return kind.newbyteorder("<")


def group_name(group: str | None) -> str:
    """Name of the particles group, "trajectory" for None; raises ArgumentError for names that HDF5 takes for a path."""
    name = "trajectory" if group is None else group
    if not name or "/" in name or name in (".", ".."):
        raise ArgumentError(f"particles is a name without '/', found {group!r}")
    return name


def bound_of(max_error: float, unit: str, units: FileUnits) -> Bound:
    """The bound with its rounding in the unit of the file.

    Raises ArgumentError for unknown units and useless bounds.
    """
    if unit not in LENGTHS:
        raise ArgumentError(f"unit of max_error is one of {', '.join(LENGTHS)}, found {unit!r}")
    scale = LENGTHS[unit][1] / LENGTHS[units.length][1]
    rounding_within(max_error)  # so that the message has the number that was given
    return Bound(float(max_error), unit, rounding_within(max_error * scale))


def fixed_cell(cell: ArrayLike) -> Any:
    """(3, 3) float64 from (3,) edge lengths or (3, 3) box vectors as rows; raises ArgumentError for other shapes."""
    array = real_array("cell", cell).astype(np.float64)
    array = np.diag(array) if array.shape == (3,) else array
    if array.shape != (3, 3) or not np.isfinite(array).all() or not array.any():
        raise ArgumentError(f"cell has shape {np.shape(cell)}, expected (3,) or (3, 3) finite numbers in angstrom")
    return array


def boundary_of(boundary: str | Sequence[str] | None) -> tuple[str, str, str] | None:
    """One word for each dimension; raises ArgumentError for words other than "periodic" and "none"."""
    if boundary is None:
        return None
    each = (boundary,) * 3 if isinstance(boundary, str) else tuple(boundary)
    if len(each) != 3 or not set(each) <= {"periodic", "none"}:
        raise ArgumentError(f"boundary is 'periodic' or 'none', or three of these, found {boundary!r}")
    return (each[0], each[1], each[2])
