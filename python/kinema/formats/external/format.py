"""Formats that Kinema reads, or writes, through MDAnalysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kinema.base.frozen_dataclass import dataclass
from kinema.formats.declared import AxisReading, WritingOptions
from kinema.formats.external.frames import EXTERNAL
from kinema.formats.format import Format, Strategies

if TYPE_CHECKING:
    from kinema.formats.external.writer import AtomsAsText
    from kinema.model.atom_table import Atoms


@dataclass(frozen=True)
class ExternalReading(AxisReading):
    """Options of `kinema.open` for files that are read through MDAnalysis."""

    reader_options: Mapping[str, Any] | None = None
    """mapping

    Arguments of MDAnalysis' reader: {"unwrap_images": True} for LAMMPS dumps."""


@dataclass(frozen=True, eq=False)
class ExternalWriting(WritingOptions):
    """Options of `kinema.Writer` for PDB and GRO."""

    n_frames: int | None = None
    """int

    Number of frames to be written: with 1 a PDB file has no MODEL records."""

    atoms: Atoms | AtomsAsText | None = None
    """kinema.Atoms, or the AtomsAsText of several files

    Names, residues, ... of the atoms. One of `atoms` and `topology` is needed; columns that it lacks are written as
    MDAnalysis' placeholders (X, UNK, 1), with a note."""

    topology: Any = None
    """MDAnalysis Universe or AtomGroup, kinema.Topology, or file name

    Source of the atoms, instead of `atoms`."""


class ThroughMDAnalysis(Format):
    """Any format that MDAnalysis reads and Kinema does not."""

    name = EXTERNAL
    through_mdanalysis = True
    reading = ExternalReading


class Pdb(Format):
    """PDB as Kinema writes it."""

    name = "PDB"
    written_through_mdanalysis = True
    writing = ExternalWriting
    written_fields: ClassVar[tuple[str, ...]] = ("positions",)
    strategies = {"PDB": Strategies(atoms=("serial",), frames=("serial",))}

    def usual_fields(self, given: Sequence[str]) -> tuple[str, ...]:
        """As `Format`: positions."""
        return tuple(given[:1])


class Gro(Pdb):
    """GRO as Kinema writes it."""

    name = "GRO"
    written_fields = ("positions", "velocities")
    strategies = {"GRO": Strategies(atoms=("serial",), frames=("serial",))}
