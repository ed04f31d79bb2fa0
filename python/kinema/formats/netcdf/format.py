"""NetCDF as a format, classic and NetCDF-4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kinema.formats.format import FIXED, Format, Strategies

if TYPE_CHECKING:
    from kinema.formats.splice import FileHead

__all__ = ["Netcdf"]


class Netcdf(Format):
    """NetCDF trajectories of AMBER's and DL_POLY's conventions."""

    name = "NetCDF"
    spliced = True
    conventions = True
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
        """As `Format`."""
        return "NetCDF-4" if by_library else self.name

    def head_of(self, path: str) -> FileHead:
        """As `Format`."""
        from kinema.formats.netcdf.head import NetcdfHead

        return NetcdfHead.read(path)
