"""`ProfileAnalysis`: an analysis whose results are quantities over one axis, such as a distance or a coordinate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinema.analysis.declared import DeclaredAnalysis
from kinema.base.choices import whole_number
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema.analysis.declaration import Quantity
    from kinema.model.selection.frames import FrameSelection

__all__ = ["ProfileAnalysis", "block_bounds", "standard_error"]


class ProfileAnalysis(DeclaredAnalysis):
    """An analysis whose results are quantities over one axis, in bins of it.

    A subclass declares `axis`, and defines `_passes`, whose results have the names below. Bins are half open, the last
    one closed, as in numpy.histogram.

    After `run`
    -----------
    results.bins : (bins,) float64
        Centres of the bins.
    results.edges : (bins + 1,) float64
    results.<quantity> : (bins,) float64, or (bins, columns) if it declares columns
    results.<quantity>_error : the same shape
        Standard error from `n_blocks` consecutive parts of the run, if there are at least two.
    """

    #: what the bins are of, with its unit
    axis: Quantity
    summarised_column: ClassVar[int | None] = None

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        if followed and given.get("n_blocks", 1) > 1:
            raise ArgumentError("n_blocks= divides all frames of a run, which --follow does not know; leave it out")
        super().check_arguments(given, followed=followed)

    def _columns(self) -> Sequence[tuple[str, Quantity, NDArray[np.float64]]]:
        """Name, quantity and (bins,) values of each column of the table; by default one for each quantity."""
        columns: list[tuple[str, Quantity, NDArray[np.float64]]] = []
        for quantity in self.quantities:
            if quantity.name not in self.results:
                continue
            columns.append((quantity.name, quantity, self.results[quantity.name]))
            if f"{quantity.name}_error" in self.results:
                columns.append((f"{quantity.name}_error", quantity, self.results[f"{quantity.name}_error"]))
        return columns

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        """See `DeclaredAnalysis`: the main quantity."""
        return np.reshape(self.results[self.quantities[0].name], (-1, 1)), self.quantities[0]

    @property
    def summarised_over(self) -> str | None:
        return counted(len(self.results.bins), "bin")

    def _table(self) -> Table:
        axis = Column(self.axis.name, self.results.bins, self.axis.unit)
        columns = [
            Column(name, np.asarray(values, np.float64), quantity.unit, digits=self._digits)
            for name, quantity, values in self._columns()
        ]
        return Table(self._title, (axis, *columns), x=self.axis.name)


def block_bounds(frames: FrameSelection, n_blocks: int) -> NDArray[np.int64]:
    """(n_blocks,) the first frame of each of `n_blocks` consecutive parts of a run, which differ by at most one frame.

    A frame is in the last part that does not begin after it. Raises ArgumentError for fewer frames than parts.
    """
    n_blocks = whole_number("n_blocks", n_blocks)
    numbers = np.sort(frames.numbers().astype(np.int64))
    if len(numbers) < n_blocks:
        raise ArgumentError(f"n_blocks={n_blocks} needs as many frames; the run has {counted(len(numbers), 'frame')}")
    bounds: NDArray[np.int64] = numbers[np.arange(n_blocks) * len(numbers) // n_blocks]
    return bounds


def standard_error(blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard error of the mean over blocks, the first axis; nan for a single block."""
    if len(blocks) < 2:
        return np.full(blocks.shape[1:], np.nan)
    return np.asarray(np.std(blocks, axis=0, ddof=1) / np.sqrt(len(blocks)))
