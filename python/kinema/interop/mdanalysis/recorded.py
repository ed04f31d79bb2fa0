"""`RecordedValues`: observables of an H5MD file, joined with the frames of a trajectory by their steps.

Values are in the file's units, because MDAnalysis has no units of observables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kinema.formats.h5md.read.observables import Observable

# an observable of up to this many bytes is read once and cached
_CACHED_BYTES = 16 << 20
# MDAnalysis' own entries of `ts.data`
OWN_DATA = frozenset({"time", "step", "dt", "time_offset"})


class RecordedValues:
    """The observables of a trajectory by frame.

    Parameters
    ----------
    observables : mapping of name to Observable
    steps : (frames,) int64
        Steps of the trajectory. An observable without steps belongs to the frames row by row if it has as many rows.
    """

    def __init__(self, observables: Mapping[str, Observable], steps: NDArray[np.int64]) -> None:
        self._recorded = [
            _Recorded(name, observable, steps) for name, observable in observables.items() if name not in OWN_DATA
        ]

    def items_at(self, frame: int) -> Iterator[tuple[str, Any]]:
        """Name and value of each observable at a frame; None if it was not recorded then."""
        for recorded in self._recorded:
            yield recorded.name, recorded.value_at(frame)


class _Recorded:
    """One observable and its row for each frame."""

    def __init__(self, name: str, observable: Observable, steps: NDArray[np.int64]) -> None:
        self.name = name
        self._observable = observable
        self._values: Any = None
        n_bytes = observable.n_rows * observable.dtype.itemsize * int(np.prod(observable.shape))
        self._cached = observable.fixed or n_bytes <= _CACHED_BYTES
        self._rows = None if observable.fixed else _rows(observable, steps)

    def value_at(self, frame: int) -> Any:
        row = None if self._rows is None else int(self._rows[frame])
        if row is not None and row < 0:
            return None
        if not self._cached:
            return self._observable.read(row)
        if self._values is None:
            self._values = self._observable.read()
        return self._values if row is None else self._values[row]


def _rows(observable: Observable, steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """(frames,) the row recorded at the step of each frame; -1 if there is none."""
    recorded = observable.steps
    if recorded is None:
        return np.arange(len(steps)) if observable.n_rows == len(steps) else np.full(len(steps), -1)
    order = np.argsort(recorded, kind="stable")
    places = np.searchsorted(recorded, steps, sorter=order)
    inside = places < len(recorded)
    rows = np.full(len(steps), -1)
    rows[inside] = order[places[inside]]
    rows[inside] = np.where(recorded[rows[inside]] == steps[inside], rows[inside], -1)
    return rows
