"""The formats that Kinema knows, from the one registry in the Rust half, as data and as a page of the documentation.

It opens no file.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import _core

__all__ = ["FormatInfo", "formats", "formats_page"]


@dataclass(frozen=True)
class FormatInfo:
    """Facts about a file format.

    Attributes
    ----------
    name : str
    extensions : tuple of str
        Endings of file names, without the dot. The first bytes of a file decide, not its name.
    description : str
    reads, writes : bool
    fields : tuple of str
        What a file of the format may hold.
    length_unit, time_unit : str
        The file's own units; Kinema gives angstrom and ps.
    reference : str
        Where the format is specified.
    """

    name: str
    extensions: tuple[str, ...]
    description: str
    reads: bool
    writes: bool
    fields: tuple[str, ...]
    length_unit: str
    time_unit: str
    reference: str


def formats() -> tuple[FormatInfo, ...]:
    """All formats, in the order in which files are tried."""
    return tuple(
        FormatInfo(
            name=known["name"],
            extensions=tuple(known["extensions"]),
            description=known["description"],
            reads=known["reads"],
            writes=known["writes"],
            fields=tuple(known["fields"]),
            length_unit=known["length_unit"],
            time_unit=known["time_unit"],
            reference=known["reference"],
        )
        for known in _core.formats()
    )


def formats_page() -> str:
    """docs/formats.md: one section a format."""
    lines = [
        "# Formats",
        "",
        "Written by `python tools/write_formats_page.py` from the registry in `kinema-core`; a test keeps it current.",
        "Kinema gives lengths in angstrom and times in ps, whatever a file's own units are.",
        "",
        "| format | reads | writes | endings | fields |",
        "|---|---|---|---|---|",
    ]
    for known in formats():
        endings = ", ".join(f".{ending}" for ending in known.extensions)
        lines.append(
            f"| {known.name} | {_yes(known.reads)} | {_yes(known.writes)} | {endings} | {', '.join(known.fields)} |"
        )
    for known in formats():
        lines += [
            "",
            f"## {known.name}",
            "",
            f"{known.description}",
            "",
            f"- units of the file: {known.length_unit}, {known.time_unit}",
            f"- specified in: {known.reference}",
        ]
    return "\n".join(lines) + "\n"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
