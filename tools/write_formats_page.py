"""Writes docs/formats.md: the table of all formats and a section for each, made from what they declare."""

from __future__ import annotations

from pathlib import Path

from kinema.formats.all_formats import format_named
from kinema.formats.format import Axis
from kinema.formats.registry import formats
from kinema.formats.strategies import table_rows

_SLOW = """\
## Formats that are read through MDAnalysis

A file in which none of these formats is found is read through MDAnalysis, if MDAnalysis has a reader for it: by the
extension of the file's name (also before .gz and .bz2), or by MDAnalysis' name of the format,
`kinema.open("positions.out", format="XYZ")`, `--format XYZ` of commands. A file whose first line is `ITEM: TIMESTEP` is
a LAMMPS dump, whatever its name. Every analysis takes such files, and so does convert, with any runner. Formats of the
list above are never read through MDAnalysis, whatever a file is called, and not from compressed files: the error names
the content of a .gz, .bz2 or .zst, and the command that decompresses it.

It is slow, and a note says so: the file is read whole once when it is opened, to find its frames and their fields, and
then frame by frame in each process, one thread at a time. If a trajectory is to be analysed more than once, convert it
to one of the formats above. The table lists the formats that are known to work; others that MDAnalysis reads are read
as well.

- The number of atoms must be the same in all frames: other files are refused with the number of the first frame that
  differs, which `kinema check` reports as a problem. Formats that do not state the number need `topology=`.
- The number of frames is compared with the lines of the file (XYZ, Tinker, LAMMPS dumps, AMBER text), and an
  incomplete last frame is left out as for all formats, `on_truncated=`. In PDB and MOL2 MDAnalysis counts the lines
  that begin a frame. For other formats with several frames a note says that the number is not checked.
- Times and steps are those that the file states. If it states none (XYZ, PDB, mdcrd, MOL2, ...), MDAnalysis counts
  frames by 1 ps, and in LAMMPS dumps it takes each step as 1 ps: such files have no times here, which a note says for
  trajectories, and `dt=` (`--timestep`) states them; `reader_options={"dt": 0.002}` gives the time of a step in a
  LAMMPS dump. `t=` and `step=` in the title of GRO files count.
- MDAnalysis reads only the first frame of a GRO file; a note says if there are more.
- Frames that lack velocities or forces, and `absent=`, `axis=` and `units=` are as for H5MD.
- `reader_options=` are arguments of MDAnalysis' reader: `{"unwrap_images": True}` for LAMMPS dumps.
- MDAnalysis may store files of its own beside a trajectory (`.NAME_offsets.npz`), also with `stored=False`.

| format | endings | | fields |
|---|---|---|---|""".splitlines()

_STATED = """\
## Units and times that are stated

If a file does not state units or times, or states wrong ones, state them when opening it, for every format:

| Python, `kinema.open` | commands | |
|---|---|---|
| `units={"length": "nm", "time": "fs"}` | `--input-units length=nm,time=fs` | of the file; also `velocity`, `force` |
| `dt=2.0` | `--timestep 2` | ps between neighbouring frames of a file, in place of its times |
| `t0=0.0` | `--t0 0` | ps of the first frame; all times are shifted |
| `time_offset=50.0` | | ps, added to all times; not with `t0=` |
| `format="XYZ"` | `--format XYZ` | of files whose name and bytes do not say it |
| `particles="system"` | `--particles system` | group of particles of an H5MD file |

CHARMM, NAMD, X-PLOR, OpenMM and MDAnalysis write the time step of a DCD file in AKMA units. LAMMPS ("Written by
LAMMPS") writes it in the units of its run, which the file does not name: it is taken as fs, and a note says so; with
`units metal` it is `--input-units time=ps`. VMD's plugin (also in MDTraj and CatDCD) writes 1 for every time step, and
HOOMD 0: `--timestep` gives the time between frames. `kinema info` shows what was assumed and what was stated;
provenance and checkpoints hold what was stated.

`--timestep` applies to the frames of each file, which begins at its own first time. With `--t0` and `--overlap all`
frames continue from file to file.

`time_offset=` has MDAnalysis' name and meaning: it is added to the times of the files. `--t0` sets the time of the
first frame; the offset follows from it when the files have been scanned. In Python it is `t0=`; it cannot be combined
with `time_offset=`. Times of H5MD observables are shifted by the same offset. `dt=` is about frames: times of
observables stay, with a note. `kinema index`, `split`, `join` and `repack` have neither `--timestep` nor `--t0`:
indices and frames hold the files' own times, which these commands leave as they are; state times when you open the
result. `kinema check` judges the times as they were stated.""".splitlines()


_AXES: tuple[tuple[Axis, str], ...] = (
    ("atoms", "atoms over ranks"),
    ("frames", "frames over workers"),
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
    own = [known for known in formats() if not known.slow]
    slow = [known for known in formats() if known.slow]
    for known in own:
        endings = ", ".join((*known.file_names, *(f".{ending}" for ending in known.extensions)))
        lines.append(
            f"| {known.name} | {_yes(known.reads)} | {_yes(known.writes)} | {endings} | {', '.join(known.fields)} |"
        )
    for known in own:
        lines += [
            "",
            f"## {known.name}",
            "",
            f"{known.description}",
            "",
            f"- units of the file: {known.length_unit}, {known.time_unit}",
            f"- specified in: {known.reference}",
        ]
        if remarks := format_named(known.name).remarks:
            lines += ["", *remarks.splitlines()]
    lines += ["", *_SLOW]
    for known in slow:
        endings = ", ".join(f".{ending}" for ending in known.extensions)
        lines.append(f"| {known.name} | {endings} | {known.description} | {', '.join(known.fields)} |")
    lines += ["", *_STATED]
    for axis, heading in _AXES:
        head, *rows = ["| " + " | ".join(row) + " |" for row in table_rows(axis)]
        lines += [
            "",
            f"## Strategies with {heading}",
            "",
            "How many processes write one file: [parallel-writing.md](parallel-writing.md).",
            "",
        ]
        lines += [head, "|---" * (head.count("|") - 1) + "|", *rows]
    return "\n".join(lines) + "\n"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / "docs/formats.md").write_text(formats_page(), encoding="utf-8")
