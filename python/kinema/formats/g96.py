"""GROMOS-96 text of GROMACS as a format, and its writer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from kinema.formats.format import FIXED, Format, Strategies, leading_fields
from kinema.formats.record_writer import RecordWriter, vector_names

__all__ = ["G96", "G96Writer"]


class G96(Format):
    """GROMACS G96."""

    name = "G96"
    indexed = True
    markers = True
    strategies: ClassVar[Mapping[str, Strategies]] = {"G96": Strategies(atoms=("gather", "serial"), frames=FIXED)}
    remarks = """\
Read are files of `gmx trjconv` and `gmx editconf` and of GROMOS-96: blocks TITLE, TIMESTEP, POSITION or POSITIONRED,
VELOCITY or VELOCITYRED, and BOX of 3 or 9 numbers; lines that begin with # inside blocks of vectors are comments. The
first frame says how many atoms there are, how many lines a block of vectors has, and whether frames have velocities and
a BOX; if they have a BOX, later frames may lack velocities. A file without TIMESTEP has no times. Names and
residues in POSITION are not read: take a topology. Other blocks, such as GENBOX, are refused by name and byte.

Written are POSITIONRED, VELOCITYRED, and BOX for each frame, zeros if it has no cell; 9 decimals of nm and nm/ps, 6 of
ps. Numbers that 15 columns do not hold are refused. Files with TIMESTEP and BOX and without comments are continued."""

    def usual_fields(self, given: Sequence[str]) -> tuple[str, ...]:
        """As `Format`: positions, and velocities beside them."""
        return leading_fields(given)[:2]


class G96Writer(RecordWriter, format="G96"):
    """Writes G96, the text of GROMOS-96, as `gmx trjconv` does: positions, velocities, cell, step and time.

    The first frame decides whether all have velocities.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
    resume_from : as `XtcWriter`
    fields : "positions", or "positions" and "velocities"
        By default those of the first frame.
    title : str, optional
        The title of the first frame.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        n_atoms: int | None = None,
        *,
        format: str | None = None,
        mode: Literal["w", "a"] = "w",
        overwrite: bool = False,
        keep_partial: bool = True,
        workers: int | None = None,
        resume_from: int | None = None,
        fields: str | Sequence[str] | None = None,
        title: str | None = None,
    ) -> None:
        options = {"fields": vector_names(fields), "title": title}
        self._open(path, n_atoms, format, mode, overwrite, keep_partial, workers, resume_from, **options)
