"""Observables of an H5MD file: energies, pressures, and whatever else a simulation recorded beside its particles.

Each has its own steps and any shape, and is nested in groups as in the file. Values are in the file's units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, OutOfRangeError
from kinema.base.tracing.recording import span
from kinema.formats.h5md.description import H5mdOptions
from kinema.formats.h5md.file import H5mdFile, opened
from kinema.formats.h5md.read.elements import Element, find_element
from kinema.formats.h5md.read.groups import find_root
from kinema.formats.h5md.schema import OBSERVABLES
from kinema.formats.h5md.units import scale_to_kinema
from kinema.storage.hdf5.file import object_key
from kinema.storage.hdf5.text import as_text
from kinema.storage.hdf5.virtual import values_of


@dataclass(frozen=True)
class Observable:
    """One observable; its values are read on demand."""

    path: str
    """The file's path."""
    name: str
    """"potential_energy", "solvent/temperature"."""
    fixed: bool
    """Time-independent: one value for the whole simulation."""
    n_rows: int
    """Number of rows for which value, step and time are all present; 1 if fixed."""
    shape: tuple[int, ...]
    """Shape of one value: () for a number, (3, 3) for a tensor."""
    dtype: np.dtype[Any]
    unit: str | None
    """Unit of the values, as the file states it."""
    time_unit: str | None
    """Unit of the times in the file; `times` gives ps."""
    options: H5mdOptions
    time_shift: float = 0.0
    """ps, added to the times as to those of the frames."""

    def read(self, rows: slice | int | None = None) -> Any:
        """Values in the file's own unit: (rows, *shape), (*shape) for one row or a fixed observable.

        Text is returned as str. Raises OutOfRangeError for a missing row.
        """
        with span("observable", "reader", self.path), opened(self.path, self.options) as file:
            value = self._element(file).value
            if self.fixed:
                if rows is not None:
                    raise ArgumentError(f"observable {self.name} is time-independent and has no rows to choose")
                return _plain(values_of(file, value))
            if rows is None:
                rows = slice(None)
            if isinstance(rows, slice):
                start, stop, stride = rows.indices(self.n_rows)
                if stride < 0:  # HDF5 reads forwards only
                    forwards = range(start, stop, stride)[::-1]
                    return _plain(values_of(file, value, slice(forwards.start, forwards.stop, -stride)))[::-1]
                return _plain(values_of(file, value, slice(start, max(start, stop), stride)))
            row = rows + self.n_rows if rows < 0 else rows
            if not 0 <= row < self.n_rows:
                raise OutOfRangeError(f"observable {self.name} has {self.n_rows} rows, row {rows} was asked for")
            return _plain(values_of(file, value, row))

    @property
    def steps(self) -> NDArray[np.int64] | None:
        """(n_rows,); None if the file has none, or the observable is fixed."""
        with span("observable", "reader", self.path), opened(self.path, self.options) as file:
            return self._element(file).steps

    @property
    def times(self) -> NDArray[np.float64] | None:
        """(n_rows,) in ps; None if the file has none, or the observable is fixed.

        Shifted like the times of the frames by `time_offset=` and `t0=` of `kinema.open`. `dt=` is about frames, and
        does not change them. Raises ArgumentError if the file does not state their unit and `units={"time": ...}` was
        not given.
        """
        with span("observable", "reader", self.path), opened(self.path, self.options) as file:
            times = self._element(file).times
        unit = (self.options.units or {}).get("time") or self.time_unit
        if times is None:
            return None
        if unit is None:
            raise ArgumentError(
                f'times of observable {self.name} have no unit; open the file with units={{"time": "ps"}}',
                at=self.path,
                format="H5MD",
            )
        in_ps: NDArray[np.float64] = times * scale_to_kinema(unit, "time")
        # without a shift the same bits as in the file
        return in_ps + self.time_shift if self.time_shift else in_ps

    def _element(self, file: H5mdFile) -> Element:
        root = find_root(file)
        place, _, name = f"{OBSERVABLES}/{self.name}".rpartition("/")
        group = None if root is None else root.get(place)
        element = find_element(file, group, name) if isinstance(group, h5py.Group) else None
        if element is None:
            raise file.corrupt(f"observable {self.name} is no longer there")
        return element.cut(min(element.n_rows, self.n_rows))


class Observables(Mapping[str, Observable]):
    """All observables of a file by name; nested ones as "group/name".

        traj.observables["potential_energy"].read()

    Their list is read once, when it is first needed.
    """

    def __init__(self, path: str, options: H5mdOptions | None = None, *, time_shift: float = 0.0) -> None:
        # observables do not depend on the chosen particles group
        self._options = replace(options or H5mdOptions(), particles=None, dataset=None)
        self._path = path
        self._time_shift = time_shift
        self._known: dict[str, Observable] | None = None

    def __getitem__(self, name: str) -> Observable:
        observable = self._all().get(name.strip("/"))
        if observable is None:
            raise KeyError(name)
        return observable

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"<Observables of {self._path}: {', '.join(self._all()) or 'none'}>"

    def _all(self) -> dict[str, Observable]:
        if self._known is None:
            known: dict[str, Observable] = {}
            with span("structure", "reader", self._path), opened(self._path, self._options) as file:
                root = find_root(file)
                holder = None if root is None else root.get(OBSERVABLES)
                if isinstance(holder, h5py.Group):
                    self._collect(file, holder, known)
            self._known = known
        return self._known

    def _collect(self, file: H5mdFile, holder: Any, known: dict[str, Observable]) -> None:
        """Adds all below a group, however deeply groups are nested; each group once, because links may form cycles."""
        seen = {object_key(holder)}
        waiting = [(holder, "", iter(list(holder)))]
        while waiting:
            group, prefix, names = waiting[-1]
            name = next(names, None)
            if name is None:
                waiting.pop()
                continue
            node = group.get(name)
            path = prefix + name
            if isinstance(node, h5py.Group) and "value" not in node:
                if object_key(node) not in seen:
                    seen.add(object_key(node))
                    waiting.append((node, f"{path}/", iter(list(node))))
                continue
            element = find_element(file, group, name)
            if element is not None:
                known[path] = self._observable(path, element)

    def _observable(self, path: str, element: Element) -> Observable:
        return Observable(
            path=self._path,
            name=path,
            fixed=element.fixed,
            n_rows=element.n_rows,
            shape=tuple(element.value.shape[0 if element.fixed else 1 :]),
            dtype=element.value.dtype,
            unit=element.unit,
            time_unit=element.time_unit,
            options=self._options,
            time_shift=self._time_shift,
        )


def _plain(value: Any) -> Any:
    """Numbers in the machine's byte order, text as str."""
    array = np.asarray(value)
    if array.dtype.kind in "SO":
        texts = [as_text(item) for item in array.reshape(-1)]
        return texts[0] if array.ndim == 0 else np.array(texts, object).reshape(array.shape)
    plain = array.astype(array.dtype.newbyteorder("="), copy=False)
    return plain[()] if plain.ndim == 0 else plain
