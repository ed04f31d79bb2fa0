"""Positions that the core makes in memory, for scaling experiments without I/O: files that stand for them are read."""

from __future__ import annotations

from kinema.formats.format import Format

__all__ = ["Made"]


class Made(Format):
    """Files that stand for positions in memory; they hold none."""

    name = "made"
    evenly_timed = True
    written_fields = ()
