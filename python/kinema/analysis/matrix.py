"""`MatrixAnalysis`: an analysis whose result is a matrix, such as correlations of atoms or RMSDs of frames."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinema.analysis.declared import DeclaredAnalysis
from kinema.base.errors import MemoryLimitError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.printable import counted
from kinema.execution.computation import MadeOnAccess
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.analysis.declaration import Quantity
    from kinema.model.selection.frames import FrameSelection

__all__ = ["MatrixAnalysis", "Square", "n_pairs"]


def n_pairs(n: int) -> int:
    """Number of distinct pairs of `n` things: the length of a condensed matrix."""
    return n * (n - 1) // 2


@dataclass(frozen=True, eq=False)
class Square(MadeOnAccess):
    """The square matrix of a condensed one, with zeros on its diagonal.

    `condensed` has the values above the diagonal, row after row, as `scipy.spatial.distance.squareform` takes them.
    """

    condensed: NDArray[np.floating]
    n: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.n, self.n

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the condensed values."""
        return self.condensed.dtype

    def made(self) -> NDArray[np.floating]:
        """(n, n), symmetric."""
        square = np.zeros(self.shape, self.dtype)
        begin = 0
        for i in range(self.n - 1):
            row = self.condensed[begin : begin + self.n - 1 - i]
            square[i, i + 1 :] = row
            square[i + 1 :, i] = row
            begin += len(row)
        return square


class MatrixAnalysis(DeclaredAnalysis):
    """An analysis whose result is a matrix of numbers. A subclass defines `_matrix` and `_labels`.

    Tables have a row for each row of the matrix, with its label, and a column for each of its columns; .npy has the
    matrix alone, (rows, columns) float64. The picture is a map. `save` also writes .h5: `matrix`, or `condensed` for a
    symmetric one with zeros on its diagonal; `row_labels` and `column_labels`; and more of `_datasets`.

    A subclass whose matrix is symmetric with zeros on its diagonal defines `_condensed`, and makes the square matrix
    on access (`Square`). A subclass that defines `_matrix_bytes` is refused before the first frame if its results do
    not fit into `memory=`.
    """

    other_formats: ClassVar[Mapping[str, str]] = {".h5": "the matrix with its labels"}
    #: the quantity's range in pictures; None: the range of the values
    limits: ClassVar[tuple[float, float] | None] = None
    #: what makes the matrix smaller, in words, for the error
    smaller: ClassVar[str] = "select fewer atoms"
    #: what rows and columns are: "residue", "frame"
    of: str

    @abstractmethod
    def _matrix(self) -> NDArray[np.floating]:
        """(rows, columns) values of the main quantity."""

    @abstractmethod
    def _labels(self) -> tuple[Sequence[str], Sequence[str]]:
        """Labels of rows and of columns."""

    def _condensed(self) -> NDArray[np.floating] | None:
        """(n (n - 1) / 2,) values above the diagonal, row after row; None for matrices that need all values."""
        return None

    def _main_dataset(self) -> tuple[str, NDArray[np.floating]]:
        """Name and values of the main data set of a .h5 file."""
        condensed = self._condensed()
        return ("matrix", self._matrix()) if condensed is None else ("condensed", condensed)

    def _datasets(self) -> Mapping[str, NDArray[Any]]:
        """Further data sets of a .h5 file."""
        return {}

    def _matrix_bytes(self, frames: FrameSelection) -> tuple[int, int, int]:
        """Numbers of rows and columns, and bytes of all results of their size while they are made; 0 if few."""
        return 0, 0, 0

    def check_memory(self, frames: FrameSelection, memory: int) -> None:
        rows, columns, needed = self._matrix_bytes(frames)
        if needed > memory:
            raise MemoryLimitError(
                f"the memory limit is too small for the matrix of {rows:,} x {counted(columns, self.of)}, expected at "
                f"least {needed:,} bytes, found {memory:,}; {self.smaller}, or give memory="
            )

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        """See `DeclaredAnalysis`: all values; if the matrix is condensed, the values of distinct pairs."""
        condensed = self._condensed()
        values = self._matrix() if condensed is None else condensed
        return values.reshape(-1, 1), self._main_quantity

    @property
    def summarised_over(self) -> str | None:
        """See `DeclaredAnalysis`: "214 x 214 atoms", "4,753 pairs of 98 frames"."""
        condensed = self._condensed()
        if condensed is not None:
            n = len(self._labels()[0])
            return f"{counted(len(condensed), 'pair')} of {counted(n, self.of)}"
        rows, columns = self._matrix().shape
        return f"{rows:,} x {counted(columns, self.of)}"

    def _table(self) -> Table:
        rows, columns = self._labels()
        matrix, unit = self._matrix(), self._main_quantity.unit
        values = [Column(label, matrix[:, j], unit, digits=self._digits) for j, label in enumerate(columns)]
        return Table(self._title, (Column(self.of, np.array(rows)), *values), x=self.of)

    def _figure(self, table: Table) -> Figure:
        from kinema.analysis.plotting import draw_matrix

        values = np.column_stack([one.values for one in table.columns[1:]])
        quantity = self._main_quantity
        unit = table.columns[1].unit
        label = quantity.description if quantity.unit in ("", "1") else f"{quantity.description} ({unit})"
        return draw_matrix(values, self._labels(), self.of, label, self._title, self.limits)

    def _write_other(self, path: str, name: str) -> None:
        from kinema.storage.hdf5.storage import write_results

        dataset, values = self._main_dataset()
        quantity = self._main_quantity
        # by the format a later call recognises the file as one that it may replace
        attributes = {"format": "kinema results", "provenance": self.provenance().json()}
        arrays: dict[str, tuple[Any, dict[str, str]]]
        arrays = {dataset: (values, {"quantity": quantity.name, "unit": quantity.unit, "title": self._title})}
        labels = zip(("row_labels", "column_labels"), self._labels(), strict=True)
        arrays |= {other: (more, {}) for other, more in (*labels, *self._datasets().items())}
        write_results(path, attributes, arrays, ordered=True)
