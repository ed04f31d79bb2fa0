"""HISTORY and CONFIG of DL_POLY as formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kinema.base.frozen_dataclass import dataclass
from kinema.formats.declared import RecordWriting
from kinema.formats.dlpoly.atoms import DlpolyAtoms, has_atoms
from kinema.formats.format import FIXED, Format, Strategies, leading_fields

if TYPE_CHECKING:
    from kinema.formats.splice import FileHead
    from kinema.model.atom_table import Atoms


@dataclass(frozen=True, eq=False)
class DlpolyWriting(RecordWriting):
    """Options of `kinema.Writer` for HISTORY and CONFIG."""

    title: str | None = None
    """str

    The first line, cut at 72 characters."""

    atoms: Atoms | None = None
    """kinema.Atoms

    Names, masses and charges; without them all atoms are named X, which is noted. With mode="a" an existing file keeps
    its own unless others are given."""


class _Dlpoly(Format):
    """Common part of both: text with one record for each atom, and a line of values for each vector."""

    labelled_records = True
    writing = DlpolyWriting

    def usual_fields(self, given: Sequence[str]) -> tuple[str, ...]:
        """As `Format`; forces only with velocities, and velocities only with positions."""
        return leading_fields(given)

    def own_atoms(self, path: str, n_atoms: int) -> DlpolyAtoms:
        return DlpolyAtoms(path, n_atoms)

    def described_atoms(self, path: str, particles: str | None = None) -> DlpolyAtoms | None:
        return DlpolyAtoms(path) if has_atoms(path) else None


class History(_Dlpoly):
    """DL_POLY HISTORY."""

    name = "DL_POLY HISTORY"
    spliced = True
    strategies = {"DL_POLY HISTORY": Strategies(atoms=(*FIXED, "gather"), frames=FIXED)}
    remarks = """\
Positions are given as they are in the file: the origin is the centre of the cell. Forces in the file are in
Da angstrom/ps^2; 100 of these are a kJ/(mol angstrom). Atoms are in the order of their indices, which run from 1 to the
number of atoms in each frame, whatever the order of the frame's records. A frame counts if it is whole and the second
record counts it; if the second record counts none, all whole frames count. imcon 0 means that there is no cell. For
imcon 4, 5 and 7 (truncated octahedron, rhombic dodecahedron, hexagonal prism) the vectors of the file are given, which
are not the lattice, and a note says so; for imcon 6 (slab) z is open, and a note says so. Names, masses and charges are
taken from the first frame. Files may have records of 72 characters (keytrj 0, 1, 2), or of 34 if compressed (keytrj 3),
with line ends of Unix or of Windows; files are recognised by their content, whatever their name. The line `timestep` of
frames is read in the columns of DL_POLY_4, in those of DL_POLY_3 and early DL_POLY_4 (a8,4i10,2f12.6), or else as
words, as in the first frame. Files with records of 72 characters and the columns of DL_POLY_4 are written, continued
and copied record by record.

Files with records of any width are read as well, as DL_POLY 2 and DL_POLY Classic write them and editors leave
them: a scan finds their frames, and its index is stored. The first frame shows which lines of a cell and of vectors
there are; if keytrj or imcon say otherwise, a note names it. The time is that of the frame's head, or step times time
step. If indices of a frame are missing or repeated, the file's order counts. A file whose frames
differ in the number of atoms, in keytrj or in having a cell is refused by frame and byte. Such files are not
continued, and not copied record by record.

Unformatted files of DL_POLY 2 and Classic (Fortran records of float64, as in the manual of DL_POLY_2) are read as well,
of either byte order, with record lengths in 4 or 8 bytes, to the last bit with `dtype="float64"`. Frames are located
by the file's size; the head of each is read for its step, and step times time step is the time. A frame with
another number of atoms, keytrj or imcon is refused by number and byte. These files are not written, continued or
copied."""

    def head_of(self, path: str) -> FileHead:
        from kinema.formats.dlpoly.head import HistoryHead

        return HistoryHead.read(path)


class Config(_Dlpoly):
    """DL_POLY CONFIG, REVCON and CFGMIN: one frame."""

    name = "DL_POLY CONFIG"
    strategies = {"DL_POLY CONFIG": Strategies(atoms=(*FIXED, "gather"), frames=FIXED)}
    remarks = """\
As HISTORY, with one frame: levcfg 0, 1, 2. Records of 72 characters are read as columns, others as words; numbers may
have D or E. If all atoms have distinct indices, atoms are in the order of the indices, as MDAnalysis gives them; else
in the order of the file. Step and time are known if the second record has six numbers, as DL_POLY_4 writes it."""
