"""`kinema formats`: what Kinema reads and writes, from `kinema.formats`."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

import kinema as kn
from kinema.cli.command_line import Command

if TYPE_CHECKING:
    from kinema import FormatInfo


def formats(context: typer.Context) -> None:
    """The file formats that Kinema reads and writes."""
    command: Command = context.obj
    known = kn.formats()
    command.print_result(lambda: [dataclasses.asdict(one) for one in known], lambda: "\n".join(_lines(known)))


def _lines(known: "Sequence[FormatInfo]") -> Iterator[str]:
    yield from _table([one for one in known if not one.slow])
    yield ""
    yield "slow, frame by frame through MDAnalysis (also others that it reads):"
    yield from _table([one for one in known if one.slow])


def _table(known: "Sequence[FormatInfo]") -> Iterator[str]:
    rows = [("format", "reads", "writes", "endings", "description")]
    for one in known:
        reads, writes = ("yes" if can else "no" for can in (one.reads, one.writes))
        endings = ", ".join((*one.file_names, *(f".{ending}" for ending in one.extensions)))
        rows.append((one.name, reads, writes, endings, one.description))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
