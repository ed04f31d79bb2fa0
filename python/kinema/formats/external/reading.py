"""Formats that Kinema does not read itself: files described, and their frames read, through MDAnalysis.

Such a file is read whole once, to find what its frames hold; then frame by frame, under one lock. If MDAnalysis' reader
finds frames only from the front of the file, one worker reads it.

MDAnalysis is imported at the first call.
"""

from __future__ import annotations

import inspect
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CancelledError, CorruptFileError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import check_lines
from kinema.formats.external.compressed import refuse_compressed
from kinema.formats.external.counts import COUNTED, Check, LineCount, count_frames, refuse_other_atoms
from kinema.formats.external.frames import EXTERNAL, FrameReader, FrameRows, KnownCells, names_of, reader_class
from kinema.formats.h5md.description import ABSENT, FORBIDDEN, FieldDescription, H5mdDescription, Quantity
from kinema.model.topology import BINARY, Topology

_VECTORS: tuple[Quantity, ...] = ("positions", "velocities", "forces")
_OPTIONS_OF_OPEN = {"dt": "dt=", "time_offset": "time_offset=", "convert_units": "units=", "n_atoms": "topology="}
# formats whose frames follow each other in time, stated or not; PDB and MOL2 have models and molecules
_TRAJECTORIES = frozenset({"XYZ", "TXYZ", "LAMMPSDUMP", "TRJ", "TRC"})
_STATING = "dt= (--timestep), ps"
# in the title of GRO files, which MDAnalysis ignores
_TIME = re.compile(rb"\bt=\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)")
_STEP = re.compile(rb"\bstep=\s*([-+]?[0-9]+)")


@dataclass(frozen=True)
class ExternalOptions:
    """Options for reading files of other formats; picklable."""

    format: str | None = None
    """MDAnalysis' name of the format; None: by the name of the file."""
    reader: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of MDAnalysis' reader."""
    units: Mapping[str, str] | None = None
    """As `kinema.formats.h5md.H5mdOptions.units`."""
    axis: Quantity | None = None
    absent: Literal["error", "nan", "hold"] = "error"
    images: bool = False
    """Whether positions are unwrapped by the columns ix iy iz of LAMMPS dumps."""
    topology: Topology | None = None
    """Gives the number of atoms, for formats that do not state it."""
    timed: bool = False
    """Whether the user states times of frames."""


class Describer:
    """Describes files for the core, each once while it is unchanged.

    It is pickled with its descriptions, so that other processes do not read files whole again.
    """

    def __init__(self, options: ExternalOptions) -> None:
        self.options = options
        self._known: dict[str, tuple[tuple[int, ...] | None, H5mdDescription]] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        # another process compares files with their identities when it reads them, and does not need the topology
        known = {path: (None, description) for path, (_, description) in self._known.items()}
        return {"options": replace(self.options, topology=None), "_known": known}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def __call__(
        self, path: str | os.PathLike[str], stops: Callable[[], bool] = lambda: False
    ) -> H5mdDescription | None:
        """The description of a file; None if MDAnalysis has no reader for it.

        `stops()` is called at each frame; if it returns True, CancelledError is raised. Raises CorruptFileError if
        MDAnalysis cannot read the file, ArgumentError for options that do not fit.
        """
        name = os.fspath(path)
        key = os.path.abspath(name)
        with self._lock:
            then, known = self._known.get(key, (None, None))
            if known is not None and (then is None or then == _signature(name)):
                return known
            if reader_class(name, self.options.format) is None:
                refuse_compressed(name)
                return None
            before = _signature(name)
            description = _described(name, self.options, stops)
            self._known[key] = before, description
            return description


def _signature(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@dataclass
class _Frames:
    """Facts of all frames of a file, gathered in one pass."""

    n_atoms: int = 0
    steps: list[int | None] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    dimensions: list[NDArray[Any] | None] = field(default_factory=list)
    has: dict[Quantity, list[bool]] = field(default_factory=lambda: {name: [] for name in _VECTORS})

    @classmethod
    def read(cls, reader: FrameReader, check: Check, most: int | None) -> _Frames:
        """All frames, or the first `most`."""
        found = cls()
        for number, step in enumerate(islice(reader.steps(), most)):
            check()
            if number == 0:
                found.n_atoms = step.n_atoms
            if step.n_atoms != found.n_atoms:
                raise refuse_other_atoms(reader.path, number, found.n_atoms, step.n_atoms)
            found.steps.append(step.data.get("step"))
            found.times.append(float(step.data.get("time", np.nan)))
            dimensions = step.dimensions
            there = dimensions is not None and bool((dimensions[:3] > 0).all() and (dimensions[3:] > 0).all())
            found.dimensions.append(np.array(dimensions, np.float64) if there else None)
            for name in _VECTORS:
                found.has[name].append(bool(getattr(step, f"has_{name}")))
        return found


def _described(path: str, options: ExternalOptions, stops: Callable[[], bool]) -> H5mdDescription:
    reader = FrameReader(path, options.format, options.reader, options.images)
    if reader.name not in BINARY:
        check_lines(path, "file")
    reader.options = _reader_options(path, reader.cls, options)
    name, remarks = reader.name, []
    check = partial(_check_stop, path, stops)
    try:
        counted = count_frames(reader, check)
        # what follows the counted frames is not a whole frame
        frames = _Frames.read(reader, check, None if counted is None else counted.n_frames)
        scales = _scales(path, reader, options.units)
    finally:
        reader.close()
    if not frames.n_atoms or not frames.steps:
        raise CorruptFileError(f"{EXTERNAL} found no atoms in it, reading {name}", at=path, format=EXTERNAL)
    if name == "LAMMPSDUMP" and "dt" not in options.reader:
        # steps times a made-up 1 ps
        frames.times = [np.nan] * len(frames.times)
    if name == "TRC" and not any(frames.times):
        # without a block TIMESTEP all times are 0, and steps are frame numbers
        frames.times, frames.steps = [np.nan] * len(frames.times), [None] * len(frames.steps)
    cut_at = _cut_at(path, frames, counted)
    warnings = [f"{name} is read through MDAnalysis, frame by frame, which is slow"]
    if name not in COUNTED | BINARY and not reader.has_one_frame:
        warnings[0] += "; that there are no more frames than it finds is not checked"
    if name == "GRO":
        warnings += _title_of_gro(path, frames)
    times = np.array(frames.times, np.float64)
    has_times, has_steps = not np.isnan(times).any(), None not in frames.steps
    if not (has_times or options.timed) and name in _TRAJECTORIES and len(times) > 1:
        warnings.append(f"{name} does not say times of frames, which are nan; state the time between with {_STATING}")
    if not has_times and not np.isnan(times).all():
        remarks.append("only some frames have times, which are left out")
    axis = frames.has[options.axis] if options.axis is not None else [True] * len(frames.steps)
    numbers = np.flatnonzero(axis)
    fields: dict[str, Any] = {q: _field(reader, q, frames.has[q], numbers, scales[q], options.absent) for q in _VECTORS}
    return H5mdDescription(
        path=path,
        other_files=(),
        group="",
        n_atoms=frames.n_atoms,
        n_frames=len(numbers),
        steps=np.array(frames.steps, np.int64)[numbers] if has_steps else None,
        times=times[numbers] if has_times else None,
        time_scale=scales["time"],
        **fields,
        cell=_cell(frames.dimensions, numbers, scales["positions"], options.absent),
        wide=False,
        variant=f"{name}, read by MDAnalysis' {reader.cls.__name__}",
        remarks=tuple(remarks),
        warnings=tuple(warnings),
        reads_forward=reader.reads_forward,
        format=EXTERNAL,
        periodic=(True, True, True),
        cut_at=cut_at,
    )


def _check_stop(path: str, stops: Callable[[], bool]) -> None:
    if stops():
        raise CancelledError("stopped by the caller", at=path)


def _cut_at(path: str, frames: _Frames, counted: LineCount | None) -> int | None:
    """Byte offset of an incomplete frame, or None.

    Raises CorruptFileError if MDAnalysis misses frames that the lines of the file show.
    """
    found = len(frames.steps)
    if counted is None or found == counted.n_frames:
        return None if counted is None else counted.cut_at
    if found == counted.n_frames - 1 and counted.unended_at is not None:
        return counted.unended_at
    raise CorruptFileError(
        f"{EXTERNAL} frame {found}: number of frames, expected {counted.n_frames} by the lines of the file, "
        f"found {found} that MDAnalysis reads",
        at=path,
        format=EXTERNAL,
        frame=found,
    )


def _reader_options(path: str, cls: Any, options: ExternalOptions) -> dict[str, Any]:
    """The arguments of MDAnalysis' reader; the number of atoms is one of them if a topology gives it."""
    given = dict(options.reader)
    lammps = names_of(cls)[0] == "LAMMPSDUMP"
    for name in given:
        if name in _OPTIONS_OF_OPEN and not (name == "dt" and lammps):
            raise ArgumentError(
                f"reader_options has {name}, which is given as {_OPTIONS_OF_OPEN[name]} of kn.open", at=path
            )
    if lammps:
        # without `dt` MDAnalysis warns about the one that it makes up
        given.setdefault("dt", 1.0)
    if _needs_n_atoms(cls):
        if options.topology is not None:
            given["n_atoms"] = options.topology.atoms.n_atoms
        else:
            raise ArgumentError(
                f"{names_of(cls)[0]} files do not say how many atoms they have; give a topology with topology=",
                at=path,
                format=EXTERNAL,
            )
    return given


def _needs_n_atoms(cls: Any) -> bool:
    """Whether a reader needs the number of atoms from a topology."""
    from MDAnalysis.coordinates.base import SingleFrameReaderBase

    # single frames state it, except LAMMPS' data files, however MDAnalysis declares the argument; so does NetCDF
    if issubclass(cls, SingleFrameReaderBase):
        return "DATA" in names_of(cls)
    return "n_atoms" in inspect.signature(cls.__init__).parameters and "NCDF" not in names_of(cls)


def _scales(path: str, reader: FrameReader, stated: Mapping[str, str] | None) -> dict[str, float]:
    """Factors to Kinema's units: 1, except for units that the user states.

    MDAnalysis has already applied the file's own units.
    """
    scales = {"positions": 1.0, "velocities": 1.0, "forces": 1.0, "time": 1.0}
    if not stated:
        return scales
    from MDAnalysis.units import get_conversion_factor

    from kinema.formats.h5md.units import scale_to_kinema

    with reader.reading(0):
        native = reader.native
    ours = {"length": "Angstrom", "time": "ps", "velocity": "Angstrom/ps", "force": "kJ/(mol*Angstrom)"}
    kinds = {"length": "length", "time": "time", "velocity": "speed", "force": "force"}

    def factor(name: Literal["length", "time", "velocity", "force"]) -> float:
        applied = get_conversion_factor(kinds[name], native[name], ours[name]) if native.get(name) else 1.0
        return scale_to_kinema(stated[name], name) / float(applied) if name in stated else 1.0

    length, time = factor("length"), factor("time")
    scales |= {"positions": length, "time": time}
    scales["velocities"] = factor("velocity") if "velocity" in stated else length / time
    scales["forces"] = factor("force") if "force" in stated else 1.0 / length
    return scales


def _rows(has: NDArray[np.bool_], numbers: NDArray[np.int64], absent: str) -> NDArray[np.int64]:
    """The frame of the file from which each frame takes a quantity."""
    chosen = numbers.astype(np.int64)
    if absent == "hold":
        before = np.maximum.accumulate(np.where(has, np.arange(len(has)), ABSENT))
        return before[numbers].astype(np.int64)
    return np.where(has[numbers], chosen, FORBIDDEN if absent == "error" else ABSENT).astype(np.int64)


def _field(
    reader: FrameReader, quantity: Quantity, has: list[bool], numbers: NDArray[np.int64], scale: float, absent: str
) -> FieldDescription | None:
    if not any(has):
        return None
    return FieldDescription(
        pieces=(),
        rows=_rows(np.array(has), numbers, absent),
        fixed=False,
        scale=scale,
        unit=None,
        reader=FrameRows(reader, quantity),
        reason="read through MDAnalysis",
    )


def _cell(
    dimensions: list[NDArray[Any] | None], numbers: NDArray[np.int64], scale: float, absent: str
) -> FieldDescription | None:
    """Cells; a frame without a cell is an error only for analyses that need cells."""
    has = np.array([one is not None for one in dimensions])
    if not has.any():
        return None
    known = np.array([np.ones(6) if one is None else one for one in dimensions])
    from kinema.formats.h5md.read.row_readers import from_lengths_and_angles

    cells = from_lengths_and_angles(known[:, :3], known[:, 3:])
    return FieldDescription(
        pieces=(),
        rows=_rows(has, numbers, "nan" if absent == "error" else absent),
        fixed=False,
        scale=scale,
        unit=None,
        reader=KnownCells(cells),
        reason="read through MDAnalysis",
    )


def _title_of_gro(path: str, frames: _Frames) -> list[str]:
    """Puts time and step of the title into the frame; returns, in words, what MDAnalysis leaves unread."""
    from MDAnalysis.lib.util import anyopen

    with anyopen(path, "rb") as file:
        title = file.readline()
        lines = sum(1 for line in file if line.strip())
    if found := _TIME.search(title):
        frames.times[0] = float(found[1])
    if found := _STEP.search(title):
        frames.steps[0] = int(found[1])
    if lines > frames.n_atoms + 2:
        return ["MDAnalysis reads only the first frame of a GRO file, and this file has more"]
    return []
