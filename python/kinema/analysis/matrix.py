"""`MatrixAnalysis`: an analysis whose result is a matrix, such as correlations of atoms or RMSDs of frames."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinema.analysis.declared import DeclaredAnalysis
from kinema.base.printable import counted
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kinema.analysis.declaration import Quantity

__all__ = ["MatrixAnalysis"]


class MatrixAnalysis(DeclaredAnalysis):
    """An analysis whose result is a matrix of numbers. A subclass defines `_matrix` and `_labels`.

    Tables have a row for each row of the matrix, with its label, and a column for each of its columns; .npy has the
    matrix alone, (rows, columns) float64. The picture is a map.
    """

    #: the quantity's range in pictures; None: the range of the values
    limits: ClassVar[tuple[float, float] | None] = None
    #: what rows and columns are: "residue", "frame"
    of: str

    @abstractmethod
    def _matrix(self) -> NDArray[np.floating]:
        """(rows, columns) values of the main quantity."""

    @abstractmethod
    def _labels(self) -> tuple[Sequence[str], Sequence[str]]:
        """Labels of rows and of columns."""

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        return self._matrix().reshape(-1, 1), self.quantities[0]

    @property
    def summarised_over(self) -> str | None:
        """See `DeclaredAnalysis`: "214 x 214 atoms"."""
        rows, columns = self._matrix().shape
        return f"{rows:,} x {counted(columns, self.of)}"

    def _table(self) -> Table:
        rows, columns = self._labels()
        matrix, unit = self._matrix(), self.quantities[0].unit
        values = [Column(label, matrix[:, j], unit, digits=self._digits) for j, label in enumerate(columns)]
        return Table(self._title, (Column(self.of, np.array(rows)), *values), x=self.of)

    def _figure(self, table: Table) -> Figure:
        from kinema.analysis.plotting import draw_matrix

        values = np.column_stack([one.values for one in table.columns[1:]])
        quantity = self.quantities[0]
        unit = table.columns[1].unit
        label = quantity.description if quantity.unit in ("", "1") else f"{quantity.description} ({unit})"
        return draw_matrix(values, self._labels(), self.of, label, self._title, self.limits)
