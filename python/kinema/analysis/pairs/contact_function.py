"""`FunctionOfContacts`: fractions of native contacts by a function of distances in the frame and in the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.analysis.custom import RowsKernel
from kinema.base.errors import ArgumentError
from kinema.model.frame import Block
from kinema.model.frame_atoms import cell_of


class FunctionOfContacts(RowsKernel):
    """Calls `function(r, r0, **kwargs)` for each group of contacts in each frame.

    `function`: takes distances in the frame and in the reference, (n,) float64 in angstrom, and returns a number.
    `contacts`: list of pairs and distances; for each column the pairs (n, 2), as places among the kernel's atoms, and
        their distances in the reference.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        kwargs: Mapping[str, Any],
        contacts: Sequence[tuple[NDArray[np.intp], NDArray[np.float64]]],
        *,
        minimum_image: bool,
    ) -> None:
        self.function = function
        self.kwargs = dict(kwargs)
        self.contacts = list(contacts)
        self.minimum_image = minimum_image

    def checked_values(self) -> Mapping[str, Any]:
        """See `PythonKernel`: another reference or other arguments give other results."""
        pairs = np.concatenate([pairs for pairs, _ in self.contacts])
        distances = np.concatenate([distances for _, distances in self.contacts])
        ends = np.cumsum([len(distances) for _, distances in self.contacts])
        return {"pairs": pairs, "distances": distances, "ends": ends, "kwargs": sorted(self.kwargs.items())}

    def accumulate(self, partial: Any, block: Block) -> Any:
        values, times = partial
        rows = np.empty((len(block), len(self.contacts)))
        for row, frame in zip(rows, block, strict=True):
            assert frame.atoms is not None, "frames of analyses have them"
            positions = frame.atoms.positions(frame, frame.places())
            cell, periodic = cell_of(frame) if self.minimum_image else (np.zeros((3, 3)), (False, False, False))
            for column, (pairs, distances) in enumerate(self.contacts):
                first, second = (np.ascontiguousarray(positions[pairs[:, i]]) for i in (0, 1))
                apart = _core.pair_distances(first, second, cell, periodic)
                value = np.asarray(self.function(apart, distances.copy(), **self.kwargs))
                if value.shape != () or value.dtype.kind not in "biuf":
                    raise ArgumentError(
                        f"method must return a number for the contacts of a frame, found {value.dtype} of shape "
                        f"{value.shape}"
                    )
                row[column] = value
        values.append(rows)
        times.append(block.times)
        return partial

    def finish(self, partial: Any) -> Mapping[str, Any]:
        values, times = partial
        return {"values": np.concatenate(values), "time": np.concatenate(times)}
