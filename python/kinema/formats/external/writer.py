"""`ExternalWriter`: PDB and GRO files, of one frame or several, through MDAnalysis' writers.

Text with few digits: losses are listed. Frames are written as they come; the file appears whole, under its name.
"""

from __future__ import annotations

import io
import os
import string
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.choices import whole_number
from kinema.base.errors import ArgumentError, UnsupportedFormatError, os_errors
from kinema.formats.atoms import topology_of
from kinema.formats.external.format import ExternalWriting
from kinema.formats.given_frames import FrameArrays, check_cells_kept
from kinema.formats.h5md.read.row_readers import from_lengths_and_angles
from kinema.formats.writer import Target, Writer
from kinema.model.atom_table import Atoms
from kinema.model.topology import is_atom_group
from kinema.model.universe import import_mdanalysis, universe_of
from kinema.storage.output_checks import check_no_link, check_not_input, check_target, open_temporary
from kinema.storage.output_file import OutputFile, publish

# range that the columns of a coordinate hold, in the unit of the file
_LOWEST, _HIGHEST = -999.9995, 9999.9995
_LARGEST_VELOCITY = 999.99995
# smallest edge, in angstrom, that its columns cannot hold
_LONGEST_EDGE = 99_999.9
_ANGSTROM = {"PDB": 1.0, "GRO": 0.1}
_NAME_WIDTHS = {"PDB": {"names": 4, "resnames": 4}, "GRO": {"names": 5, "resnames": 5}}
_LARGEST_NUMBER = 99_999
# letters for chains
_LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits
# segments in a note
_SHOWN = 6


class _Text(io.StringIO):
    """Text that survives closing."""

    text = ""

    def close(self) -> None:
        """Closes the stream but keeps its text."""
        if not self.closed:
            self.text = self.getvalue()
        super().close()


class AtomsAsText:
    """Data shared by files of the same atoms, which takes longer to make than a frame takes to write.

    Writers that get it as `atoms` write one after the other: each puts its frames into the one Universe.

    `universe`: the atoms, with one frame in memory, into which each frame is put.
    `chains`: the letters of chains that are named after segments, by segment; empty unless the format has chains.
    `ending`: CONECT and END of a PDB file of these atoms, once a file has been written.
    """

    def __init__(self, table: Atoms, format: str) -> None:
        import_mdanalysis()
        self.table = table
        self.chains = _chains_of_segments(table) if format == "PDB" else {}
        self.ending: str | None = None
        with _quiet():
            self.universe = universe_of(table)
            zeros = np.zeros((1, table.n_atoms, 3), np.float32)
            self.universe.load_new(zeros, order="fac", velocities=zeros.copy())
            if self.chains:
                letters = np.array([self.chains[segment] for segment in table.segids.tolist()])
                self.universe.add_TopologyAttr("chainIDs", letters)


class ExternalWriter(Writer):
    """Common part of `PdbWriter` and `GroWriter`: frames as text, one model each or one after the other.

    Options are those of `ExternalWriting`. One thread writes, and these files are not appended to. `n_atoms`, if given,
    must be the number of atoms. `AtomsAsText` as `atoms` serve several files.
    """

    takes = ExternalWriting

    def _start(self, target: Target, options: ExternalWriting) -> None:
        if target.mode != "w":
            raise ArgumentError(f"{self.path}: {self.format} files are not appended to, expected mode='w'")
        n_atoms, n_frames, atoms, topology = target.n_atoms, options.n_frames, options.atoms, options.topology
        self._announced = None if n_frames is None else whole_number("n_frames", n_frames)
        shared = atoms if isinstance(atoms, AtomsAsText) else None
        table = _atoms_of(self.path, self.format, atoms, topology)
        if n_atoms is not None and n_atoms != table.n_atoms:
            raise ArgumentError(
                f"{self.path}: number of atoms, expected {table.n_atoms} of the topology, found {n_atoms}"
            )
        self.n_atoms = table.n_atoms
        self._overwrite, self._n_frames = target.overwrite, 0
        self._fields: tuple[str, ...] | None = None
        self._first_cell: NDArray[np.float64] | None = None
        self._text: Any = None
        self._pdb: Any = None
        self._atoms = AtomsAsText(table, self.format) if shared is None else shared
        chains = self._atoms.chains
        check_target(self.path, overwrite=target.overwrite)
        if isinstance(topology, (str, os.PathLike)):
            check_not_input(self.path, topology)
        self._output = OutputFile(self.path, alone=True)
        self._closed = False
        missing = [name for name in ("names", "resnames", "resids") if table.get(name) is None]
        self._note([f"atoms have no {', '.join(missing)}, placeholders are written"] if missing else [])
        renamed = [f"{letter} is {segment}" for segment, letter in chains.items() if letter != segment]
        more = f" and {len(renamed) - _SHOWN} more" if len(renamed) > _SHOWN else ""
        self._note([f"chains are named after segments: {', '.join(renamed[:_SHOWN])}{more}"] if renamed else [])
        self._lose(_losses_of_atoms(self.format, table))

    @property
    def n_frames(self) -> int:
        return self._n_frames

    @property
    def fields(self) -> tuple[str, ...] | None:
        return self._fields

    def flush(self) -> None:
        """Brings all frames taken so far into the file, which has its temporary name until it is closed."""
        self._require_open()
        if self._n_frames == self._n_flushed:
            return
        with self._writing():
            self._text.flush()
            os.fsync(self._text.fileno())
            if not self._n_flushed:
                self._output.protect()
                self._output.keep()
        self._n_flushed = self._n_frames

    def close(self) -> None:
        """Ends the file, which now appears under its name. Closing twice does nothing."""
        if self._closed:
            return
        try:
            if self._broken:
                raise ArgumentError("an earlier error broke the writer; what was not flushed is lost", at=self.path)
            if not self._n_frames:
                raise ArgumentError(f"{self.path}: no frame was written, and {self.format} files have one at least")
            if self._announced is not None and self._n_frames != self._announced:
                raise ArgumentError(
                    f"{self.path}: number of frames, expected n_frames={self._announced}, found {self._n_frames}"
                )
            self.flush()
            with self._writing():
                self._end_text()
            check_target(self.path, overwrite=self._overwrite)
            publish(self._output.temporary, self.path)
        except BaseException as error:
            self._stop(error)
            raise
        self._output.end()
        self._closed = True

    def abort(self) -> None:
        """Closes without writing more: what was flushed stays under the temporary name, unless keep_partial=False."""
        if self._closed:
            return
        self._closed = True
        if self._text is not None:
            if self._pdb is not None:
                # its END would make the file look whole
                self._pdb.pdbfile = None
            self._text.close()
        if self._n_flushed and self._keep_partial:
            self._output.end()
            return
        if self._n_flushed:
            os.unlink(self._output.temporary)
            self._output.end()
            return
        self._output.discard()

    def _take(self, frames: FrameArrays) -> None:
        frames.check_present(frames.fields)
        self._check(frames)
        self._lose(self._losses_of(frames))
        held = ("positions", "velocities") if self.format == "GRO" else ("positions",)
        self._fields = tuple(name for name in held if name in frames.fields)
        try:
            with self._writing():
                for number in range(len(frames)):
                    self._write_frame(frames, number)
                    self._n_frames += 1
        except BaseException:
            self._broken = True
            raise

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        if self._text is not None:
            # when this process ends, its buffered text must go nowhere
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._text.fileno(), inheritable=False)
            os.close(nowhere)

    @property
    def _keeps_taken(self) -> bool:
        return self._keep_partial and not self._broken

    @property
    def _temporary(self) -> str | None:
        return self._output.temporary if self._n_flushed else None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turns errors of the operating system into Kinema's, and silences MDAnalysis' warnings."""
        with os_errors("cannot write", self.path), _quiet():
            yield

    def _check(self, frames: FrameArrays) -> None:
        """Raises ArgumentError for values that do not fit the columns.

        Raises UnsupportedFormatError for cells that a reader would not give back.
        """
        positions = frames.fields.get("positions")
        if positions is None:
            raise ArgumentError(f"{self.path}: {self.format} frames need positions")
        limits = [("positions", positions, _ANGSTROM[self.format], _LOWEST, _HIGHEST)]
        velocities = frames.fields.get("velocities")
        if self.format == "GRO" and velocities is not None:
            limits.append(("velocities", velocities, 0.1, -_LARGEST_VELOCITY, _LARGEST_VELOCITY))
        for name, values, unit, lowest, highest in limits:
            for number, frame in enumerate(values):
                # as MDAnalysis does, which compares float32
                with np.errstate(over="ignore"):
                    scaled = (np.asarray(frame, np.float32) * np.float32(unit)).astype(np.float64)
                # this catches NaN as well
                wrong = ~((scaled > lowest) & (scaled < highest))
                if wrong.any():
                    atom = int(np.argwhere(wrong)[0][0])
                    raise ArgumentError(
                        f"{self.format} frame {self._n_frames + number}: {name} of atom {atom + 1} "
                        f"(counted from 1) do not fit the columns, expected numbers from {lowest / unit:g} to "
                        f"{highest / unit:g}, found {frame[atom].tolist()}",
                        at=self.path,
                        format=self.format,
                        frame=self._n_frames + number,
                    )
        if frames.cells is not None:
            try:
                check_cells_kept(frames.cells, self._cells_read_back(frames.cells), first=self._n_frames, share=1e-3)
            except UnsupportedFormatError as error:
                what = f"{self.path}: {self.format} {error}"
                raise UnsupportedFormatError(what, path=self.path, format=self.format, frame=error.frame) from None

    def _cells_read_back(self, cells: NDArray[Any]) -> NDArray[np.float64]:
        """The cells (frames, 3, 3) that a reader makes of the written digits; NaN if a reader finds no cell.

        Cells with open edges, which are listed as lost, are returned unchanged.
        """
        lengths, angles = _lengths_and_angles(cells)
        if self.format == "PDB":
            lengths, angles = np.round(lengths, 3), np.round(angles, 2)
            none = (lengths == 1.0).all(axis=1) & (angles == 90.0).all(axis=1)
            found = np.where(none[:, None, None], np.nan, from_lengths_and_angles(lengths, angles))
        else:
            found = np.round(from_lengths_and_angles(lengths, angles), 4)
        found[(lengths >= _LONGEST_EDGE).any(axis=1)] = np.nan
        open_edges = _with_open_edges(cells)
        found[open_edges] = cells[open_edges]
        return found

    def _losses_of(self, frames: FrameArrays) -> list[str]:
        gro = self.format == "GRO"
        losses = [f"positions are rounded to {'0.001 nm' if gro else '0.001 angstrom'}"]
        if "velocities" in frames.fields:
            losses.append("velocities are rounded to 0.0001 nm/ps" if gro else "velocities are lost")
        if "forces" in frames.fields:
            losses.append("forces are lost")
        losses += ["times are rounded to 0.00001 ps"] * (frames.times is not None)
        if frames.cells is not None:
            losses.append(f"cells are rounded to {'0.00001 nm' if gro else '0.001 angstrom and 0.01 degrees'}")
            if _with_open_edges(frames.cells).any():
                losses.append("cells with open edges, of length 0, are lost: MDAnalysis writes none")
            lengths, angles = _lengths_and_angles(frames.cells)
            standard = from_lengths_and_angles(lengths, angles)
            if not np.allclose(standard, frames.cells, rtol=0, atol=1e-3):
                losses.append(
                    "the orientation of cells is lost: their first vector is along x, the second in the xy plane"
                )
        if not gro and not self._same_cells(frames):
            losses.append("cells that differ from that of the first frame are lost")
        return losses

    def _same_cells(self, frames: FrameArrays) -> bool:
        """Whether all cells equal that of the first frame, the only cell that MDAnalysis writes in a PDB file."""
        cells = np.zeros((len(frames), 3, 3)) if frames.cells is None else frames.cells
        if self._first_cell is None and len(cells):
            self._first_cell = np.array(cells[0], np.float64)
        return bool((cells == self._first_cell).all())

    def _write_frame(self, frames: FrameArrays, number: int) -> None:
        universe = self._atoms.universe
        atoms, step = universe.atoms, universe.trajectory.ts
        step.positions = np.asarray(frames.fields["positions"][number], np.float32)
        velocities = frames.fields.get("velocities")
        step.has_velocities = velocities is not None
        if velocities is not None:
            step.velocities = np.asarray(velocities[number], np.float32)
        step.dimensions = None
        cells = None if frames.cells is None else frames.cells[number : number + 1]
        if cells is not None and cells.any() and not _with_open_edges(cells).any():
            lengths, angles = _lengths_and_angles(cells)
            step.dimensions = np.concatenate([lengths[0], angles[0]]).astype(np.float32)
        if self.format == "PDB":
            title = f"by Kinema{_time_and_step(frames, number)}"
            if self._pdb is None:
                self._begin_pdb(title)
            else:
                self._pdb.TITLE(title)
            self._pdb.write(atoms)
            return
        if self._text is None:
            self._text = open_temporary(self._output.temporary, "w", encoding="utf-8")
        self._text.write(self._gro_frame(frames, number))

    def _begin_pdb(self, title: str) -> None:
        from MDAnalysis.coordinates.PDB import PDBWriter

        name = self._output.temporary
        check_no_link(name)
        self._pdb = PDBWriter(name, n_atoms=self.n_atoms, multiframe=self._announced != 1, remarks=title)
        self._text = self._pdb.pdbfile

    def _gro_frame(self, frames: FrameArrays, number: int) -> str:
        """MDAnalysis' text of the frame; its title has time and step as GROMACS writes them."""
        from MDAnalysis.coordinates.GRO import GROWriter
        from MDAnalysis.lib.util import NamedStream

        stream = _Text()
        GROWriter(NamedStream(stream, "frame.gro")).write(self._atoms.universe.atoms)
        _, _, rest = stream.text.partition("\n")
        return f"Written by Kinema{_time_and_step(frames, number)}\n{rest}"

    def _end_text(self) -> None:
        if self._pdb is not None:
            if self._atoms.ending is None:
                # takes MDAnalysis' last lines here instead of writing them to the file
                self._pdb.pdbfile = ending = _Text()
                self._pdb.close()
                self._atoms.ending = ending.text
            self._pdb.pdbfile = None
            self._text.write(self._atoms.ending)
        self._text.close()


class PdbWriter(ExternalWriter, format="PDB", endings=("pdb", "ent")):
    """Writes PDB: positions rounded to 0.001 angstrom, the cell of the first frame; step and time in a TITLE each.

    The cell stands before the first of several models, as the format has it, where MDAnalysis' reader does not see it.
    If the topology has several segments and no chains, chains are named after segments: by their own letter if each has
    one, else A, B, C, ... in their order, which is noted.
    """


class GroWriter(ExternalWriter, format="GRO", endings=("gro",)):
    """Writes GRO: positions rounded to 0.001 nm, velocities to 0.0001 nm/ps, cell, step and time."""


def _time_and_step(frames: FrameArrays, number: int) -> str:
    """Time and step as in titles of GROMACS: " t= 2.00000 step= 1000"; unknown ones are left out."""
    time = "" if frames.times is None else f" t= {frames.times[number]:.5f}"
    return time if frames.steps is None else f"{time} step= {frames.steps[number]}"


def _chains_of_segments(table: Atoms) -> dict[str, str]:
    """The letter of the chain of each segment; empty if the table has chains, one segment, or too many for letters."""
    segments = table.get("segids")
    if table.get("chainIDs") is not None or segments is None:
        return {}
    names = list(dict.fromkeys(segments.tolist()))
    if all(name in _LETTERS and len(name) == 1 for name in names):
        return {name: name for name in names}
    return dict(zip(names, _LETTERS, strict=False)) if 1 < len(names) <= len(_LETTERS) else {}


def _atoms_of(path: str, name: str, atoms: Atoms | AtomsAsText | None, topology: Any) -> Atoms:
    if (atoms is None) == (topology is None):
        raise ArgumentError(f"{path}: {name} needs names of atoms, expected one of atoms= and topology=")
    if isinstance(atoms, AtomsAsText):
        return atoms.table
    if atoms is not None:
        if not isinstance(atoms, Atoms):
            raise ArgumentError(f"atoms is a table of the class Atoms, found {type(atoms).__name__}; give topology=")
        return atoms
    return Atoms.from_mdanalysis(topology) if is_atom_group(topology) else topology_of(topology).atoms


def _losses_of_atoms(name: str, table: Atoms) -> list[str]:
    losses = []
    for column, width in _NAME_WIDTHS[name].items():
        values = table.get(column)
        if values is not None and any(len(str(value)) > width for value in np.unique(values)):
            losses.append(f"{column} of atoms are cut to {width} letters")
    resids = table.get("resids")
    most = 9_999 if name == "PDB" else _LARGEST_NUMBER
    if table.n_atoms > _LARGEST_NUMBER:
        losses.append(f"numbers of atoms beyond {_LARGEST_NUMBER} lose their first digits")
    if resids is not None and len(resids) and resids.max() > most:
        losses.append(f"numbers of residues beyond {most} lose their first digits")
    return losses


def _lengths_and_angles(cells: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edge lengths and angles alpha, beta, gamma in degrees, each (n, 3)."""
    both = _core.lengths_of_cells(np.ascontiguousarray(cells, np.float64))
    return both[:, :3], both[:, 3:]


def _with_open_edges(cells: NDArray[Any]) -> NDArray[np.bool_]:
    """(n,) whether each cell has edges of length 0 beside others."""
    lengths = np.count_nonzero(cells, axis=2)
    n_edges = np.count_nonzero(lengths, axis=1)
    found: NDArray[np.bool_] = (n_edges > 0) & (n_edges < 3)
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences MDAnalysis' warnings of missing columns and cells, which Kinema notes or documents."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="MDAnalysis.*")
        yield
