"""TRR as a format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kinema.base.frozen_dataclass import dataclass
from kinema.formats.declared import ReadingOptions, RecordWriting
from kinema.formats.format import FIXED, Format, Strategies

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


@dataclass(frozen=True, eq=False)
class TrrWriting(RecordWriting):
    """Options of `kinema.Writer` for TRR."""

    fields: str | Sequence[str] | None = None
    """names out of "positions", "velocities", "forces"

    Fields to write, of frames that have them; by default all."""

    dtype: DTypeLike | None = None
    """"float32" or "float64"

    Precision of all numbers of a frame; float32 by default, as in GROMACS' usual build. Frames that mode="a" adds to a
    file have by default the precision of its first frame."""


class Trr(Format):
    """GROMACS TRR."""

    name = "TRR"
    fields_of_each_frame = True
    wide_records = True
    indexed = True
    markers = True
    spliced = True
    reading = ReadingOptions
    writing = TrrWriting
    strategies = {"TRR": Strategies(atoms=(*FIXED, "gather"), frames=FIXED)}
    remarks = """\
Each frame may have positions, velocities and forces or lack them. `absent=` of `kinema.open` decides what a field gives
in frames that lack it: an error that names the frame, NaN, or the values of the last frame before that has it.
`Frame` and `Block` say which fields a frame has, and `kinema.convert` keeps them. `axis=` is refused: choose frames.
float32 is written by default, float64 with `dtype="float64"`."""
