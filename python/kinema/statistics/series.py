"""`FrameSeries`: one quantity of a run, a value for each frame. Tables give series; series are joined by frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.printable import counted
from kinema.storage.provenance import Input
from kinema.storage.tables import NO_UNIT, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

# times are equal if they agree in this unit, ps: files round them differently
_TIME_UNIT = 1e-3
FEW_NAMES = 8


@dataclass(frozen=True, eq=False)
class FrameSeries:
    """One quantity of a run, a value for each frame.

    Attributes
    ----------
    name : str
    values : (frames,) float64
    unit : str
        "" or "1" for none.
    period : float
        Period of the values, 360 for dihedral angles; 0 for none.
    frames : (frames,) int64, or None
        Numbers of the frames, if they are known.
    time : (frames,) float64, or None
        Their times in ps, if they are known.
    source : str
        The place where it comes from: a file name, or the class of an analysis.
    inputs : tuple of Input
        The files that it depends on.
    """

    name: str
    values: NDArray[np.float64]
    unit: str = ""
    period: float = 0.0
    frames: NDArray[np.int64] | None = None
    time: NDArray[np.float64] | None = None
    source: str = ""
    inputs: tuple[Input, ...] = ()

    @property
    def label(self) -> str:
        """Name with unit, "rmsd (angstrom)"."""
        return self.name if self.unit in ("", NO_UNIT) else f"{self.name} ({self.unit})"

    @property
    def title(self) -> str:
        """Name with the file it is of, for messages."""
        return f"{self.source}: {self.name}" if self.source else self.name

    def where(self, place: int) -> str:
        """A place of the series in words: its frame, or its time, or its row."""
        if self.frames is not None:
            return f"frame {self.frames[place]}"
        return f"{self.time[place]:g} ps" if self.time is not None else f"row {place}"

    def first_not_finite(self) -> int | None:
        """The place of the first value that is not a finite number; None if all are finite."""
        bad = np.flatnonzero(~np.isfinite(self.values))
        return int(bad[0]) if len(bad) else None

    def rows(self, chosen: Any) -> FrameSeries:
        """The series with some of its frames."""
        frames = None if self.frames is None else self.frames[chosen]
        time = None if self.time is None else self.time[chosen]
        return FrameSeries(
            self.name, self.values[chosen], self.unit, self.period, frames, time, self.source, self.inputs
        )


def chosen_columns(found: list[FrameSeries], wanted: Sequence[str] | None) -> list[FrameSeries]:
    """The series of the named columns, in that order. Raises ArgumentError for one that does not exist."""
    if wanted is None:
        return found
    by_name = {one.name: one for one in found}
    for name in wanted:
        if name not in by_name:
            names = [repr(one) for one in list(by_name)[:FEW_NAMES]]
            more = ", ..." if len(by_name) > FEW_NAMES else ""
            of = f"{found[0].source}: " if found and found[0].source else ""
            raise ArgumentError(f"{of}no column {name!r}, expected one of {', '.join(names) or 'none'}{more}")
    return [by_name[name] for name in wanted]


def table_series(
    table: Table,
    *,
    source: str = "",
    inputs: tuple[Input, ...] = (),
) -> list[FrameSeries]:
    """The series of a table whose rows are frames: its columns with a unit.

    Raises ArgumentError for a table of other rows, or of several rows for a frame.
    """
    by_name = {column.name: column for column in table.columns}
    numbers, time = by_name.get("frame"), by_name.get("time")
    if numbers is None and time is None:
        of = f"{source}: " if source else ""
        rows = f"not frames but {table.columns[0].name}" if table.columns else "not numbers"
        raise ArgumentError(f"{of}its rows are {rows}, expected the columns frame or time: a value for each frame")
    frames = None if numbers is None else np.asarray(numbers.values, np.int64)
    times = None if time is None else np.asarray(time.values, np.float64)
    if times is not None and time is not None and time.unit == "ns":
        times = times * 1000.0
    curves = [
        one
        for one in table.columns
        if one.unit and one.name not in ("frame", "time", table.x) and one.values.dtype.kind in "iufb"
    ]
    found = [
        FrameSeries(one.name, np.asarray(one.values, np.float64), one.unit, one.period, frames, times, source, inputs)
        for one in curves
    ]
    if found:
        _refuse_repeated(found[0])
    return found


def _refuse_repeated(series: FrameSeries) -> None:
    """Raises ArgumentError if a frame has several rows: such rows are not a series."""
    if series.frames is None:
        return
    unique, counts = np.unique(series.frames, return_counts=True)
    if len(unique) < len(series.frames):
        frame = unique[counts > 1][0]
        of = f"{series.source}: " if series.source else ""
        raise ArgumentError(
            f"{of}frame {frame} has {counts.max()} rows, expected one row for each frame; a list is not a series"
        )


def join_series(series: Sequence[FrameSeries]) -> tuple[list[FrameSeries], list[str]]:
    """The series at the frames that all of them have, in ascending order, and notes on frames that only some have.

    Frames are the same if their numbers are; if one series has no numbers, if their times agree to 0.001 ps; values
    without either must be equally many, and belong together in their order.

    Raises
    ------
    ArgumentError
        If no frame is common, or if arrays have different lengths.
    """
    keys = _keys_of(series)
    if keys is None:
        lengths = {len(one.values) for one in series}
        if len(lengths) > 1:
            found = ", ".join(f"{one.title} {len(one.values):,}" for one in series)
            raise ArgumentError(f"values without frames or times must be equally many, found {found}")
        return list(series), []
    for one, key in zip(series, keys, strict=True):
        unique, counts = np.unique(key, return_counts=True)
        if len(unique) < len(key):
            place = int(np.flatnonzero(key == unique[counts > 1][0])[0])
            raise ArgumentError(f"{one.title}: {one.where(place)} has {counts.max()} rows, expected one")
    common = keys[0]
    for key in keys[1:]:
        common = np.intersect1d(common, key)
    if not len(common):
        names = " and ".join(one.title for one in series)
        raise ArgumentError(f"{names} have no frame in common")
    joined, notes = [], []
    for one, key in zip(series, keys, strict=True):
        order = np.argsort(key, kind="stable")
        places = order[np.searchsorted(key, common, sorter=order)]
        joined.append(one.rows(places))
        if len(common) < len(key):
            left = len(key) - len(common)
            notes.append(
                f"{one.title}: {left:,} of {counted(len(key), 'frame')} are not in the others and are left out"
            )
    return joined, [*dict.fromkeys(notes), *_notes_on_times(joined)]


def _notes_on_times(joined: Sequence[FrameSeries]) -> list[str]:
    """A note if frames of one number have several times: they may be of different trajectories."""
    first = joined[0]
    for other in joined[1:]:
        if first.time is None or other.time is None:
            continue
        apart = np.flatnonzero(np.abs(first.time - other.time) > _TIME_UNIT + 1e-6 * np.abs(first.time))
        if len(apart):
            place = int(apart[0])
            return [
                f"{first.where(place)} has the time {first.time[place]:g} ps in {first.title} and "
                f"{other.time[place]:g} ps in {other.title}: frames are joined by number, and these may be of "
                "different trajectories"
            ]
    return []


def _keys_of(series: Sequence[FrameSeries]) -> list[NDArray[np.int64]] | None:
    """A key for each frame of each series; None if they are arrays without frames or times."""
    if all(one.frames is not None for one in series):
        return [one.frames for one in series if one.frames is not None]
    if all(one.time is not None for one in series):
        return [np.rint(one.time / _TIME_UNIT).astype(np.int64) for one in series if one.time is not None]
    return None
