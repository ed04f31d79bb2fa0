"""Names and versions of the H5MD specification (1.1), of its modules, and of Kinema's attributes in H5MD files.

The data sets of an element, `value`, `step` and `time`, and its attributes `unit` and `offset` are written out where
they are used.
"""

from __future__ import annotations

__all__ = [
    "CONNECTIVITY",
    "DIMENSION",
    "ELEMENTS",
    "FIELDS",
    "GROMACS_TOPOLOGY",
    "MAX_ERROR",
    "MAX_ERROR_UNIT",
    "METADATA",
    "MODULES",
    "OBSERVABLES",
    "PARTICLES",
    "PER_PARTICLE",
    "PLURALS",
    "ROUNDING",
    "UNITS_VERSION",
    "VERSION",
]

VERSION, UNITS_VERSION = (1, 1), (1, 0)
DIMENSION = 3

METADATA, PARTICLES, OBSERVABLES, CONNECTIVITY = "h5md", "particles", "observables", "connectivity"
"""Groups of the root."""

MODULES = f"{METADATA}/modules"
GROMACS_TOPOLOGY = f"{MODULES}/gromacs_topology"
"""Module of GROMACS (version 0.1, mdrun 2026): molecules and how often each is there."""

ELEMENTS = {"positions": "position", "velocities": "velocity", "forces": "force"}
"""Kinema's names of fields, and those of the elements of a particles group."""
FIELDS = tuple(ELEMENTS)

PLURALS = {"force": ("forces",), "velocity": ("velocities",), "position": ("positions",)}
"""Other names under which programs (ZnH5MD) store an element."""

PER_PARTICLE = ("id", "species", "mass", "charge")
"""Elements of a particles group with one value for each particle."""

MAX_ERROR, MAX_ERROR_UNIT, ROUNDING = "kinema_max_error", "kinema_max_error_unit", "kinema_rounding"
"""Attributes of rounded positions: the bound, its unit, and how they were rounded."""
