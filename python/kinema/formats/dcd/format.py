"""DCD as a format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kinema.base.frozen_dataclass import dataclass
from kinema.formats.declared import RecordWriting
from kinema.formats.format import FIXED, Format, Strategies

if TYPE_CHECKING:
    from kinema.formats.splice import FileHead


@dataclass(frozen=True, eq=False)
class DcdWriting(RecordWriting):
    """Options of `kinema.Writer` for DCD."""

    fields: str | Sequence[str] | None = None
    """"positions" or "velocities"

    By default positions if the first frame has them."""


class Dcd(Format):
    """DCD."""

    name = "DCD"
    evenly_timed = True
    markers = True
    exact_copy = ("positions",)
    mdanalysis_order = "afc"
    spliced = True
    writing = DcdWriting
    strategies = {"DCD": Strategies(atoms=(*FIXED, "gather"), frames=FIXED)}

    def usual_fields(self, given: Sequence[str]) -> tuple[str, ...]:
        """As `Format`; a file has one field."""
        return tuple(given[:1])

    def head_of(self, path: str) -> FileHead:
        from kinema.formats.dcd.head import DcdHead

        return DcdHead.read(path)
