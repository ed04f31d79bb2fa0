"""`ListAnalysis`: an analysis whose results are any number of rows per frame.

A subclass names its kernel and columns. Rows are in the order of frames; a frame may have none.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinema.analysis.base import KernelResults, Pass, Passes, Results
from kinema.analysis.declared import DeclaredAnalysis
from kinema.base.errors import ArgumentError
from kinema.base.printable import are_float32, counted
from kinema.runners.base import Rows
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kinema import _core
    from kinema.execution.results_file import ResultDataset
    from kinema.model.selection.frames import FrameSelection

__all__ = ["ListAnalysis", "ListColumn"]


@dataclass(frozen=True)
class ListColumn:
    """A column of the rows: its name, its unit ("" for whole numbers), and whether it has atoms, counted from 0."""

    name: str
    unit: str = ""
    has_atoms: bool = False


class ListAnalysis(DeclaredAnalysis):
    """An analysis whose results are any number of rows per frame. The first quantity is the number of rows, "counts".

    After `run`
    -----------
    results.<column> : (rows,)
        Values alone, for each of `list_columns`.
    results.counts : (frames,) int64
        Number of rows of each frame, 0 for none.
    results.first_row : (frames + 1,) int64
        Frame i has the rows `first_row[i]` to `first_row[i + 1]`, without the last.
    results.frames, results.time : (frames,)
    results.values : (frames, 1)
        `counts`.
    """

    #: columns of the kernel's results, in their order
    list_columns: ClassVar[tuple[ListColumn, ...]]

    @property
    def summarised_over(self) -> str | None:
        return counted(len(self.results.frames), "frame")

    @abstractmethod
    def _kernel(self) -> _core.Kernel:
        """The kernel; its results are "time", "first_row" and the columns."""

    def _passes(self, frames: FrameSelection) -> Passes:
        found = yield Pass(self._kernel(), rows=Rows(lists=tuple(column.name for column in self.list_columns)))
        numbers = found["frames"] if "frames" in found else frames.numbers().astype(np.int64)
        columns = {column.name: found[column.name] for column in self.list_columns}
        counts = np.diff(np.asarray(found["first_row"]))
        return Results(
            **columns,
            **self._more_results(numbers, counts, found),
            counts=counts,
            first_row=found["first_row"],
            frames=numbers,
            time=found["time"],
            values=counts[:, None],
        )

    def _more_results(
        self, numbers: NDArray[np.int64], counts: NDArray[np.int64], found: KernelResults
    ) -> dict[str, Any]:
        """Results that are made from those of the kernel, given the frames' numbers and their numbers of rows."""
        return {}

    def _result(self, name: str) -> NDArray[Any]:
        """A result in memory. Raises ArgumentError before `run`."""
        if not self.results:
            raise ArgumentError(f"{type(self).__name__} has no results yet; call run() first")
        return np.asarray(self.results[name])

    def _table(self) -> Table:
        counts = self._result("counts")
        frames, time = (np.repeat(self._result(name), counts) for name in ("frames", "time"))
        made = [Column("frame", frames), Column("time", time, "ps", are_float32(time))]
        for column in self.list_columns:
            values = self._result(column.name)
            if column.has_atoms:
                made.append(Column(column.name, values.astype(np.int64), from_one=column.name))
                made += self._names_of(column.name, values)
            else:
                digits = self._digits if column.unit else 0
                made.append(Column(column.name, values, column.unit, digits=digits))
        return Table(self._title, tuple(made))

    def _names_of(self, name: str, atoms: NDArray[Any]) -> list[Column]:
        """Columns of names, residue names and residues of atoms, as far as the topology has them."""
        topology = self.trajectory.topology
        if topology is None:
            return []
        columns = {"name": "names", "resname": "resnames", "residue": "resids"}
        values = {word: topology.atoms.get(column) for word, column in columns.items()}
        return [Column(f"{name}_{word}", one[atoms]) for word, one in values.items() if one is not None]

    def _figure(self, table: Table) -> Figure:
        """The number of rows over time."""
        from kinema.analysis.plotting import draw

        time = self._result("time")
        unit = next(column.unit for column in table.columns if column.name == "time")
        columns = (Column("time", time, "ps").change_unit(unit), Column("counts", self._result("counts"), "1"))
        return draw(Table(self._title, columns))

    def _row_dataset(self, frames: FrameSelection) -> ResultDataset:
        from dataclasses import replace

        made = self._dataset(self.command_name.replace("-", "_"), "", (), self._title, frames)
        return replace(made, lists=tuple((column.name, column.unit) for column in self.list_columns))
