"""Frames of files through MDAnalysis' readers: choice of the reader, and frame-by-frame reading under a lock.

MDAnalysis is imported at the first call.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.choices import check_text
from kinema.base.errors import CorruptFileError, Error, UnsupportedFormatError, from_os
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import open_text
from kinema.base.printable import printable
from kinema.formats.h5md.description import Quantity
from kinema.formats.made import Made
from kinema.formats.registry import EXTERNAL_ENDINGS
from kinema.model.universe import import_mdanalysis

__all__ = [
    "EXTERNAL",
    "LAMMPS_DUMP",
    "FrameReader",
    "FrameRows",
    "KnownCells",
    "check_stated",
    "names_of",
    "reader_class",
    "refuse_external",
]

EXTERNAL = "MDAnalysis"
"""The core's name for all formats that are read through MDAnalysis."""

LAMMPS_DUMP = b"ITEM: TIMESTEP"
"""First bytes of a LAMMPS dump."""

# columns of LAMMPS dumps
_IMAGES = ("ix", "iy", "iz")
# no files, or DCD files
_NOT_FILES = {"MEMORY", "CHAIN", "NULL", "IMD", "RDKIT", "PARMED", "LAMMPS"}


def reader_class(path: str, format: str | None = None) -> Any | None:
    """MDAnalysis' reader for a file, by `format`, its first line or the extension of its name; None if there is none.

    Never the reader of a format that Kinema reads itself.
    """
    format = format or _format_of(path)
    if format is None and _ending(path).upper() in _own_names():
        return None
    import_mdanalysis()
    from MDAnalysis.coordinates.core import get_reader_for

    try:
        found = get_reader_for(path, format=format)
    except (ValueError, TypeError):
        return None
    # `kinema.interop.mdanalysis.install` replaces some of MDAnalysis' readers by Kinema's own
    if found.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return None
    return None if (_own_names() | _NOT_FILES) & set(names_of(found)) else found


def refuse_external(path: str, format: str, done: str) -> None:
    """Raises UnsupportedFormatError for a file that MDAnalysis reads, whose frames are not copied; `done`: "cut"."""
    if format == EXTERNAL:
        raise UnsupportedFormatError(
            f"{path}: files that MDAnalysis reads are not {done}; kinema convert makes one that can be",
            path=path,
            format=format,
        )


def _format_of(path: str) -> str | None:
    """MDAnalysis' name of a file's format, by the file's content; None if neither its first line nor its name tells."""
    if os.path.isfile(path):
        with open_text(path, "file") as file:
            if file.read(len(LAMMPS_DUMP)) == LAMMPS_DUMP:
                return "LAMMPSDUMP"
    return EXTERNAL_ENDINGS.get(_ending(path))


def _ending(path: str) -> str:
    """The extension of a name, without the dot and in lower case; also before .gz and .bz2."""
    name = path.lower().removesuffix(".gz").removesuffix(".bz2")
    return os.path.splitext(name)[1][1:]


def check_stated(format: str | None) -> str | None:
    """A stated format as the core takes it: its own name, or `EXTERNAL` for one that MDAnalysis reads."""
    check_text("format", format)
    if format is None or format.upper() == EXTERNAL.upper():
        return format
    # the core refuses a format that nobody reads
    return format if format.lstrip(".").upper() in _own_names() or reader_class("", format) is None else EXTERNAL


def _own_names() -> set[str]:
    """Names and extensions of the formats that Kinema reads itself."""
    listed = {name.upper() for one in _core.formats() for name in (one["name"], *one["extensions"])}
    return listed | {Made.name.upper()}


def names_of(cls: Any) -> list[str]:
    names = [cls.format] if isinstance(cls.format, str) else list(cls.format)
    return [name.upper() for name in names]


class FrameReader:
    """Frames of one file through MDAnalysis' reader, which is opened at the first call; calls take turns.

    Pickled without the open file. A format without random access is read forward.
    """

    def __init__(self, path: str, format: str | None, options: Mapping[str, Any], images: bool = False) -> None:
        self.path = path
        #: whether positions are unwrapped by images, which LAMMPS dumps have as columns
        self.images = images
        self.format = format
        self.options = dict(options)
        self._lock = threading.Lock()
        self._reader: Any = None

    def __getstate__(self) -> tuple[str, str | None, dict[str, Any], bool]:
        return self.path, self.format, self.options, self.images

    def __setstate__(self, state: tuple[str, str | None, dict[str, Any], bool]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def read(self, frames: NDArray[np.int64], quantity: Quantity) -> NDArray[np.float32]:
        """Reads frames (n,) as (n, n_atoms, 3), in MDAnalysis' units: angstrom, angstrom/ps, kJ/(mol angstrom)."""
        with self._lock:
            result: NDArray[np.float32] | None = None
            for row, frame in enumerate(frames.tolist()):
                with self.reading(frame):
                    step = self._go_to(frame)
                    by_images = self.images and quantity == "positions"
                    values = _unwrapped(step) if by_images else getattr(step, quantity)
                if result is None:
                    result = np.empty((len(frames), *values.shape), np.float32)
                if values.shape != result.shape[1:]:
                    raise CorruptFileError(
                        f"{self.path}: {EXTERNAL} frame {frame}: {quantity} of another number of atoms, expected "
                        f"{result.shape[1]}, found {len(values)}",
                        path=self.path,
                        format=EXTERNAL,
                        frame=frame,
                    )
                result[row] = values
        return np.empty((0, 0, 3), np.float32) if result is None else result

    def steps(self) -> Iterator[Any]:
        """All time steps, in order; each is valid until the next."""
        with self._lock:
            with self.reading(0):
                reader = self._opened()
                iterator = iter(reader)
            frame = 0
            while True:
                with self.reading(frame):
                    step = next(iterator, None)
                if step is None:
                    return
                yield step
                frame += 1

    def close(self) -> None:
        """Closes the file; the next call opens it again."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    @property
    def native(self) -> Mapping[str, str]:
        """The units of the file, as MDAnalysis states them."""
        units = getattr(self._opened(), "units", {}) or {}
        return {name: unit for name, unit in units.items() if unit is not None}

    def fact(self, name: str) -> Any:
        """An attribute of MDAnalysis' reader."""
        with self._lock, self.reading(0):
            return getattr(self._opened(), name)

    @property
    def name(self) -> str:
        """MDAnalysis' name of the format."""
        return names_of(self.cls)[0]

    @functools.cached_property
    def cls(self) -> Any:
        """MDAnalysis' class."""
        found = reader_class(self.path, self.format)
        if found is None:
            raise UnsupportedFormatError(f"{self.path}: not a format that MDAnalysis reads", path=self.path)
        return found

    def _opened(self) -> Any:
        if self._reader is None:
            columns = {"additional_columns": list(_IMAGES)} if self.images else {}
            self._reader = self.cls(self.path, **self.options, **columns)
        return self._reader

    @property
    def reads_forward(self) -> bool:
        """Whether MDAnalysis' reader has no random access; a file with one frame is read only once."""
        from MDAnalysis.coordinates.base import ProtoReader

        return self.cls._read_frame is ProtoReader._read_frame and not self.has_one_frame

    @property
    def has_one_frame(self) -> bool:
        """Whether files of the format have one frame."""
        from MDAnalysis.coordinates.base import SingleFrameReaderBase

        return issubclass(self.cls, SingleFrameReaderBase)

    def _go_to(self, frame: int) -> Any:
        """The time step of a frame."""
        reader = self._opened()
        if reader.ts.frame == frame:
            return reader.ts
        if not self.reads_forward:
            return reader[frame]
        if reader.ts.frame > frame:
            reader.rewind()
        while reader.ts.frame < frame:
            reader.next()
        return reader.ts

    @contextmanager
    def reading(self, frame: int) -> Iterator[None]:
        """Turns errors of MDAnalysis, which are of any class, into CorruptFileError with file and frame."""
        try:
            yield
        except (Error, MemoryError):
            raise
        except ImportError as error:
            raise UnsupportedFormatError(
                f"{self.path}: {EXTERNAL}: a package is missing: {printable(error)}", path=self.path, format=EXTERNAL
            ) from error
        except Exception as error:
            # a half-read time step must not be returned as another
            self._reader = None
            if isinstance(error, OSError) and error.errno is not None:
                raise from_os("reading", error, self.path) from error
            what = printable(" ".join(f"{type(error).__name__}: {error}".split()))
            raise CorruptFileError(
                f"{self.path}: {EXTERNAL} frame {frame}: {what} (reading {self.name}; the file begins with "
                f"{_head(self.path)})",
                path=self.path,
                format=EXTERNAL,
                frame=frame,
            ) from error


def _unwrapped(step: Any) -> NDArray[np.float32]:
    """Positions of a time step, unwrapped by its images: n edges added for image n.

    Raises ValueError if it has no images or no cell.
    """
    from MDAnalysis.lib.mdamath import triclinic_vectors

    missing = [name for name in _IMAGES if name not in step.data]
    if missing or step.dimensions is None:
        raise ValueError(f"no {' '.join(missing) or 'cell'} by which positions are unwrapped")
    images = np.column_stack([step.data[name] for name in _IMAGES])
    if not np.array_equal(images, np.round(images)):
        raise ValueError("images ix iy iz are not whole numbers")
    edges = triclinic_vectors(step.dimensions, dtype=np.float64)
    positions: NDArray[np.float32] = (step.positions + images @ edges).astype(np.float32)
    return positions


@dataclass(frozen=True)
class FrameRows:
    """Rows of a quantity: row i is frame i of the file."""

    reader: FrameReader
    quantity: Quantity

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Reads rows (n,) as (n, n_atoms, 3)."""
        return self.reader.read(rows, self.quantity)


@dataclass(frozen=True, eq=False)
class KnownCells:
    """Cells, known since the file was described."""

    cells: NDArray[np.float64]

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Rows (n,) as (n, 3, 3)."""
        return self.cells[rows]


def _head(path: str) -> str:
    """The first bytes of a file, for messages."""
    with open(path, "rb") as file:
        return repr(file.read(16))[1:]
