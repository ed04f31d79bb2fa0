"""GROMOS-96 text of GROMACS as a format, and its writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from kinema.base.frozen_dataclass import dataclass
from kinema.formats.declared import ReadingOptions, RecordWriting
from kinema.formats.format import FIXED, Format, Strategies, leading_fields
from kinema.formats.record_writer import RecordWriter, vector_names
from kinema.formats.writer import Target

__all__ = ["G96", "G96Writer", "G96Writing"]


@dataclass(frozen=True, eq=False)
class G96Writing(RecordWriting):
    """Options of `kinema.Writer` for G96."""

    fields: str | Sequence[str] | None = None
    """"positions", or "positions" and "velocities"

    By default the fields of the first frame."""

    title: str | None = None
    """The title of the first frame."""


class G96(Format):
    """GROMACS G96."""

    name = "G96"
    indexed = True
    markers = True
    reading = ReadingOptions
    writing = G96Writing
    strategies: ClassVar[Mapping[str, Strategies]] = {"G96": Strategies(atoms=("gather", "serial"), frames=FIXED)}
    remarks = """\
Read are files of `gmx trjconv` and `gmx editconf` and of GROMOS-96: blocks TITLE, TIMESTEP, POSITION or POSITIONRED,
VELOCITY or VELOCITYRED, and BOX of 3 or 9 numbers; lines that begin with # inside blocks of vectors are comments. The
first frame says how many atoms there are, how many lines a block of vectors has, and whether frames have velocities
and a BOX; if they have a BOX, later frames may lack velocities. A file of one frame without BOX counts as unfinished.
A file without TIMESTEP has no times. Names and residues in POSITION are not read: take a topology. Files with other
blocks, such as GENBOX of GROMOS11, are read through MDAnalysis if it has a reader for them, else refused by name and
byte.

Written are POSITIONRED, VELOCITYRED, and BOX for each frame, zeros if it has no cell; 9 decimals of nm and nm/ps, 6 of
ps. Numbers that 15 columns do not hold are refused. Files with TIMESTEP and BOX and without comments are continued."""

    def usual_fields(self, given: Sequence[str]) -> tuple[str, ...]:
        """As `Format`: positions, and velocities beside them."""
        return leading_fields(given)[:2]


class G96Writer(RecordWriter, format="G96"):
    """Writes G96, the text of GROMOS-96, as `gmx trjconv` does: positions, velocities, cell, step and time.

    The first frame decides whether all have velocities. Options are those of `G96Writing`.
    """

    takes = G96Writing

    def _start(self, target: Target, options: G96Writing) -> None:
        self._open(target, options.resume_from, fields=vector_names(options.fields), title=options.title)
