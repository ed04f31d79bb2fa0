"""XTC as a format."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kinema.base.frozen_dataclass import dataclass
from kinema.formats.declared import RecordWriting
from kinema.formats.format import FIXED, Format, Strategies

# a system of at most this number of atoms is stored as floats, without a precision
_PLAIN_ATOMS, _PRECISION_AT = 9, 56


@dataclass(frozen=True, eq=False)
class XtcWriting(RecordWriting):
    """Options of `kinema.Writer` for XTC."""

    fields: str | Sequence[str] | None = None
    """ "positions" """

    precision: float | None = None
    """float

    Numbers to a nm; 1000 by default. With mode="a" an existing file keeps the precision of its last frame."""


class Xtc(Format):
    """GROMACS XTC."""

    name = "XTC"
    packed = True
    indexed = True
    markers = True
    spliced = True
    writing = XtcWriting
    # records differ in size: their places are an exclusive scan of the sizes in a window
    strategies = {"XTC": Strategies(atoms=("gather", "serial"), frames=FIXED)}

    def usual_fields(self, given: Sequence[str]) -> tuple[str, ...]:
        """As `Format`: positions."""
        return tuple(given[:1])

    def written_precision(self, path: str, n_atoms: int) -> float | None:
        """As `Format`: that of the first frame."""
        if n_atoms <= _PLAIN_ATOMS:
            return None
        with open(path, "rb") as file:
            (precision,) = struct.unpack_from(">f", file.read(1 << 8), _PRECISION_AT)
        return float(precision)
