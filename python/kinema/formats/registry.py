"""The formats that Kinema reads and writes, as data and as a page of the documentation; declared in Rust."""

from __future__ import annotations

from kinema._core import formats as core_formats
from kinema.base.values import dataclass

__all__ = ["EXTERNAL_ENDINGS", "FormatInfo", "formats", "formats_page"]


@dataclass(frozen=True)
class FormatInfo:
    """Facts about a file format.

    Attributes
    ----------
    name : str
    file_names : tuple of str
        Names that files have without an ending: "HISTORY".
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
    slow : bool
        Read frame by frame through MDAnalysis; `kinema.open` takes whatever else MDAnalysis reads as well.
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
    slow: bool = False
    file_names: tuple[str, ...] = ()


def _through_mdanalysis(name: str, endings: str, description: str, fields: str) -> FormatInfo:
    return FormatInfo(
        name=name,
        extensions=tuple(endings.split()),
        description=description,
        reads=True,
        writes=name in ("PDB", "GRO"),
        fields=tuple(fields.split()),
        length_unit="as MDAnalysis converts it",
        time_unit="as MDAnalysis converts it",
        reference="MDAnalysis, doi 10.25080/Majora-629e541a-00e",
        slow=True,
    )


# those of the formats that MDAnalysis reads from files which Kinema does not read itself; what they may hold is what
# MDAnalysis gives
_THROUGH_MDANALYSIS = tuple(
    _through_mdanalysis(*one)
    for one in (
        ("TRJ", "trj mdcrd crdbox", "AMBER text trajectory; needs a topology", "positions cell"),
        ("INPCRD", "inpcrd restrt rst7", "AMBER restart file", "positions time"),
        ("LAMMPSDUMP", "lammpsdump lammpstrj dump", "LAMMPS dump", "positions velocities forces cell step"),
        ("DATA", "data", "LAMMPS data file; needs a topology", "positions velocities cell"),
        ("TRC", "trc", "GROMOS11 trajectory", "positions cell step time"),
        ("TRZ", "trz", "IBIsCO and YASP trajectory; needs a topology", "positions velocities cell time"),
        ("TNG", "tng", "TNG, with the package pytng", "positions velocities forces cell step time"),
        ("GSD", "gsd", "HOOMD, with the package gsd", "positions cell step"),
        ("XYZ", "xyz", "XYZ", "positions"),
        ("TXYZ", "txyz arc", "Tinker", "positions"),
        ("PDB", "pdb ent", "Protein Data Bank, one model or several", "positions cell"),
        ("CIF", "cif mmcif", "mmCIF", "positions cell"),
        ("PDBQT", "pdbqt", "AutoDock", "positions cell"),
        ("PQR", "pqr", "PDB with charges and radii", "positions"),
        ("GRO", "gro", "GROMACS coordinates; the first frame of a file", "positions velocities cell step time"),
        ("CRD", "crd", "CHARMM coordinates", "positions"),
        ("COOR", "coor namdbin", "NAMD binary coordinates", "positions"),
        ("MOL2", "mol2", "Tripos molecules, a frame each", "positions"),
        ("DMS", "dms", "DESRES molecular structure", "positions velocities"),
        ("GMS", "gms", "GAMESS output", "positions"),
        ("IN", "in fhiaims", "FHI-aims input", "positions velocities cell"),
    )
)


EXTERNAL_ENDINGS = {ending: one.name for one in _THROUGH_MDANALYSIS for ending in one.extensions}
"""MDAnalysis' names of formats by the endings that people use."""


def formats() -> tuple[FormatInfo, ...]:
    """All formats: those that Kinema reads itself, in the order in which files are tried, then those that are slow."""
    own = tuple(
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
            file_names=tuple(known["file_names"]),
        )
        for known in core_formats()
    )
    return own + _THROUGH_MDANALYSIS


# what a user of a format must know of how it is read
_REMARKS = {
    "TRR": """\
Each frame may have positions, velocities and forces or lack them. What a field gives in frames that lack it says
`absent=` of `kinema.open`: an error that names the frame, NaN, or the values of the last frame before that has it.
`Frame` and `Block` say what a frame has, and `kinema.convert` keeps that. `axis=` is refused: choose frames. Written
are float32, and float64 with `dtype="float64"`.""",
    "NetCDF": """\
Numbers that were never written (netCDF's own fill, `_FillValue`, `missing_value`) are NaN, as times, positions,
velocities, forces and cells, and a note names the first such frame; a field of which a frame has nothing else is absent
there. A variable beside the positions whose unit is not known is left out, with a note; `units=` states it, and keeps
the `scale_factor` of the file. Cells of an unknown unit are not known: whatever needs them is an error.""",
    "H5MD": """\
Elements are joined by `step`. Without `step`, edges of the box, ids, images and charges are read row by row if they
are as many as the positions, and a note says so; edges that have the shape of one box are those of all frames. A `step`
of 0 is no interval between rows: there are no steps then. A file without the group `h5md` is read if it has particles
groups. What makes no sense beside the positions does not keep them from being read: velocities, forces, times and ids
are left out, with a note that says why, and a cell is not known, so that whatever needs it is an error.""",
    "DL_POLY HISTORY": """\
Positions are given as they are in the file: the origin is the centre of the cell. Forces are in Da angstrom/ps^2
there, 100 of which are a kJ/(mol angstrom). Atoms are in the order of their indices, which are 1 to the number of
atoms in each frame, in whatever order a frame has its records. Frames count that the second record counts and that
are whole; where it counts none, all that are whole. imcon 0 is no cell. Of imcon 4, 5 and 7 (truncated octahedron,
rhombic dodecahedron, hexagonal prism) the vectors of the file are given, which are not the lattice, and a note says
so; of imcon 6 (slab) z is open, and a note says so. Names, masses and charges are those of the first frame. Read
are files with records of 72 characters (keytrj 0, 1, 2), and compressed ones of 34 (keytrj 3), with ends of lines of
Unix and of Windows; files are found by their content, whatever their name. The line `timestep` of frames is read in the
columns of DL_POLY_4, in those of DL_POLY_3 and early DL_POLY_4 (a8,4i10,2f12.6), or else as words, as the first frame
has it. Written, continued and copied record by record are those of 72 characters with the columns of DL_POLY_4.

Files with records of any width are read as well, as DL_POLY 2 and DL_POLY Classic write them and editors leave
others: their frames are found by a scan, whose index is stored. Which lines of a cell and of vectors there are is
seen in the first frame; where keytrj or imcon say otherwise, a note names it. The time is that of the frame's head,
or step times time step. Where indices of a frame are not distinct or missing, the file's order counts. Frames of
another number of atoms, keytrj or with and without a cell in one file are refused by number and byte. Such files are
not continued, and not copied record by record.

Unformatted files of DL_POLY 2 and Classic (Fortran records of float64, as in the manual of DL_POLY_2) are read as well,
of either byte order, with lengths of records in 4 or 8 bytes, to the last bit with `dtype="float64"`. Frames are
computed from the size; the head of each is read for its step, and step times time step is the time. A frame with
another number of atoms, keytrj or imcon is refused by number and byte. They are not written, continued or copied.""",
    "DL_POLY CONFIG": """\
As HISTORY, with one frame: levcfg 0, 1, 2. Records of 72 characters are read as columns, others as words, numbers
with D or E. Where all atoms have an index, and no two the same, they are in the order of these, as MDAnalysis gives
them; else in that of the file. Step and time are there where the second record has six numbers, as DL_POLY_4 writes
it.""",
}

_SLOW = """\
## Formats that are read through MDAnalysis

A file in which none of these formats is found is read through MDAnalysis, where that has a reader: by the ending of the
file's name (also before .gz and .bz2), or by MDAnalysis' name of the format, `kinema.open("positions.out",
format="XYZ")`, `--format XYZ` of commands. A file whose first line is `ITEM: TIMESTEP` is a LAMMPS dump, whatever its
name. Every analysis takes such files, and so does convert, with any runner. A format of the list above is never read
so, whatever a file is called, and not from compressed files: the error names what is in a .gz, .bz2 or .zst, and the
command that decompresses it.

It is slow, and a note says so: the file is read once whole when it is opened, for how many frames there are and what
they hold, and then frame by frame in each process, one thread at a time. A trajectory that is to be analysed more than
once is better converted to one of the formats above. The table has the formats that are known to work; what MDAnalysis
reads besides is read as well.

- The number of atoms must be the same in all frames: others are refused with the number of the first such frame, and a
  problem for `kinema check`. Formats that do not say it need `topology=`.
- The number of frames is compared with the lines of the file (XYZ, Tinker, LAMMPS dumps, AMBER text), and a last frame
  that is not whole is left out as for all formats, `on_truncated=`. Of PDB and MOL2 MDAnalysis counts the lines that
  begin a frame. For other formats with several frames a note says that the number is not checked.
- Times and steps are those that the file states. MDAnalysis counts frames by 1 ps where there are none (XYZ, PDB,
  mdcrd, MOL2, ...), and takes as many ps as there are steps in LAMMPS dumps: such files have no times here, which a
  note says of trajectories, and `dt=` (`--timestep`) states them; `reader_options={"dt": 0.002}` gives the time of a
  step in a LAMMPS dump. Of GRO files `t=` and `step=` in the title count.
- Of a GRO file MDAnalysis reads the first frame alone; a note says where there are more.
- Frames that lack velocities or forces, and `absent=`, `axis=` and `units=` are as for H5MD.
- `reader_options=` are arguments of MDAnalysis' reader: `{"unwrap_images": True}` of LAMMPS dumps.
- MDAnalysis may store files of its own beside a trajectory (`.NAME_offsets.npz`), also with `stored=False`.

| format | endings | | fields |
|---|---|---|---|""".splitlines()

_STATED = """\
## Units and times that are stated

What a file does not say, or says wrongly, is stated when it is opened, for every format:

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

`--timestep` is about the frames of each file, which begins at its own first time. With `--t0` and `--overlap all`
frames run on from file to file.

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
        if known.name in _REMARKS:
            lines += ["", *_REMARKS[known.name].splitlines()]
    lines += ["", *_SLOW]
    for known in slow:
        endings = ", ".join(f".{ending}" for ending in known.extensions)
        lines.append(f"| {known.name} | {endings} | {known.description} | {', '.join(known.fields)} |")
    lines += ["", *_STATED]
    return "\n".join(lines) + "\n"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
