"""TRR as a format."""

from __future__ import annotations

from kinema.formats.format import FIXED, Format, Strategies

__all__ = ["Trr"]


class Trr(Format):
    """GROMACS TRR."""

    name = "TRR"
    fields_of_each_frame = True
    wide_records = True
    indexed = True
    markers = True
    spliced = True
    strategies = {"TRR": Strategies(atoms=(*FIXED, "gather"), frames=FIXED)}
    remarks = """\
Each frame may have positions, velocities and forces or lack them. What a field gives in frames that lack it says
`absent=` of `kinema.open`: an error that names the frame, NaN, or the values of the last frame before that has it.
`Frame` and `Block` say what a frame has, and `kinema.convert` keeps that. `axis=` is refused: choose frames. Written
are float32, and float64 with `dtype="float64"`."""
