"""A run of a trajectory's frames, and the rows of every element that belong to it: by step, not by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.files.h5md.elements import TimedElement, steps_of
from kinema.formats.h5md.file import H5mdFile
from kinema.storage.hdf5.file import object_key


@dataclass(frozen=True)
class FrameWindow:
    """Frames [first, stop) of the element `axis`.

    A row with a step before the first frame belongs to the previous window, and rows after the last frame of the
    trajectory belong to the last window, so each row is in one window. There is one exception: if an element of the
    particles has no row for the first frame, its previous row, which is still valid then, is in this window too.
    """

    axis: TimedElement
    first: int
    stop: int
    n_frames: int

    def rows_of(self, opened: H5mdFile, element: TimedElement) -> tuple[int, int]:
        """Rows [start, stop) of an element; all if it has neither steps nor times and a different number of rows."""
        n_rows = int(element.value.shape[0])
        end = self.stop if self.stop < self.n_frames else max(n_rows, self.stop)
        if self.is_by_row(element):
            return self.first, end
        for what in ("step", "time"):
            mine, theirs = steps_of(opened, self.axis, what), steps_of(opened, element, what)
            if mine is not None and theirs is not None:
                lower = 0 if self.first == 0 else _place(theirs, mine, self.first)
                exact = lower < len(theirs) and theirs[lower] == mine[self.first]
                if lower > 0 and not exact and element.particles is not None:
                    lower -= 1
                upper = len(theirs) if self.stop >= self.n_frames else _place(theirs, mine, self.stop)
                return lower, max(lower, upper)
        if n_rows == self.axis.value.shape[0]:
            return self.first, end
        return 0, n_rows

    def is_by_row(self, element: TimedElement) -> bool:
        """Whether row i of the element is frame i, because both have the same steps."""
        if element.path == self.axis.path:
            return True
        mine, theirs = self.axis.step or self.axis.time, element.step or element.time
        return mine is not None and theirs is not None and mine.shape != () and object_key(mine) == object_key(theirs)


def _place(theirs: NDArray[Any], mine: NDArray[Any], frame: int) -> int:
    """The first row whose step is not before that of `frame`."""
    return int(np.searchsorted(theirs, mine[frame], side="left"))
