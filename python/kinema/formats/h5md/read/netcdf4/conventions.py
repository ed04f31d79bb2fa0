"""Conventions for trajectories in NetCDF: names of variables, and their units.

AMBER: NetCDF trajectory and restart conventions, version 1.0, revision C. Coordinates, velocities and forces are
(frame, atom, spatial), in restarts (atom, spatial); cells are lengths and angles; frames have times and no steps.

DL_POLY: the HISTORY that DL_POLY 4 and 5.0 wrote with `io write netcdf`, convention 0.0. As AMBER's, except for cells
as vectors (frame, cell_spatial, spatial), steps, and for each frame its level (`datalevel`: 0 coordinates, 1 velocities
as well, 2 forces as well) and `imageconvention` (0: no cell). Atoms have names, indices, masses and charges.

Quantised files of cpptraj (keyword `icompress`): variables of 32-bit integers `compressedpos`, `compressedvel` and
`compressedfrc` in place of coordinates, velocities and forces, each with the attribute `icompressfac` (float64), a
power of ten. A value is the integer divided by it, in the unit and times the `scale_factor` that the variable names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kinema.base.errors import ArgumentError

VECTORS: Mapping[str, str] = {"positions": "coordinates", "velocities": "velocities", "forces": "forces"}
"""Variables of the fields."""

RESTART = "AMBERRESTART"
LENGTHS, ANGLES = "cell_lengths", "cell_angles"


@dataclass(frozen=True)
class Convention:
    """Names, units and scale factors of the variables of a file.

    Attributes
    ----------
    name : the option's value, "amber"
    title : for files and messages
    version : of the convention
    units : {"positions": text, ...}, the unit attributes of the variables of fields, cells and times
    scale_factors : {"velocities": 20.455}, by which values in the file are divided
    sizes : {"positions": 1.0, ...}, a unit of the file, factor included, in Kinema's units
    times : NumPy type of the times in a written file
    """

    name: str
    title: str
    version: str
    units: Mapping[str, str]
    scale_factors: Mapping[str, float]
    sizes: Mapping[str, float]
    times: str

    def size(self, field: str) -> float:
        """One unit of the file of "positions", "velocities", "forces" or "times" in Kinema's units."""
        return self.sizes[field]

    @property
    def has_steps(self) -> bool:
        """Whether files hold the steps of frames; otherwise steps are counted from 0."""
        return self.name == "dl_poly"

    @property
    def has_vectors_of_cells(self) -> bool:
        """Whether files hold the vectors of cells; otherwise only lengths and angles."""
        return self.name == "dl_poly"


AMBER = Convention(
    "amber",
    "AMBER",
    "1.0",
    {
        "positions": "angstrom",
        "velocities": "angstrom/picosecond",
        "forces": "kilocalorie/mole/angstrom",
        "cell": "angstrom",
        "times": "picosecond",
    },
    {"velocities": 20.455},
    {"positions": 1.0, "velocities": 20.455, "forces": 4.184, "times": 1.0},
    "<f4",
)
DL_POLY = Convention(
    "dl_poly",
    "DL_POLY",
    "0.0",
    {
        "positions": "Angstrom",
        "velocities": "Angstrom/picosecond",
        "forces": "Dalton*Angstrom/picosecond^2",
        "cell": "Angstrom",
        "times": "picosecond",
    },
    {},
    {"positions": 1.0, "velocities": 1.0, "forces": 0.01, "times": 1.0},
    "<f8",
)
CONVENTIONS: Mapping[str, Convention] = {one.name: one for one in (AMBER, DL_POLY)}


def convention_named(name: str | None) -> Convention:
    """The convention with this name, AMBER's for None; raises ArgumentError for others."""
    found = CONVENTIONS.get("amber" if name is None else name)
    if found is None:
        raise ArgumentError(f"convention is one of {', '.join(CONVENTIONS)}, found {name!r}")
    return found
