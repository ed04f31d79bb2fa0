"""Opening of an existing H5MD file for appending frames.

Files are continued if they have the structure that Kinema writes, whichever program wrote them. Others are refused with
the reason: data sets without chunks, fields with steps of their own, identifiers that change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.formats.h5md.schema import ELEMENTS, MAX_ERROR, MAX_ERROR_UNIT, METADATA, OBSERVABLES, PARTICLES
from kinema.formats.h5md.write.atoms import file_atoms
from kinema.formats.h5md.write.metadata import Dialect, text_of
from kinema.formats.h5md.write.options import Bound
from kinema.formats.h5md.write.particles_group import TrajectoryGroup
from kinema.formats.h5md.write.steps import StepAxis, Stride, make_explicit
from kinema.formats.h5md.write.units import LENGTHS, FileUnits
from kinema.formats.hdf5.encoding import ChunkEncoder, Preparation
from kinema.formats.hdf5.series import CountedRows, Series, set_rows
from kinema.formats.hdf5.writer import check_given
from kinema.model.atom_table import Atoms
from kinema.storage.hdf5.file import objects_below
from kinema.storage.hdf5.rounding import rounding_within
from kinema.storage.hdf5.storage import Storage


class ExistingFile:
    """Description of an existing H5MD file, for continuing it."""

    def __init__(
        self, h5: h5py.File, path: str, group: str | None, *, native: bool = False, virtual: bool = False
    ) -> None:
        """Reads the description.

        `native`: as in `FileUnits`; `virtual`: rows of fields are in other files, which others write. Raises
        UnsupportedFormatError for a file that cannot be continued, ArgumentError for an unknown `group`.
        """
        self._h5, self.path, self._virtual = h5, path, virtual
        self.group = self._choose(group)
        self._group = h5[f"{PARTICLES}/{self.group}"]
        self._elements = {name: self._group[part] for name, part in ELEMENTS.items() if part in self._group}
        if not self._elements:
            raise self._unsupported(f"group {self.group} has no position, velocity or force")
        box = self._group.get("box")
        self._edges = box.get("edges") if isinstance(box, h5py.Group) else None
        # to get the shape of a virtual data set, h5py opens all its files: do this once for each
        self._values: dict[str, h5py.Dataset] = {}
        self._check_structure()
        first = next(iter(self._values))
        self._first = self._elements[first]
        self.dtype: np.dtype[Any] = self._values[first].dtype
        self.units = replace(self._units(), native=native)
        unit = self._values[first].attrs.get_id("unit")
        self.dialect = Dialect("mdanalysis" if unit.get_type().is_variable_str() else "h5md")
        self.bound = self._bound()

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of each frame."""
        return tuple(self._elements)

    def check(self, given: dict[str, Any]) -> None:
        """Raises ArgumentError if a given value (None: not given) differs from the file's."""
        stored = {
            "n_atoms": self.n_atoms,
            "fields": self.fields,
            "dtype": self.dtype,
            "length_unit": self.units.length,
            "time_unit": self.units.time,
            "max_error": None if self.bound is None else (self.bound.value, self.bound.unit),
        }
        check_given(self.path, given, stored)

    def cut(self, step: int, commit: Callable[[], None]) -> None:
        """Cuts the file after the last frame whose step is not greater than `step`, and observables likewise.

        `commit` brings the cut into the file. Raises ArgumentError if there is no such frame.
        """
        steps = self._steps_of(self._first["step"], self._rows_of(self._first))
        kept = int(np.searchsorted(steps, step, side="right"))
        if not kept:
            found = f"the first has step {int(steps[0])}" if len(steps) else "it has no frame"
            raise ArgumentError(f"{self.path}: resume_from={step}: no frame has a step that is not greater, {found}")
        elements = [*self._elements.values(), *([self._edges] if isinstance(self._edges, h5py.Group) else [])]
        # steps first: readers count frames by them
        for part in ("step", "time", "value"):
            for element in elements:
                _shorten(element.get(part), kept)
        observables = self._h5.get(OBSERVABLES)
        if isinstance(observables, h5py.Group):
            for element in [node for _, node in objects_below(observables) if _depends_on_time(node)]:
                own = self._steps_of(element["step"], len(element["value"]))
                for part in ("step", "time", "value"):
                    _shorten(element.get(part), int(np.searchsorted(own, step, side="right")))
        commit()

    @staticmethod
    def _steps_of(step: h5py.Dataset, n_rows: int) -> NDArray[np.int64]:
        if step.ndim:
            found: NDArray[np.int64] = step[:n_rows]
            return found
        return Stride(int(step.attrs.get("offset", 0)), int(step[()]), None, None).steps(0, n_rows)

    def open_group(self, workers: int, commit: Callable[[], None]) -> TrajectoryGroup:
        """The group with its data sets, positioned after the last whole frame.

        Steps in fixed storage become explicit first.
        """
        if self._first["step"].ndim == 0:
            self._make_explicit(commit)
        step, time = self._first["step"], self._first.get("time")
        moving = [self._edges["value"]] if isinstance(self._edges, h5py.Group) else []
        rows = min(len(dataset) for dataset in [step, *([] if time is None else [time]), *moving])
        rows = min(rows, *(self._rows_of(element) for element in self._elements.values()))
        fields: dict[str, Series | CountedRows] = {}
        for name, dataset in self._values.items():
            rounding = self.bound.rounding if self.bound is not None and name == "positions" else None
            preparation = Preparation(dataset.dtype, self.units.divisor(name), rounding)
            if self._virtual:
                storage = Storage((0, self.n_atoms, 3), dataset.dtype, None, ())
                fields[name] = CountedRows(ChunkEncoder(storage, preparation), dataset, rows)
                continue
            fields[name] = Series(dataset, rows=rows, preparation=preparation, workers=workers)
        edges, fixed = None, None
        if isinstance(self._edges, h5py.Group):
            preparation = Preparation(self._edges["value"].dtype, self.units.divisor("positions"))
            edges = Series(self._edges["value"], rows=rows, preparation=preparation)
        elif self._edges is not None:
            fixed = self._edges[...] * self.units.divisor("positions")
            fixed = np.diag(fixed) if fixed.ndim == 1 else fixed
        steps = Series(step, rows=rows)
        times = None if time is None else Series(time, rows=rows)
        axis = StepAxis.existing(steps, times, self.units.divisor("times"))
        last_step = int(step[rows - 1]) if rows else None
        last_time = None if time is None or not rows else float(time[rows - 1]) * self.units.divisor("times")
        return TrajectoryGroup(fields, edges, fixed, axis, self.bound, rows, last_step, last_time)

    def _rows_of(self, element: h5py.Group) -> int:
        """Rows of an element's values; if they are in other files, the number of steps."""
        return len(element["step"] if self._virtual else element["value"])

    def _choose(self, group: str | None) -> str:
        particles = self._h5.get(PARTICLES)
        names = list(particles) if isinstance(particles, h5py.Group) else []
        if METADATA not in self._h5 or not names:
            raise self._unsupported("it has no groups h5md and particles")
        if group is None:
            if len(names) > 1:
                raise ArgumentError(f"{self.path}: has several groups, give particles= one of {', '.join(names)}")
            return str(names[0])
        if group not in names:
            raise ArgumentError(f"{self.path}: has no group {group!r}, expected one of {', '.join(names)}")
        return group

    def _check_structure(self) -> None:
        shared = [*self._elements.values(), *([self._edges] if isinstance(self._edges, h5py.Group) else [])]
        for element in shared:
            if not isinstance(element, h5py.Group) or "value" not in element or "step" not in element:
                raise self._unsupported(f"{element.name} does not depend on time")
            if element["step"] != shared[0]["step"] or element.get("time") != shared[0].get("time"):
                raise self._unsupported(f"{element.name} has steps of its own")
        n_atoms: tuple[int, ...] | None = None
        for name, element in self._elements.items():
            value = self._values[name] = element["value"]
            shape, is_virtual, most = value.shape, value.is_virtual, value.maxshape
            n_atoms = shape[1:2] if n_atoms is None else n_atoms
            if len(shape) != 3 or shape[1:] != (*n_atoms, 3) or value.dtype.kind != "f":
                raise self._unsupported(f"{value.name} has shape {shape} and type {value.dtype}")
            self.n_atoms = int(shape[1])
            if is_virtual and most[0] is None and not self._virtual:
                raise self._unsupported(
                    f"{value.name} is a virtual data set, continue with strategy='subfiles' and the ranks that made it"
                )
            if self._virtual and not is_virtual:
                raise self._unsupported(f"{value.name} is not a virtual data set, continue with strategy='gather'")
            if (value.chunks is None and not is_virtual) or most[0] is not None:
                raise self._unsupported(f"{value.name} has a fixed number of frames")
        if isinstance(self._edges, h5py.Group) and self._edges["value"].shape[1:] != (3, 3):
            raise self._unsupported(f"{self._edges.name} is not made of 3 x 3 matrices")
        known = {*ELEMENTS.values(), "box"}
        for name, item in self._group.items():
            if name not in known and isinstance(item, h5py.Group) and "value" in item:
                raise self._unsupported(f"{item.name} depends on time, and would not have the new frames")

    def _units(self) -> FileUnits:
        # kJ mol-1 is the only unit of energy, so lengths and times decide
        length = None
        for name, value in self._values.items():
            text = text_of(value.attrs.get("unit"))
            candidates = [
                FileUnits(known, time) for known in LENGTHS for time in ("ps", "fs", "ns")
                if FileUnits(known, time).text(name) == text
            ]  # fmt: skip
            if not candidates:
                raise self._unsupported(f"{value.name} has unit {text!r}")
            if length is not None and candidates[0].length != length:
                raise self._unsupported("its fields have different units of length")
            length = candidates[0].length
        time = self._first.get("time")
        time_text = "ps" if time is None else text_of(time.attrs.get("unit"))
        return FileUnits.from_texts(LENGTHS[length or "angstrom"][0], time_text or "", self.path)

    def _bound(self) -> Bound | None:
        if "positions" not in self._elements:
            return None
        attributes = self._values["positions"].attrs
        if MAX_ERROR not in attributes:
            return None
        value, unit = float(attributes[MAX_ERROR]), text_of(attributes.get(MAX_ERROR_UNIT)) or ""
        if unit not in LENGTHS:
            raise self._unsupported(f"its positions are rounded to {value:g} {unit!r}, a unit that is not known")
        scale = LENGTHS[unit][1] / LENGTHS[self.units.length][1]
        return Bound(value, unit, rounding_within(value * scale))

    def _make_explicit(self, commit: Callable[[], None]) -> None:
        """As `make_explicit`, for all elements."""
        step, time = self._first["step"], self._first.get("time")
        stride = Stride(
            int(step.attrs.get("offset", 0)),
            int(step[()]),
            None if time is None else float(time.attrs.get("offset", 0.0)),
            None if time is None else float(time[()]),
        )
        unit = self.units.text("times") if time is None else text_of(time.attrs.get("unit")) or self.units.text("times")
        del step, time
        make_explicit(
            [*self._elements.values(), *([self._edges] if isinstance(self._edges, h5py.Group) else [])],
            stride,
            len(self._first["value"]),
            lambda dataset: self.dialect.write_attributes(dataset, {"unit": unit}),
            commit,
        )

    def _unsupported(self, why: str) -> UnsupportedFormatError:
        return UnsupportedFormatError(f"cannot append: {why}", at=self.path, format="H5MD")


def _depends_on_time(node: Any) -> bool:
    return isinstance(node, h5py.Group) and "step" in node and "value" in node


def _shorten(dataset: h5py.Dataset | None, rows: int) -> None:
    if dataset is not None and not dataset.is_virtual and dataset.ndim and len(dataset) > rows:
        set_rows(dataset, rows)


def check_atoms(path: str, known: Atoms | None, atoms: Atoms) -> None:
    """Raises ArgumentError if the `known` atoms of a file that is appended to differ from the given table."""
    if known is None:
        raise ArgumentError("cannot append with atoms=, the file says nothing of its atoms", at=path)
    # the table as the file would hold it; a note named the losses when the file was made
    differ = file_atoms(atoms.n_atoms, atoms=atoms).stored.differences(known)
    if differ:
        raise ArgumentError(
            f"cannot append with atoms= whose {', '.join(differ)} differ from those of the file", at=path
        )
