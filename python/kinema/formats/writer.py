"""`Writer`: the base class of the writers of all formats, which chooses among them.

It knows no format: each class names its own. `kinema.formats.all_writers` imports them all.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self
from weakref import WeakSet

from numpy.typing import ArrayLike, DTypeLike

from kinema._core import formats
from kinema.base.errors import ArgumentError, FileNotFound, UnsupportedFormatError, missing_package
from kinema.base.frozen_dataclass import dataclass
from kinema.base.notes import emit
from kinema.formats.declared import WritingOptions, current_names, documented
from kinema.formats.given_frames import FrameArrays, frames_of
from kinema.formats.options import WRITE_TABLE
from kinema.formats.writer_choice import CLASSES, VARIANTS, check_options, class_of, format_of, old_names
from kinema.model.frame import Block, Frame

if TYPE_CHECKING:
    from typing import Unpack

    from kinema.formats.options import WriteOptions

__all__ = ["RanksWriter", "Target", "Writer", "not_finite_note"]

# The class for comm=, a string: it is loaded on demand, because it needs mpi4py and lies above this folder.
_OVER_RANKS = ("kinema.parallel.writer", "ParallelWriter")
# writers of this process, for its forks
_WRITERS: WeakSet[Writer] = WeakSet()


@dataclass(frozen=True)
class Target:
    """The file that a writer is made for."""

    path: str | os.PathLike[str]
    """The path as it was given: `convert` gives an `OutputPart`."""
    n_atoms: int | None
    mode: Literal["w", "a"]
    overwrite: bool
    workers: int | None

    @property
    def is_there(self) -> bool:
        """Whether frames are added to a file that exists."""
        return self.mode == "a" and os.path.exists(self.path)

    def check_cut(self, resume_from: int | None) -> None:
        """Raises ArgumentError if `resume_from` would cut a file that does not exist."""
        if resume_from is not None and not self.is_there:
            path = os.fspath(self.path)
            raise ArgumentError(f"{path}: resume_from= is for mode='a' and a file that is there", path=path)


@documented(WRITE_TABLE)
class Writer:
    """Writes frames into a file: H5MD, XTC, TRR, NetCDF, DCD, HISTORY, CONFIG, G96, PDB, GRO, by suffix or `format`.

    Values are given in Kinema's units: angstrom, ps, angstrom/ps, kJ/(mol angstrom). If the format cannot hold
    something, or not exactly, this is noted once and listed in `losses`.

    With mode="w" the file appears under its name when it is closed, whole; until then it is
    `NAME.part-HOST-BOOT-PID.EXT` beside it. An exception inside `with` leaves this file with the frames taken so far,
    and names it; a killed process leaves it with the frames up to the last `flush()`. No later Writer removes it.

    With mode="a" the frames up to the last `flush()` are in the file whatever happens to the process afterwards, and a
    later Writer continues after them. (A power cut is another matter.)

    Parameters
    ----------
    path : file name
    n_atoms : int
        May be left out if mode="a" finds a file.
    format : str, optional
        "H5MD", "XTC", ...; by default by the suffix.
    mode : {"w", "a"}
        "w" makes a new file; "a" appends to a file, and creates it if it does not exist.
    overwrite : bool
        Let mode="w" replace an existing file.
    keep_partial : bool
        Whether a new file stays under its temporary name after an exception.
    workers : int
        Threads that encode; by default as many as the process may use.
    comm : mpi4py intracommunicator, optional
        All its ranks write the file together, each of them the atoms that it has: `docs/parallel-writing.md`.
    **options
        Options that the format declares, listed below. Others are refused, with a list of these.

    Attributes
    ----------
    path, format : str
    n_atoms : int
    notes : list of str
        Notes for users of the file, losses included.
    losses : tuple of str
        Data of the frames that the file does not hold, or not exactly.

    Raises
    ------
    ArgumentError, FileNotFound, FileAccessError, FileIOError
        From each method as well. UnsupportedFormatError and CorruptFileError for files that cannot be appended to.

    Examples
    --------
    >>> with kn.Writer("copy.xtc", n_atoms=traj.n_atoms) as out:
    ...     for block in traj.blocks():
    ...         out.write(block)
    >>> kn.open("copy.xtc").n_frames
    196
    """

    format: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()
    file_names: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[type[WritingOptions]] = WritingOptions
    """The options of the format, as it declares them."""

    path: str
    n_atoms: int
    losses: tuple[str, ...]
    notes: list[str]
    # until construction succeeds
    _closed = True
    _broken = False
    # whether this object is a copy that a fork made
    _is_copy = False

    def __init_subclass__(cls, *, format: str = "", endings: Sequence[str] = (), variant: str = "") -> None:
        """Registers a class that writes `format`.

        `endings` are file name extensions, for formats that the core does not have. With `variant` the class is chosen
        by this option, "netcdf4", and for files that it `continues`.
        """
        super().__init_subclass__()
        if format:
            known = [one for one in formats() if one["name"] == format]
            cls.format = format
            cls.suffixes = tuple(f".{ending}" for ending in endings or known[0]["extensions"])
            cls.file_names = tuple(name for one in known for name in one["file_names"])
            if variant:
                VARIANTS.setdefault(format, {})[variant] = cls
            else:
                CLASSES[format] = cls

    def __new__(
        cls,
        path: str | os.PathLike[str],
        n_atoms: int | None = None,
        *,
        format: str | None = None,
        comm: Any = None,
        **options: Any,
    ) -> Self:
        options = current_names("Writer", options, old_names(), warned_at=2)
        if comm is not None:
            parallel = _rank_writer_class()
            if not issubclass(parallel, cls):
                raise ArgumentError(f"comm= is for kinema.Writer, which chooses by format=, found {cls.__name__}")
            over_ranks: Self = object.__new__(parallel)
            return over_ranks
        chosen = class_of(path, format_of(path, format if format is not None else cls.format or None), options)
        if not issubclass(chosen, cls):
            raise ArgumentError(f"{cls.__name__} writes {cls.format}, found what {chosen.__name__} writes")
        check_options(path, chosen.format, options)
        made: Self = object.__new__(chosen)
        return made

    def __init__(
        self,
        path: str | os.PathLike[str],
        n_atoms: int | None = None,
        *,
        format: str | None = None,
        mode: Literal["w", "a"] = "w",
        overwrite: bool = False,
        keep_partial: bool = True,
        workers: int | None = None,
        comm: Any = None,
        **options: Unpack[WriteOptions],
    ) -> None:
        self._share(path, mode, overwrite=overwrite, keep_partial=keep_partial)
        declared = self.takes(**current_names("Writer", options, self.takes.old_names))
        self._start(Target(path, n_atoms, mode, overwrite, workers), declared)

    def _share(
        self, path: str | os.PathLike[str], mode: Literal["w", "a"], *, overwrite: bool, keep_partial: bool
    ) -> None:
        """Takes the arguments of all writers, before any file is touched."""
        self.path = os.fspath(path)
        self.notes, self.losses = [], ()
        self._keep_partial = keep_partial
        self._n_flushed = 0
        self._not_finite_noted = False
        if mode not in ("w", "a"):
            raise ArgumentError(f"mode is 'w' for a new file or 'a' to append, found {mode!r}")
        if mode == "a" and overwrite:
            raise ArgumentError("overwrite=True is for mode='w'; mode='a' keeps the frames that are there")
        self._mode = mode
        _WRITERS.add(self)

    @classmethod
    def continues(cls, path: str | os.PathLike[str]) -> bool:
        """For a variant of a format: whether mode="a" continues this file with this class, whatever the options."""
        return False

    @classmethod
    def append(cls, path: str | os.PathLike[str], n_atoms: int | None = None, **options: Any) -> Writer:
        """`Writer(path, n_atoms, mode="a", ...)` for a file that must exist."""
        if not os.path.exists(path):
            name = os.fspath(path)
            raise FileNotFound(f"{name}: no such file to append to; mode='a' makes it", path=name)
        return cls(path, n_atoms, mode="a", **options)

    @property
    def n_frames(self) -> int:
        """Number of frames: those that the file had, and those taken since."""
        raise NotImplementedError

    @property
    def n_flushed(self) -> int:
        """Frames that are in the file whatever happens to this process; a new file may have its temporary name."""
        return self._n_flushed

    @property
    def fields(self) -> tuple[str, ...] | None:
        """Fields of each frame; None before the first frame, which decides."""
        raise NotImplementedError

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
        """Takes one frame, or a block of frames.

        Parameters
        ----------
        positions : (atoms, 3) or (frames, atoms, 3) in angstrom, or a `Frame` or `Block` with all its fields
        velocities, forces : likewise, in angstrom/ps and kJ/(mol angstrom)
        cell : (3, 3) or (3,) for a frame, (frames, 3, 3) or (frames, 3) for a block
            Box vectors as rows in angstrom, or edge lengths.
        step : whole number, or (frames,)
            By default steps continue at the distance of the last two frames; a file starts with 0, 1.
        time : ps, or (frames,)
            By default times continue in the same way, NaN if fewer than two frames are there. In HDF5 files all
            frames have a time, or none has.

        Raises
        ------
        ArgumentError
            If a shape or a type is wrong, or if the frames lack a field that the file has. No frame is taken then.

        Notes
        -----
        Frames may be written later, together with others, or by `flush` and `close`; a later call then raises the
        error. Positions that are NaN or infinite are written if the format has such numbers (H5MD, DCD); a note names
        the first frame that has some.
        """
        self._require_open()
        values = {"positions": positions, "velocities": velocities, "forces": forces}
        frames = frames_of(self.n_atoms, values, cell, step, time)
        if len(frames):
            self._take(frames)

    def add_observable(
        self,
        name: str,
        value: ArrayLike | None = None,
        *,
        shape: tuple[int, ...] = (),
        dtype: DTypeLike | None = None,
        unit: str | None = None,
    ) -> None:
        """Makes an observable of an H5MD file; raises UnsupportedFormatError for other formats, which have none."""
        raise self._observables_error()

    def write_observable(
        self, name: str, value: ArrayLike, *, step: ArrayLike | None = None, time: ArrayLike | None = None
    ) -> None:
        """Takes values of an observable of an H5MD file; raises UnsupportedFormatError for other formats."""
        raise self._observables_error()

    def flush(self) -> None:
        """Brings all frames taken so far into the file.

        When it returns they are in the file, and stay there if the process is killed later. A new file (mode="w") has
        its temporary name until it is closed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Writes what is left and closes the file; a new one now appears under its name. Closing twice does nothing.

        If that fails, a new file stays under its temporary name, with the frames that are in it.
        """
        raise NotImplementedError

    def abort(self) -> None:
        """Closes without writing more: the file stays as it was last flushed, a new one under its temporary name.

        A new file that was not flushed is removed, and any new file with keep_partial=False.
        """
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # the frames that were taken are whole, whatever stopped the caller
        self._salvage_and_stop(error)

    def __del__(self) -> None:
        if not self._closed:
            self.abort()
            place = "" if self._temporary is None else f" in {self._temporary}"
            left = f"of its file {self._n_flushed} frames are left{place}" if self._n_flushed else "its file is lost"
            warnings.warn(f"{self.path}: the writer was not closed, {left}", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<Writer of {self.path}: {self.n_frames} frames, {state}>"

    # what a format adds

    def _start(self, target: Target, options: Any) -> None:
        """Checks the options, an object of `takes`, and opens the file."""
        raise NotImplementedError

    def _take(self, frames: FrameArrays) -> None:
        """Takes frames, at least one."""
        raise NotImplementedError

    def _salvage(self) -> None:
        """Flushes the whole frames among those that were taken."""
        self.flush()

    @property
    def _keeps_taken(self) -> bool:
        """Whether the frames taken are flushed when an exception ends the writer."""
        raise NotImplementedError

    @property
    def _temporary(self) -> str | None:
        """The temporary file with flushed frames, or None."""
        raise NotImplementedError

    def _salvage_and_stop(self, error: BaseException) -> None:
        """Flushes whole frames, and closes; failures are noted on the error."""
        if not self._closed and self._keeps_taken:
            try:
                self._salvage()
            except Exception as second:
                error.add_note(f"and what was not flushed is lost: {second}")
        self._stop(error)

    def _stop(self, error: BaseException) -> None:
        """Closes after an error, which names the file that stays."""
        if self._closed:
            return
        self.abort()
        if self._temporary is not None and self._keep_partial and self._n_flushed:
            error.add_note(f"{self._n_flushed} frames are in {self._temporary}, which can be read and renamed")

    def _note(self, texts: Iterable[str]) -> None:
        """Adds notes on the file, and emits them."""
        noted = [f"{self.path}: {text}" for text in texts]
        self.notes += noted
        emit(noted)

    def _lose(self, losses: Iterable[str]) -> None:
        """Adds losses that are not listed yet, and notes them."""
        new = [loss for loss in losses if f"{self.path}: {loss}" not in self.losses]
        self.losses += tuple(f"{self.path}: {loss}" for loss in new)
        self._note(new)

    def _note_not_finite(self, frames: FrameArrays, before: int) -> None:
        """Notes the first frame with positions that are NaN or infinite, once; `before` frames precede these."""
        first = None if self._not_finite_noted else frames.first_not_finite
        if first is not None:
            self._not_finite_noted = True
            self._note([not_finite_note(before + first)])

    def _leave_to_parent(self) -> None:
        """In a forked process: leaves the file, which belongs to the parent, as it is."""
        self._is_copy = self._closed = True

    def _require_open(self) -> None:
        if self._is_copy:
            raise ArgumentError(f"{self.path}: the writer is that of the process that was forked", path=self.path)
        if self._closed:
            raise ArgumentError(f"{self.path}: the writer is closed", path=self.path)
        if self._broken:
            raise ArgumentError(f"{self.path}: an earlier error broke the writer", path=self.path)

    def _observables_error(self) -> UnsupportedFormatError:
        what = f"{self.path}: {self.format} files hold no observables, H5MD files do"
        return UnsupportedFormatError(what, path=self.path, format=self.format)


def not_finite_note(frame: int) -> str:
    """The note on the first frame with positions that are NaN or infinite."""
    return f"frame {frame} has positions that are not numbers (NaN or infinite)"


def _leave_writers_to_parent() -> None:
    for writer in [one for one in _WRITERS if not one._closed]:
        writer._leave_to_parent()


os.register_at_fork(after_in_child=_leave_writers_to_parent)


class RanksWriter(Writer):
    """A writer of many ranks, as `comm=` chooses it; `kinema.parallel.writer` implements it."""

    def write(
        self,
        positions: ArrayLike | Frame | Block | None = None,
        *,
        ids: ArrayLike | None = None,
        velocities: ArrayLike | None = None,
        forces: ArrayLike | None = None,
        cell: ArrayLike | None = None,
        step: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> None:
        """As `Writer.write`, for the atoms of this rank, whose numbers are `ids`; collective."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> NoReturn:
        """Takes part in the other ranks' `write` with an error, which is raised on all ranks."""
        raise NotImplementedError


def _rank_writer_class() -> type[Writer]:
    """The writer for comm=; raises MissingPackageError without mpi4py."""
    module, name = _OVER_RANKS
    try:
        found: type[Writer] = getattr(importlib.import_module(module), name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "mpi4py":
            raise
        raise missing_package("comm=", "mpi4py", "mpi", error) from None
    return found
