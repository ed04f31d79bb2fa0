"""Formats that Kinema reads, or writes, through MDAnalysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kinema.formats.external.frames import EXTERNAL
from kinema.formats.format import Format, Strategies

__all__ = ["Gro", "Pdb", "ThroughMDAnalysis"]


class ThroughMDAnalysis(Format):
    """Whatever MDAnalysis reads and Kinema does not."""

    name = EXTERNAL
    through_mdanalysis = True
    reading_options = ("reader_options",)


class Pdb(Format):
    """PDB, as it is written."""

    name = "PDB"
    written_through_mdanalysis = True
    written_fields: ClassVar[tuple[str, ...]] = ("positions",)
    strategies = {"PDB": Strategies(atoms=("serial",), frames=("serial",))}

    def usual_fields(self, given: Sequence[str]) -> tuple[str, ...]:
        """As `Format`: positions."""
        return tuple(given[:1])


class Gro(Pdb):
    """GRO, as it is written."""

    name = "GRO"
    written_fields = ("positions", "velocities")
    strategies = {"GRO": Strategies(atoms=("serial",), frames=("serial",))}
