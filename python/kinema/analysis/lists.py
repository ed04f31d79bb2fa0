"""`ListAnalysis`: an analysis with any number of rows per frame, such as pairs of neighbours or hydrogen bonds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kinema.analysis.atom_columns import columns_of_atoms, columns_of_residues, labels_of, residues_of
from kinema.analysis.base import KernelResults, Pass, Passes, Results
from kinema.analysis.declaration import Quantity
from kinema.analysis.declared import DeclaredAnalysis
from kinema.analysis.occupancy import Occupancy, distinct_rows, occurrences
from kinema.base.choices import BY, check_choice
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.printable import counted
from kinema.runners.base import Rows
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kinema import _core
    from kinema.execution.results_file import ResultDataset
    from kinema.model.selection.frames import FrameSelection

__all__ = ["ListAnalysis", "RowKey"]


@dataclass(frozen=True)
class RowKey:
    """A column of whole numbers that says what a row is of.

    Attributes
    ----------
    name : str
        Name of the result: "donor".
    of : {"atom", "residue", "number"}
        Atoms and residues count from 0; tables name them. Other numbers are shown as they are, and do not
        distinguish rows.
    by_residue : bool
        Whether its residue is a part of the tuple in `occupancy(by="residue")`: a hydrogen's is that of its donor.
    """

    name: str
    of: Literal["atom", "residue", "number"] = "atom"
    by_residue: bool = True


class ListAnalysis(DeclaredAnalysis):
    """An analysis with any number of rows per frame.

    A subclass defines `_kernel`, and declares `row_name`, `keys`, and as `quantities` the numbers of a row. The kernel
    has results of these names (`analyses/lists_per_frame.rs`), or `_kernel_columns` names others, of which `_rows_of`
    makes them.

    After `run`
    -----------
    results.<key> : (rows,) uint32
        Atoms or residues, from 0.
    results.<quantity> : (rows,) float64
    results.frames, results.time : (frames,)
        All analysed frames.
    results.counts : (frames,) int64
        Number of rows of each frame; 0 for a frame without rows.
    results.first_row : (frames + 1,) int64
        Frame i has the rows first_row[i]:first_row[i + 1].
    """

    is_per_frame = True
    is_list = True
    #: what a row is, in words: "hydrogen bond"
    row_name: ClassVar[str]
    #: columns that say what a row is of, before the quantities
    keys: ClassVar[tuple[RowKey, ...]]

    @abstractmethod
    def _kernel(self) -> _core.Kernel:
        """The kernel; its results are "time" (frames,), "first_row" (frames + 1,) and columns (rows,)."""

    def _transforms(self) -> Sequence[_core.Transform]:
        """Transforms that are applied to each frame before the kernel sees it."""
        return ()

    def _kernel_columns(self) -> Sequence[tuple[str, str]]:
        """Name and unit of each column of the kernel; by default keys and quantities."""
        return [*((one.name, "") for one in self.keys), *((one.name, one.unit) for one in self.quantities)]

    def _rows_of(self, found: Results) -> dict[str, Any]:
        """Keys and quantities by name, and other results of the class, from the columns of the kernel, `found`.

        `found` has also frames, time, counts and first_row. Columns may be in a file (`out=`).
        """
        return {name: found[name] for name, _ in self._kernel_columns()}

    @property
    def subject(self) -> str:
        return f"{self.row_name}s of {self.selection.count(self.trajectory.n_atoms)}"

    @property
    def summarised_over(self) -> str | None:
        return counted(len(self.results.frames), "frame")

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        """See `DeclaredAnalysis`: the number of rows of each frame."""
        return self.results.counts[:, None], Quantity("counts", "a frame", f"{self.row_name}s")

    @property
    def digits(self) -> int:
        """Significant digits of quantities as text; 0: all."""
        return self._digits

    @property
    def _title(self) -> str:
        return f"{self.row_name[:1].upper()}{self.row_name[1:]}s"

    def _passes(self, frames: FrameSelection) -> Passes:
        names = tuple(name for name, _ in self._kernel_columns())
        found = yield Pass(self._kernel(), self._transforms(), rows=Rows(lists=names))
        return self._results_of(frames, found)

    def _results_of(self, frames: FrameSelection, found: KernelResults) -> Results:
        """The results, from those of the kernel."""
        first_row = np.asarray(found["first_row"])
        numbers = found["frames"] if "frames" in found else frames.numbers().astype(np.int64)
        of_frames = {"frames": numbers, "time": found["time"], "counts": np.diff(first_row), "first_row": first_row}
        columns = {name: found[name] for name, _ in self._kernel_columns()}
        return Results(**self._rows_of(Results(**columns, **of_frames)), **of_frames)

    def _row_dataset(self, frames: FrameSelection) -> ResultDataset:
        made = self._dataset(self.command_name.replace("-", "_"), "", (), self._title, frames)
        return replace(made, lists=tuple(self._kernel_columns()))

    # -- tables and pictures ---------------------------------------------------------------------------------------

    def _table(self) -> Table:
        results, digits = self.results, self._digits
        counts = np.asarray(results.counts)
        columns = [replace(one, values=np.repeat(one.values, counts)) for one in self._frames_and_times()]
        for key in self.keys:
            columns += self.named_columns(key.name, key.of, np.asarray(results[key.name]))
        for one in self.quantities:
            values = np.asarray(results[one.name])
            columns.append(Column(one.name, values, one.unit, period=one.period, digits=digits))
        return Table(self._title, tuple(columns))

    def named_columns(self, name: str, of: str, values: NDArray[Any]) -> list[Column]:
        """Columns for atoms, residues or other numbers: the numbers, and what the topology says of them."""
        if of == "atom":
            numbers = Column(name, values.astype(np.int64), from_one=name)
            return [numbers, *columns_of_atoms(self.trajectory, values, f"{name}_")]
        if of == "residue":
            return columns_of_residues(self.trajectory, values, name)
        return [Column(name, values)]

    def keys_of(self, by: str) -> list[RowKey]:
        """The keys that distinguish rows, by atoms or by residues."""
        return [one for one in self.keys if one.of != "number" and (by == "atom" or one.by_residue)]

    @classmethod
    def default_by(cls) -> str:
        """The default of `by` in `occupancy`: "atom", or "residue" for an analysis of residues."""
        return "residue" if all(one.of == "residue" for one in cls.keys if one.of != "number") else "atom"

    def occupancy(self, by: str | None = None) -> Occupancy:
        """How often each distinct tuple occurs, the most frequent first.

        Parameters
        ----------
        by : {"atom", "residue"}, optional
            Count tuples of atoms, or of residues; by default atoms, unless rows are of residues. With "residue", rows
            of one frame that join the same residues are one occurrence.

        Returns
        -------
        Occupancy
            Share of all analysed frames, number of events (runs of consecutive analysed frames), mean of each number;
            a table that can be saved.

        Raises
        ------
        ArgumentError
            Before `run`; for residues that the topology does not have; for atoms of an analysis of residues.
        """
        by = self.default_by() if by is None else by
        check_choice("by", by, BY)
        if not self.results:
            raise ArgumentError(f"{type(self).__name__} has no results yet; call run() first")
        tuples, places = distinct_rows(self._identities(by))
        n_tuples, n_frames = len(tuples), len(self.results.frames)
        rows = np.bincount(places, minlength=n_tuples)
        frames, events = occurrences(places, self._frame_of_rows(), n_tuples)
        means = {one.name: self._mean(one, places, rows) for one in self.quantities}
        order = np.argsort(-frames, kind="stable")
        return Occupancy(
            by,
            tuples[order],
            frames[order] / n_frames,
            events[order],
            n_frames,
            {name: values[order] for name, values in means.items()},
            self,
        )

    def _mean(self, quantity: Quantity, places: NDArray[np.intp], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean of a quantity over the rows of each tuple; of periodic values that of their directions."""
        values = np.asarray(self.results[quantity.name])
        n_tuples, turn = len(rows), quantity.period / (2 * np.pi)
        if not quantity.period:
            return np.bincount(places, values, n_tuples) / rows
        sums = [np.bincount(places, of(values / turn), n_tuples) for of in (np.sin, np.cos)]
        return np.asarray(np.arctan2(*sums) * turn)

    def _frame_of_rows(self) -> NDArray[np.int64]:
        """(rows,) frame of each row, counted among the analysed ones."""
        counts = np.asarray(self.results.counts)
        return np.repeat(np.arange(len(counts)), counts)

    def _identities(self, by: str) -> list[NDArray[Any]]:
        """The columns of `keys_of`, as atoms or as residues."""
        keys = self.keys_of(by)
        if by == "atom" and any(one.of == "residue" for one in keys):
            raise ArgumentError(f"rows of {type(self).__name__} are of residues, so by='atom' cannot distinguish them")
        columns = [(one, np.asarray(self.results[one.name])) for one in keys]
        if by == "atom":
            return [values for _, values in columns]
        of_atoms = residues_of(self.trajectory, "by='residue'") if any(one.of == "atom" for one in keys) else None
        return [values if one.of == "residue" or of_atoms is None else of_atoms[values] for one, values in columns]

    def _figure(self, table: Table) -> Figure:
        """A raster: a row of the picture for each distinct tuple, the most frequent on top, over time."""
        from kinema.analysis.plotting import draw_raster

        by = self.default_by()
        tuples, places = distinct_rows(self._identities(by))
        frame_of_rows = self._frame_of_rows()
        frames, _ = occurrences(places, frame_of_rows, len(tuples))
        order = np.argsort(-frames, kind="stable")
        rank = np.empty(len(order), np.intp)
        rank[order] = np.arange(len(order))
        unit = next(one.unit for one in table.columns if one.name == "time")
        time = self._frames_and_times()[1].change_unit(unit)
        return draw_raster(time, rank[places], frame_of_rows, self._labels(tuples[order], by), self._title)

    def _labels(self, tuples: NDArray[np.int64], by: str) -> list[str]:
        """A label for each tuple: residue names and numbers with names of atoms, or numbers of atoms from 1."""
        keys = zip(self.keys_of(by), tuples.T, strict=True)
        parts = [labels_of(self.trajectory, "residue" if by == "residue" else key.of, values) for key, values in keys]
        return [" - ".join(one) for one in zip(*parts, strict=True)]
