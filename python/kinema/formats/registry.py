"""The formats that Kinema reads and writes, as data and as a page of the documentation; declared in Rust."""

from __future__ import annotations

from dataclasses import dataclass

from kinema._core import formats as core_formats

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
        for known in core_formats()
    )


_STATED = """\
## Units and times that are stated

What a file does not say, or says wrongly, is stated when it is opened, for every format:

| Python, `kinema.open` | commands | |
|---|---|---|
| `units={"length": "nm", "time": "fs"}` | `--input-units length=nm,time=fs` | of the file; also `velocity`, `force` |
| `dt=2.0` | `--timestep 2` | ps between neighbouring frames of a file, in place of its times |
| `t0=0.0` | `--t0 0` | ps of the first frame; all times are shifted |
| `time_offset=50.0` | | ps, added to all times; not with `t0=` |
| `particles="system"` | `--particles system` | group of particles of an H5MD file |

CHARMM, NAMD, X-PLOR, OpenMM and MDAnalysis write the time step of a DCD file in AKMA units. LAMMPS ("Written by
LAMMPS") writes it in the units of its run, which the file does not name: it is taken as fs, and a note says so; with
`units metal` it is `--input-units time=ps`. VMD's plugin (also in MDTraj and CatDCD) writes 1 for every time step, and
HOOMD 0: `--timestep` gives the time between frames. `kinema info` shows what was assumed and what was stated;
provenance and checkpoints hold what was stated.

`time_offset=` is what MDAnalysis has under this name: it is added to the times of the files. `--t0` sets the time of
the first frame, from which what is added follows when the files have been scanned; Python has it as `t0=`, and not
both at once. Times of H5MD observables are shifted by the same. `dt=` is about frames: times of observables stay, with
a note. `kinema index`, `split`, `join` and `repack` have neither `--timestep` nor `--t0`: indices and frames hold the
files' own times, which these commands leave as they are; what is stated is stated when the result is opened. `kinema
check` judges the times as they were stated.""".splitlines()


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
    lines += ["", *_STATED]
    return "\n".join(lines) + "\n"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
