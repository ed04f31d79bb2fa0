"""The particles group of an H5MD file being written: its elements, and the data sets that grow with the frames."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.formats.given_frames import (
    FrameArrays,
    check_cells_kept,
    check_fields,
    check_rising,
    check_times_kept,
    counted_steps,
)
from kinema.formats.h5md.schema import DIMENSION, ELEMENTS, MAX_ERROR, MAX_ERROR_UNIT, PARTICLES, ROUNDING
from kinema.formats.h5md.write.metadata import Dialect
from kinema.formats.h5md.write.options import Bound, FileOptions
from kinema.formats.h5md.write.steps import StepAxis
from kinema.formats.hdf5.encoding import Preparation
from kinema.formats.hdf5.series import CountedRows, Series
from kinema.storage.hdf5.storage import Storage, series_storage


@dataclass
class TrajectoryGroup:
    """A particles group that frames are written into.

    `fields`: {"positions": Series, ...}.
    `edges`: Series of (frames, 3, 3), or None.
    `fixed_cell`: (3, 3) in angstrom if the box does not change, or None; with `edges` it is written for each frame.
    `bound`: Bound of positions, or None.
    `rows`: frames taken.
    `last_step`, `last_time`: of the last frame, in ps; None without frames, or without times.
    """

    fields: dict[str, Series | CountedRows]
    edges: Series | None
    fixed_cell: NDArray[Any] | None
    axis: StepAxis
    bound: Bound | None = None
    rows: int = 0
    last_step: int | None = None
    last_time: float | None = None
    open_edges: NDArray[np.bool_] | None = None
    """Edges without length in the first frame, which the file declares open; None: not known."""

    @staticmethod
    def check_first(options: FileOptions, first: FrameArrays | None) -> None:
        """Raises errors for a first frame that cannot be written; nothing is created yet.

        ArgumentError if it contradicts the options, UnsupportedFormatError if a reader would not give it back.
        """
        if first is not None and options.fields is not None and set(options.fields) != set(first.fields):
            raise ArgumentError(f"the frame has {', '.join(first.fields)}, expected {', '.join(options.fields)}")
        if options.bound is not None and "positions" not in _names(options, first):
            raise ArgumentError("max_error is for positions, which are not written")
        has_cell = options.cell is not None or (first is not None and first.cells is not None)
        if options.boundary is not None and "periodic" in options.boundary and not has_cell:
            raise ArgumentError("boundary is periodic, but no cell is given; give cell= or boundary='none'")
        for name, values in {} if first is None else first.fields.items():
            if isinstance(values, np.ndarray):
                _preparation(name, options).check(values, name)
        if first is not None:
            _check_kept(first, _edges_preparation(first.cells, options), options.units.divisor("times"), 0)

    @classmethod
    def create(
        cls, root: h5py.Group, options: FileOptions, first: FrameArrays | None, *, explicit: bool
    ) -> TrajectoryGroup:
        """Makes the group for frames such as `first`, which `check_first` has passed.

        Without `first` it is made for the fields in `options`.
        """
        names = _names(options, first)
        dialect, units = options.dialect, options.units
        group = dialect.make_group(root, f"{PARTICLES}/{options.group}")
        cells = None if first is None else first.cells
        cell = options.cell if cells is None else np.asarray(cells[0])
        box = _make_box(group, options, cell)
        elements: list[h5py.Group] = []
        fields: dict[str, Series | CountedRows] = {}
        for name in ELEMENTS:
            if name in names:
                elements.append(dialect.make_group(group, ELEMENTS[name]))
                attributes = _field_attributes(name, options)
                make = partial(_make_value, elements[-1], options.field_storage(), attributes, dialect)
                preparation = _preparation(name, options)
                fields[name] = Series(make(), preparation=preparation, workers=options.workers, make=make)
        edges = None
        if options.cell is not None and dialect.always_explicit:
            cells = options.cell[None]
        if isinstance(cells, np.ndarray) and "edges" not in box:
            elements.append(dialect.make_group(box, "edges"))
            preparation = _edges_preparation(cells, options)
            storage, attributes = series_storage(preparation.dtype, (3, 3)), {"unit": units.text("positions")}
            make = partial(_make_value, elements[-1], storage, attributes, dialect)
            edges = Series(make(), preparation=preparation, make=make)
        axis = StepAxis(
            elements,
            explicit=explicit or dialect.always_explicit,
            with_times=first is not None and first.times is not None,
            time_size=units.divisor("times"),
            mark_time=lambda dataset: dialect.write_attributes(dataset, {"unit": units.text("times")}),
        )
        options.atoms.write(root, group, dialect)
        open_edges = None if cell is None else ~_with_length(cell)
        return cls(fields, edges, options.cell, axis, options.bound, open_edges=open_edges)

    def set_cell(self, cell: NDArray[Any] | None) -> None:
        """Takes (3, 3) `cell` as the box of all frames to come; raises ArgumentError if the file's box differs."""
        if cell is None:
            return
        if self.fixed_cell is None and self.edges is not None:
            # a box that is stored for each frame, but does not change
            self.fixed_cell = cell
        elif self.fixed_cell is None or not np.allclose(self.fixed_cell, cell, rtol=1e-12, atol=0):
            has = None if self.fixed_cell is None else self.fixed_cell.tolist()
            raise ArgumentError(f"cannot append with cell={cell.tolist()}, the file has {has}")

    def check(self, frames: FrameArrays, first: int) -> None:
        """Raises ArgumentError for frames that this group cannot take: other fields, no cell, a step too low, ...

        Raises UnsupportedFormatError for frames that a reader would not give back; `first` is the number of the first
        frame.
        """
        check_fields(frames, self.fields)
        for name, values in frames.fields.items():
            if isinstance(values, np.ndarray):  # announced rows were checked by their encoder
                self.fields[name].preparation.check(values, name, first=first)
        self._check_cells(frames.cells)
        _check_kept(frames, None if self.edges is None else self.edges.preparation, self.axis.time_size, first)
        if frames.times is not None and not self.axis.with_times:
            raise ArgumentError("time is given, but the file has none: the first frame had none")
        if frames.times is None and self.axis.with_times:
            raise ArgumentError("time is missing, but the file has one for each frame")
        if frames.steps is not None:
            check_rising("step", frames.steps, self.last_step, strictly=True)
        if frames.times is not None:
            check_rising("time", frames.times, self.last_time, strictly=False)

    def losses_of(self, frames: FrameArrays) -> list[str]:
        """Rounding losses in frames that `check` has passed."""
        narrow = {name for name, series in self.fields.items() if series.preparation.dtype.itemsize == 4}
        lost = [] if self.bound is None else [self.bound.loss]
        lost += [
            f"{name} are rounded from float64 to float32"
            for name, values in frames.fields.items()
            if name in narrow and values.dtype == np.float64
        ]
        cells = frames.cells
        if cells is not None and self.edges is not None and self.edges.preparation.dtype.itemsize == 4:
            lost += [] if np.array_equal(cells.astype(np.float32), cells) else ["cells are rounded to float32"]
        return lost

    def extend(self, frames: FrameArrays) -> None:
        """Takes frames that `check` has passed; without steps they are numbered on from the last."""
        n = len(frames)
        for name, series in self.fields.items():
            # arrays, or announced rows if others write
            values: Any = frames.fields[name]
            series.extend(values)
        cells = frames.cells
        if cells is None and self.fixed_cell is not None:
            cells = np.broadcast_to(self.fixed_cell, (n, 3, 3))
        if self.edges is not None and cells is not None:
            self.edges.extend(cells)
        steps = frames.steps
        if steps is None:
            steps = counted_steps(-1 if self.last_step is None else self.last_step, 1, n)
        self.axis.extend(steps, frames.times)
        self.last_step = int(steps[-1])
        self.last_time = None if frames.times is None else float(frames.times[-1])
        self.rows += n

    def flush(self) -> None:
        """Writes all frames; more may follow."""
        for series in self._all_series():
            series.flush()
        self.axis.flush()

    def finish(self) -> None:
        """Writes all frames; no more may follow."""
        for series in self._all_series():
            series.finish()
        self.axis.finish()

    def _all_series(self) -> list[Series | CountedRows]:
        return [*self.fields.values(), *([] if self.edges is None else [self.edges])]

    def _check_cells(self, cells: NDArray[Any] | None) -> None:
        if self.fixed_cell is not None:
            if cells is not None and not (cells == self.fixed_cell.astype(cells.dtype)).all():
                raise ArgumentError("cell differs from the fixed one of the file")
        elif self.edges is not None and cells is None:
            raise ArgumentError("cell is missing, but the file has one for each frame")
        elif self.edges is None and cells is not None:
            raise ArgumentError("cell is given, but the file has none: the first frame had none")
        if cells is not None and self.open_edges is not None and cells[:, self.open_edges].any():
            raise ArgumentError(
                "cell has an edge that has no length in the first frame: the file says once for all frames which "
                "edges are open"
            )


def _names(options: FileOptions, first: FrameArrays | None) -> tuple[str, ...]:
    return options.fields or (tuple(first.fields) if first is not None else ("positions",))


def _preparation(name: str, options: FileOptions) -> Preparation:
    bound = options.bound if name == "positions" else None
    return Preparation(options.dtype, options.units.divisor(name), None if bound is None else bound.rounding)


def _edges_preparation(cells: NDArray[Any] | None, options: FileOptions) -> Preparation:
    narrow = cells is not None and cells.dtype.kind == "f" and cells.dtype.itemsize <= 4
    return Preparation(np.dtype("<f4" if narrow else "<f8"), options.units.divisor("positions"))


def _check_kept(frames: FrameArrays, edges: Preparation | None, time_size: float, first: int) -> None:
    """Raises UnsupportedFormatError for cells and times that a reader would not give back."""
    with np.errstate(over="ignore", under="ignore"):
        if frames.cells is not None and edges is not None:
            stored = (frames.cells / edges.unit_size).astype(edges.dtype)
            check_cells_kept(frames.cells, stored.astype(np.float64) * edges.unit_size, first=first)
        if frames.times is not None:
            check_times_kept(frames.times, frames.times / time_size, first=first)


def _with_length(cell: NDArray[Any]) -> NDArray[np.bool_]:
    """(3,) which edges of a cell are not zero."""
    return np.array([bool(edge.any()) for edge in np.asarray(cell)], np.bool_)


def _make_box(group: h5py.Group, options: FileOptions, cell: NDArray[Any] | None) -> h5py.Group:
    """`cell`: that of the first frame; an edge of length 0 is open, whatever the options say."""
    there = [False] * 3 if cell is None else _with_length(cell).tolist()
    stated = options.boundary or ("periodic",) * 3
    boundary = [word if has_length else "none" for word, has_length in zip(stated, there, strict=True)]
    box = options.dialect.make_group(group, "box", {"dimension": np.int32(DIMENSION), "boundary": boundary})
    if options.cell is not None and not options.dialect.always_explicit:
        unit, size = options.units.text("positions"), options.units.divisor("positions")
        options.dialect.write_values(box, "edges", options.cell / size, {"unit": unit})
    return box


def _field_attributes(name: str, options: FileOptions) -> dict[str, Any]:
    """Unit of a field, and the rounding of positions."""
    unit = options.units.text(name)
    bound = options.bound if name == "positions" else None
    if bound is None:
        return {"unit": unit}
    how = f"multiples of 2^{bound.rounding.exponent} {unit}, to the nearest"
    return {"unit": unit, MAX_ERROR: np.float64(bound.value), MAX_ERROR_UNIT: bound.unit, ROUNDING: how}


def _make_value(
    element: h5py.Group, storage: Storage, attributes: dict[str, Any], dialect: Dialect, rows: int | None = None
) -> h5py.Dataset:
    """The data set `value`, in place of an existing one; with chunks of `rows` rows if given."""
    if rows is not None and storage.chunks is not None:
        storage = replace(storage, chunks=(rows, *storage.chunks[1:]))
    return dialect.make_dataset(element, "value", storage, attributes)
