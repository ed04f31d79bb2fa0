"""`ExternalWriter`: PDB and GRO files, of one frame or several, through MDAnalysis' writers.

Text with few digits: what is lost is listed. Frames are written as they come; the file appears whole, under its name.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.errors import ArgumentError, from_os
from kinema.formats.h5md.read.row_readers import from_lengths_and_angles
from kinema.formats.h5md.write.frames import FrameArrays, frame_arrays
from kinema.formats.h5md.write.options import whole_number
from kinema.frame import VECTOR_FIELDS, Block, Frame
from kinema.notes import emit
from kinema.opening import topology_of
from kinema.selection.atom_table import Atoms
from kinema.selection.topology import is_atom_group
from kinema.selection.universe import import_mdanalysis, universe_of
from kinema.writing.output_checks import check_not_input, check_target
from kinema.writing.output_file import OutputFile, publish

__all__ = ["EXTERNAL_FORMATS", "ExternalWriter"]

EXTERNAL_FORMATS: dict[str, tuple[str, ...]] = {"PDB": ("pdb", "ent"), "GRO": ("gro",)}
"""Formats that are written so, with the endings of their files."""

# what the columns of a coordinate hold, in the unit of the file
_LOWEST, _HIGHEST = -999.9995, 9999.9995
_LARGEST_VELOCITY = 999.99995
_ANGSTROM = {"PDB": 1.0, "GRO": 0.1}
_NAME_WIDTHS = {"PDB": {"names": 4, "resnames": 4}, "GRO": {"names": 5, "resnames": 5}}
_LARGEST_NUMBER = 99_999


class _Text(io.StringIO):
    """Text that stays when it is closed."""

    text = ""

    def close(self) -> None:
        """Closes the stream, and keeps what it had."""
        if not self.closed:
            self.text = self.getvalue()
        super().close()


class ExternalWriter:
    """Writes frames as PDB (a model each) or GRO (one after the other).

    Parameters
    ----------
    path : file name
        .pdb, .ent or .gro, unless `format` says which.
    n_atoms : int, optional
        Must be that of the atoms, where given.
    format : {"PDB", "GRO"}, optional
    mode : "w"
        These files are not appended to.
    overwrite, keep_partial : as `kinema.Writer`
    n_frames : int, optional
        How many frames will be written: with 1 a PDB file has no MODEL records.
    atoms : kinema.Atoms
        Names, residues, ... of the atoms. One of `atoms` and `topology` is needed; columns that it lacks are written as
        MDAnalysis' placeholders (X, UNK, 1), with a note.
    topology : MDAnalysis Universe or AtomGroup, kinema.Topology, or file name
        Where these are taken from instead.

    Raises
    ------
    ArgumentError, FileNotFound, FileAccessError, FileIOError
        From each method as well.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        n_atoms: int | None = None,
        *,
        format: str | None = None,
        mode: Literal["w"] = "w",
        overwrite: bool = False,
        keep_partial: bool = True,
        n_frames: int | None = None,
        atoms: Atoms | None = None,
        topology: Any = None,
    ) -> None:
        self.path = os.fspath(path)
        self._closed, self._broken = True, False  # until all is well
        self.format = _format_of(self.path, format)
        if mode != "w":
            raise ArgumentError(f"{self.path}: {self.format} files are not appended to, expected mode='w'")
        self._announced = None if n_frames is None else whole_number("n_frames", n_frames)
        table = _atoms_of(self.path, self.format, atoms, topology)
        if n_atoms is not None and n_atoms != table.n_atoms:
            raise ArgumentError(
                f"{self.path}: number of atoms, expected {table.n_atoms} of the topology, found {n_atoms}"
            )
        self.n_atoms = table.n_atoms
        self._keep_partial, self._overwrite = keep_partial, overwrite
        self._n_frames = self._n_flushed = 0
        self._first_cell: NDArray[np.float64] | None = None
        self._losses: list[str] = []
        with _quiet():
            self._universe = _universe(table)
        check_target(self.path, overwrite=overwrite)
        if isinstance(topology, (str, os.PathLike)):
            check_not_input(self.path, topology)
        self._output = OutputFile(self.path, alone=True)
        self._text: Any = None
        self._pdb: Any = None
        self._closed = False
        missing = [name for name in ("names", "resnames", "resids") if table.get(name) is None]
        notes = [f"atoms have no {', '.join(missing)}, placeholders are written"] if missing else []
        emit(f"{self.path}: {note}" for note in notes)
        self._lose(_losses_of_atoms(self.format, table))

    @property
    def n_frames(self) -> int:
        """Frames taken so far."""
        return self._n_frames

    @property
    def n_flushed(self) -> int:
        """Frames that are in the file whatever happens to this process, under its temporary name until it is closed."""
        return self._n_flushed

    @property
    def losses(self) -> tuple[str, ...]:
        """What the file does not hold of the frames that were given; noted when it is first met, before the frame."""
        return tuple(self._losses)

    def write(
        self,
        positions: ArrayLike | Frame | Block | None = None,
        *,
        velocities: ArrayLike | None = None,
        forces: ArrayLike | None = None,
        cell: ArrayLike | None = None,
        step: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> None:
        """Takes one frame, or a block of frames; the arguments are those of `kinema.Writer.write`.

        Nothing is taken where it raises ArgumentError: for other shapes and types, no positions, coordinates that are
        no numbers or have more digits than the columns, with the frame.
        """
        self._require_open()
        if isinstance(positions, (Frame, Block)):
            if any(value is not None for value in (velocities, forces, cell, step, time)):
                raise ArgumentError(
                    f"a {type(positions).__name__} is written with all it has, expected nothing beside it"
                )
            frames = _frames_of(self.n_atoms, positions)
        else:
            values = {"positions": positions, "velocities": velocities, "forces": forces}
            frames = frame_arrays(self.n_atoms, values, cell, step, time)
        self._check(frames)
        self._lose(self._losses_of(frames))
        try:
            with self._writing():
                for number in range(len(frames)):
                    self._write_frame(frames, number)
                    self._n_frames += 1
        except BaseException:
            self._broken = True
            raise

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
        """Ends the file, which appears under its name now. Closing twice does nothing."""
        if self._closed:
            return
        try:
            if self._broken:
                raise ArgumentError(
                    f"{self.path}: an earlier error broke the writer; what was not flushed is lost", path=self.path
                )
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
                # its END is that of a whole file
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

    def __enter__(self) -> ExternalWriter:
        self._require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        if not (self._closed or self._broken) and self._keep_partial:
            try:
                self.flush()
            except Exception as second:
                error.add_note(f"and what was not flushed is lost: {second}")
        self._stop(error)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.abort()
            warnings.warn(f"{self.path}: the writer was not closed", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<ExternalWriter of {self.path}: {self.n_frames} frames, {state}>"

    # how

    def _stop(self, error: BaseException) -> None:
        """Closes after an error, which names the file that stays."""
        if self._closed:
            return
        self.abort()
        if self._n_flushed and self._keep_partial:
            error.add_note(f"{self._n_flushed} frames are in {self._output.temporary}, which can be read and renamed")

    def _require_open(self) -> None:
        if self._closed:
            raise ArgumentError(f"{self.path}: the writer is closed", path=self.path)
        if self._broken:
            raise ArgumentError(f"{self.path}: an earlier error broke the writer", path=self.path)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Errors of the operating system as Kinema's; what MDAnalysis warns of is in notes, or a placeholder."""
        try:
            with _quiet():
                yield
        except OSError as error:
            raise from_os("cannot write", error, path=self.path) from None

    def _lose(self, losses: list[str]) -> None:
        new = [loss for loss in losses if loss not in self._losses]
        self._losses += new
        emit(f"{self.path}: {loss}" for loss in new)

    def _check(self, frames: FrameArrays) -> None:
        """ArgumentError for what the columns cannot hold."""
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
                scaled = (np.asarray(frame, np.float32) * np.float32(unit)).astype(np.float64)
                # also what is no number
                wrong = ~((scaled > lowest) & (scaled < highest))
                if wrong.any():
                    atom = int(np.argwhere(wrong)[0][0])
                    raise ArgumentError(
                        f"{self.path}: {self.format} frame {self._n_frames + number}: {name} of atom {atom} do not fit "
                        f"the columns, expected numbers from {lowest / unit:g} to {highest / unit:g}, found "
                        f"{frame[atom].tolist()}",
                        path=self.path,
                        format=self.format,
                        frame=self._n_frames + number,
                    )

    def _losses_of(self, frames: FrameArrays) -> list[str]:
        gro = self.format == "GRO"
        losses = [f"positions are rounded to {'0.001 nm' if gro else '0.001 angstrom'}"]
        if "velocities" in frames.fields:
            losses.append("velocities are rounded to 0.0001 nm/ps" if gro else "velocities are lost")
        if "forces" in frames.fields:
            losses.append("forces are lost")
        if gro:
            losses += ["times are rounded to 0.00001 ps"] * (frames.times is not None)
        else:
            losses += [f"{name} are lost" for name in ("times", "steps") if getattr(frames, name) is not None]
        if frames.cells is not None:
            losses.append(f"cells are rounded to {'0.00001 nm' if gro else '0.001 angstrom and 0.01 degrees'}")
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
        """Whether all cells are that of the first frame, the only one that MDAnalysis writes in a PDB file."""
        cells = np.zeros((len(frames), 3, 3)) if frames.cells is None else frames.cells
        if self._first_cell is None and len(cells):
            self._first_cell = np.array(cells[0], np.float64)
        return bool((cells == self._first_cell).all())

    def _write_frame(self, frames: FrameArrays, number: int) -> None:
        atoms, step = self._universe.atoms, self._universe.trajectory.ts
        step.positions = np.asarray(frames.fields["positions"][number], np.float32)
        velocities = frames.fields.get("velocities")
        step.has_velocities = velocities is not None
        if velocities is not None:
            step.velocities = np.asarray(velocities[number], np.float32)
        step.dimensions = None
        if frames.cells is not None and frames.cells[number].any():
            lengths, angles = _lengths_and_angles(frames.cells[number : number + 1])
            step.dimensions = np.concatenate([lengths[0], angles[0]]).astype(np.float32)
        if self.format == "PDB":
            self._begin_pdb().write(atoms)
            return
        if self._text is None:
            self._text = open(self._output.temporary, "w", encoding="utf-8")  # noqa: SIM115
        self._text.write(self._gro_frame(frames, number))

    def _begin_pdb(self) -> Any:
        if self._pdb is None:
            from MDAnalysis.coordinates.PDB import PDBWriter

            name = self._output.temporary
            self._pdb = PDBWriter(name, n_atoms=self.n_atoms, multiframe=self._announced != 1, remarks="by Kinema")
            self._text = self._pdb.pdbfile
        return self._pdb

    def _gro_frame(self, frames: FrameArrays, number: int) -> str:
        """MDAnalysis' text of the frame; its title has time and step as GROMACS writes them."""
        from MDAnalysis.coordinates.GRO import GROWriter
        from MDAnalysis.lib.util import NamedStream

        stream = _Text()
        GROWriter(NamedStream(stream, "frame.gro")).write(self._universe.atoms)
        _, _, rest = stream.text.partition("\n")
        title = "Written by Kinema"
        if frames.times is not None:
            title += f" t= {frames.times[number]:.5f}"
        if frames.steps is not None:
            title += f" step= {frames.steps[number]}"
        return f"{title}\n{rest}"

    def _end_text(self) -> None:
        if self._pdb is not None:
            self._pdb.close()
        else:
            self._text.close()


def _format_of(path: str, stated: str | None) -> str:
    ending = os.path.splitext(path)[1].lstrip(".").lower()
    wanted = ending if stated is None else stated.lstrip(".").lower()
    for name, endings in EXTERNAL_FORMATS.items():
        if wanted == name.lower() or wanted in endings:
            return name
    raise ArgumentError(f"{path}: expected a name that ends in .pdb, .ent or .gro, or format='PDB' or 'GRO'")


def _atoms_of(path: str, name: str, atoms: Atoms | None, topology: Any) -> Atoms:
    if (atoms is None) == (topology is None):
        raise ArgumentError(f"{path}: {name} needs names of atoms, expected one of atoms= and topology=")
    if atoms is not None:
        if not isinstance(atoms, Atoms):
            raise ArgumentError(f"atoms is a table of the class Atoms, found {type(atoms).__name__}; give topology=")
        return atoms
    return Atoms.from_mdanalysis(topology) if is_atom_group(topology) else topology_of(topology).atoms


def _universe(table: Atoms) -> Any:
    """A Universe of these atoms with one frame in memory, which each frame is put into."""
    import_mdanalysis()
    universe = universe_of(table)
    zeros = np.zeros((1, table.n_atoms, 3), np.float32)
    universe.load_new(zeros, order="fac", velocities=zeros.copy())
    return universe


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
    vectors = np.asarray(cells, np.float64)
    lengths = np.linalg.norm(vectors, axis=2)
    pairs = ((1, 2), (0, 2), (0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = [(vectors[:, i] * vectors[:, j]).sum(axis=1) / (lengths[:, i] * lengths[:, j]) for i, j in pairs]
        angles = np.degrees(np.arccos(np.clip(np.stack(cosines, axis=1), -1, 1)))
    return lengths, np.where(np.stack(cosines, axis=1) == 0, 90.0, angles)


def _frames_of(n_atoms: int, given: Frame | Block) -> FrameArrays:
    """All that a frame or block has; a cell of zeros is none, times of NaN are none."""
    values: dict[str, ArrayLike | None] = {name: getattr(given, name) for name in VECTOR_FIELDS}
    if isinstance(given, Frame):
        cell = given.cell if given.cell.any() else None
        return frame_arrays(n_atoms, values, cell, given.step, given.time if np.isfinite(given.time) else None)
    whole = given.cells.any(axis=(1, 2)).all()
    times = given.times if np.isfinite(given.times).all() else None
    frames = frame_arrays(n_atoms, values, given.cells if whole else None, given.steps, times)
    return frames if whole else FrameArrays(frames.fields, given.cells, frames.steps, frames.times)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without MDAnalysis' warnings of missing columns and cells: what they say is noted, or documented."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="MDAnalysis.*")
        yield
