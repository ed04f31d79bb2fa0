"""NetCDF as a format, classic and NetCDF-4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kinema.base.frozen_dataclass import dataclass
from kinema.formats.declared import RecordWriting, WritingOptions
from kinema.formats.format import FIXED, Format, Strategies

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from kinema.formats.splice import FileHead
    from kinema.model.atom_table import Atoms


@dataclass(frozen=True, eq=False)
class NetcdfWriting(RecordWriting):
    """Options of `kinema.Writer` for classic NetCDF."""

    netcdf4: bool = False
    """bool

    Write NetCDF-4 instead, with its options. With mode="a" an existing file keeps its kind."""


@dataclass(frozen=True, eq=False)
class Netcdf4Writing(WritingOptions):
    """Options of `kinema.Writer` for NetCDF-4."""

    fields: str | Sequence[str] | None = None
    """names out of "positions", "velocities", "forces"

    By default the fields of the first frame."""

    netcdf4: bool = True
    """True"""

    convention: str | None = None
    """{"amber", "dl_poly"}

    AMBER's, 1.0: cells as lengths and angles, times as float32, no steps. Velocities are stored divided by their
    scale_factor 20.455, and forces in kcal/(mol angstrom). Or DL_POLY's, 0.0: cells as vectors, steps, times as
    float64, forces in Da angstrom/ps^2, and names, indices, masses and charges of the atoms; without its variable RSD,
    and with `timestep` unset, because frames do not state it."""

    layout: str | Sequence[int] | None = None
    """"frames", "atoms", or (frames, atoms, components)

    As for H5MD; "contiguous" is refused, since frames can always be added to netCDF files."""

    n_frames: int | None = None
    """as H5MD"""

    chunk_bytes: int = 1 << 20
    """as H5MD"""

    compression: str | tuple[int, Sequence[int]] | None = None
    """as H5MD

    Programs with netCDF-C read gzip, or nothing, everywhere; others need plugins of HDF5."""

    level: int | None = None
    """as H5MD"""

    shuffle: bool | None = None
    """as H5MD"""

    checksum: bool = False
    """as H5MD"""

    dtype: DTypeLike | None = None
    """{"float32", "float64"}

    Type of positions, velocities and forces; float32 by default."""

    native: bool = False
    """bool

    Values are given in the units of the file."""

    atoms: Atoms | None = None
    """as H5MD

    For DL_POLY's convention; AMBER's has nothing of atoms."""

    topology: Any = None
    """as H5MD

    Likewise."""


class Netcdf(Format):
    """NetCDF trajectories of AMBER's and DL_POLY's conventions."""

    name = "NetCDF"
    spliced = True
    conventions = True
    writing = NetcdfWriting
    writing_variants = {"netcdf4": Netcdf4Writing}
    strategies = {
        "NetCDF": Strategies(atoms=(*FIXED, "gather"), frames=FIXED),
        "NetCDF-4": Strategies(atoms=("serial",), frames=("gather", "serial")),
    }
    remarks = """\
Numbers that were never written (netCDF's own fill, `_FillValue`, `missing_value`) are NaN, as times, positions,
velocities, forces and cells, and a note names the first such frame; a field of which a frame has nothing else is absent
there. A variable beside the positions whose unit is not known is left out, with a note; `units=` states it, and keeps
the `scale_factor` of the file. Cells of an unknown unit are not known: whatever needs them is an error."""

    def written_kind(self, options: Mapping[str, Any], *, by_library: bool = False) -> str:
        return "NetCDF-4" if by_library else self.name

    def head_of(self, path: str) -> FileHead:
        from kinema.formats.netcdf.head import NetcdfHead

        return NetcdfHead.read(path)
