"""`DeclaredAnalysis`: an analysis with the declarations from which command line, documents and tests are made.

`PerFrameAnalysis` is one whose results are one row per frame: a subclass names only its kernel and columns.
"""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kinema.analysis.base import Analysis, KernelResults, Pass, Passes, Results, results_per_frame
from kinema.analysis.declaration import Quantity
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.printable import counted
from kinema.runners.base import Rows
from kinema.storage.tables import Column, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kinema import _core
    from kinema.execution.results_file import ResultDataset
    from kinema.model.selection.atoms import AtomChoice, Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.trajectory import Trajectory


class DeclaredAnalysis(Analysis):
    """An analysis that becomes a command. A subclass declares, beside the options of its constructor:

    Attributes
    ----------
    command_name : str
        The command, `kinema rgyr`; its module has the same name, with _ for -.
    summary : str
        One sentence for the command's help.
    quantities : tuple of Quantity
        Its results, the main one first.
    reference : str
        The publication or program that defines them.
    """

    command_name: ClassVar[str]
    summary: ClassVar[str]
    quantities: ClassVar[tuple[Quantity, ...]]
    reference: ClassVar[str]

    #: arguments that tests of all analyses give, so that a run is short
    short_run: ClassVar[Mapping[str, Any]] = {}
    #: whether it takes atoms that change with the frame (`ChangingSelection`)
    takes_changing: ClassVar[bool] = False
    #: whether results are rows of frames, one a frame, or any number if `is_list`
    is_per_frame: ClassVar[bool] = False
    is_list: ClassVar[bool] = False
    #: whether it divides frames into clusters, whose frames a command writes (`Clusters`)
    has_clusters: ClassVar[bool] = False
    has_lifetime: ClassVar[bool] = False
    #: the column of `results.values` that a command's summary covers; None: all
    summarised_column: ClassVar[int | None] = None
    #: whether a run notes frames without a cell, which have no nearest images
    notes_open_frames: ClassVar[bool] = False
    #: whether distances are those of nearest images; instances set it
    _minimum_image: bool = False

    @property
    def measures_whole_molecules(self) -> bool:
        """Whether broken molecules make results wrong; if so, a run looks for them. Nearest images are the same."""
        return not self._minimum_image

    def notes_before(self, frames: FrameSelection) -> Sequence[str]:
        """See `Computation`: notes on broken molecules, frames without a cell, atoms that change with the frame."""
        from kinema.trajectory.broken_molecules import broken_notes

        whole = self.measures_whole_molecules
        notes = broken_notes(self.trajectory, self.selection, frames) if whole else []
        for group in self.selections:
            if group.changes:
                from kinema.trajectory.changing_groups import notes_on_group

                notes += notes_on_group(self.trajectory, group, frames)
        if self.notes_open_frames and self._minimum_image:
            from kinema.trajectory.changing_groups import no_cell_notes

            notes += no_cell_notes(self.trajectory, frames)
        return list(dict.fromkeys(notes))

    def __init__(self, trajectory: Trajectory, select: AtomChoice, **arguments: Any) -> None:
        """`arguments` are the constructor's arguments that affect results; provenance and checkpoints name them."""
        from kinema.transforms.arguments import describe, select_atoms

        selection = select_atoms(trajectory, select, may_change=self.takes_changing)
        described = {name: describe(value) for name, value in {"select": selection, **arguments}.items()}
        super().__init__(trajectory, selection, described)

    @classmethod
    def check_arguments(cls, given: Mapping[str, Any], *, followed: bool = False) -> None:
        """Raises ArgumentError for a command's arguments that exclude or need each other.

        It is called before files are opened. `given` has the arguments that differ from their defaults; `followed` says
        that frames are still being written.
        """
        if "match" in given and "reference" not in given:
            raise ArgumentError("match= says how atoms are compared with those of reference=; name that file")
        if "ref_frame" in given and "reference" in given:
            raise ArgumentError("ref_frame= and reference= exclude each other; give one of them")

    @property
    def subject(self) -> str:
        """The subject of a command's summary: "radius of gyration of 214 atoms"."""
        return f"{self._main_quantity.description} of {self.selection.count(self.trajectory.n_atoms)}"

    @property
    def summarised(self) -> tuple[Any, Quantity]:
        """The values that a command's summary covers, (rows, columns) in memory or in a file, and what they are."""
        return self.results.values, self._main_quantity

    @property
    def summarised_over(self) -> str | None:
        """The range of the mean, least and largest value in a command's summary: "98 frames"; None: no such values.

        Quantities that are not alike, such as x, y and z, or several angles, have no such values.
        """
        return None

    @property
    def further_summary(self) -> Mapping[str, tuple[float, str]]:
        """Other numbers of a command's summary, by name, each with its unit; nan for one that does not exist."""
        return {}

    @property
    def _main_quantity(self) -> Quantity:
        """The main quantity."""
        return self.quantities[0]

    @property
    def _title(self) -> str:
        """Title of tables and pictures."""
        return self._main_quantity.title

    def _group_arguments(self) -> dict[str, Any]:
        """The atoms as arguments of a kernel: `atoms`, or `group` if they change with the frame."""
        return group_arguments(self.selection, "atoms", "group")

    def _weights_of(
        self, weights: Any, selection: Selection | None = None, what: str = "weights"
    ) -> NDArray[np.float64] | None:
        """(n,) weights of the atoms of a selection, by default `self.selection`; None for equal weights."""
        from kinema.transforms.arguments import weights_of

        return weights_of(weights, self.selection if selection is None else selection, self.trajectory, what)


def first_frame_of(found: Results, column: int, value: float) -> int | None:
    """The first frame whose value in a column is `value`, which may be nan; None: no frame, or values are spread."""
    values, start = found.values, 0
    # what is spread over ranks stays there
    in_memory = [values] if isinstance(values, np.ndarray) else []
    for rows in values.chunks() if hasattr(values, "chunks") else in_memory:
        of_rows = rows[:, column]
        alike = np.isnan(of_rows) if math.isnan(value) else of_rows == value
        if alike.any():
            return int(found.frames[start + int(alike.argmax())])
        start += len(rows)
    return None


def group_arguments(selection: Selection, atoms: str, group: str) -> dict[str, Any]:
    """A selection as an argument of a kernel: its `atoms`, or `group` if they change with the frame."""
    return {group: selection.expression} if selection.changes else {atoms: selection.indices}


@dataclass(frozen=True)
class UnboundAnalysis:
    """An analysis without its trajectory, to be bound to any number of them; made by `PerFrameAnalysis.of`.

    Attributes
    ----------
    analysis : type
        The class.
    arguments : tuple
        Its arguments after the trajectory.
    named : mapping of str to Any
    """

    analysis: type[Analysis]
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]

    def bind(self, trajectory: Trajectory) -> Analysis:
        """The analysis of a trajectory. Raises as its class."""
        return self.analysis(trajectory, *self.arguments, **self.named)

    def __repr__(self) -> str:
        """The call that made it: "Dihedrals.of('protein', phi=True)"."""
        given = [*map(repr, self.arguments), *(f"{name}={value!r}" for name, value in self.named.items())]
        return f"{self.analysis.__name__}.of({', '.join(given)})"


class PerFrameAnalysis(DeclaredAnalysis):
    """An analysis whose results are one row per frame. A subclass defines `_kernel`, and `_columns` if it has several.

    After `run`
    -----------
    results.<quantity> : (frames,) float64, or (frames, columns) if it declares columns
        Values alone.
    results.frames, results.time : (frames,)
    results.values : (frames, columns)
        The columns of all quantities.
    """

    is_per_frame = True
    summarised_column: ClassVar[int | None] = 0
    #: the value in frames in which no atom is selected, if the atoms change with the frame
    value_of_no_atoms: ClassVar[float] = math.nan

    @classmethod
    def of(cls, *arguments: Any, **named: Any) -> UnboundAnalysis:
        """The analysis without its trajectory: the arguments that follow it, for `UnboundAnalysis.bind`.

        Raises TypeError for arguments that the analysis does not have.

        Examples
        --------
        >>> phi = kn.analysis.Dihedrals.of("resid 50-52", phi=True)
        >>> phi.bind(traj).run(stop=5).results.phi.shape
        (5, 3)
        """
        inspect.signature(cls.__init__).bind(None, None, *arguments, **named)
        return UnboundAnalysis(cls, arguments, named)

    @property
    def summarised_over(self) -> str | None:
        return counted(len(self.results.frames), "frame")

    @abstractmethod
    def _kernel(self) -> _core.Kernel:
        """The kernel; its results are "time" (frames,) and "values" (frames, columns)."""

    def _columns(self) -> Sequence[tuple[str, Quantity]]:
        """Name and quantity of each column of the values; by default one column per quantity, with its name."""
        return [(one.name, one) for one in self.quantities]

    def _columns_from_one(self) -> Sequence[tuple[str, Quantity]]:
        """The same, with names that count atoms from 1, for tables that people read."""
        return self._columns()

    def _transforms(self) -> Sequence[_core.Transform]:
        """Transforms that are applied to each frame before the kernel sees it."""
        return ()

    def _rows(self) -> Rows:
        """Number and type of the values of a frame."""
        return Rows(len(self._columns()))

    def _passes(self, frames: FrameSelection) -> Passes:
        results = yield Pass(self._kernel(), self._transforms(), rows=self._rows())
        found = results_per_frame(frames, results)
        if self.selection.changes:
            self._note_frames_without_atoms(found)
        return Results(**self._quantity_values(found, results), **dict(found))

    def _note_frames_without_atoms(self, found: Results) -> None:
        """A note with the first frame in which no atom is selected."""
        frame = first_frame_of(found, 0, self.value_of_no_atoms)
        if frame is not None:
            where = f"{self.selection.description!r} names no atoms in frame {frame}"
            self._add_notes([f"{where}: the value of such frames is {self.value_of_no_atoms:g}"])

    def _quantity_values(self, found: Results, kernel_results: KernelResults) -> dict[str, Any]:
        """The values of each quantity, by name."""
        from kinema.execution.result_arrays import columns_of

        columns = self._columns()
        of_each: dict[str, Any] = {}
        for quantity in dict.fromkeys(quantity for _, quantity in columns):
            places = [place for place, (_, of) in enumerate(columns) if of == quantity]
            if quantity.columns and len(places) == len(columns):
                of_each[quantity.name] = found.values
            else:
                of_each[quantity.name] = columns_of(found.values, places if quantity.columns else places[0])
        return of_each

    @property
    def _result_name(self) -> str:
        """Name of the data set in a file."""
        return self.command_name.replace("-", "_")

    def _table(self) -> Table:
        values = self.results.values
        names = zip(self._columns(), self._columns_from_one(), strict=True)
        digits = self._digits
        made = [
            Column(
                name,
                values[:, i],
                one.unit,
                period=one.period,
                from_one=shown if shown != name else "",
                digits=digits,
            )
            for i, ((name, one), (shown, _)) in enumerate(names)
        ]
        return Table(self._title, (*self._frames_and_times(), *made))

    def _row_dataset(self, frames: FrameSelection) -> ResultDataset:
        columns = self._columns()
        units = list(dict.fromkeys(one.unit for _, one in columns))
        unit = units[0] if len(units) == 1 else ", ".join(one.unit for _, one in columns)
        made = self._dataset(self._result_name, unit, [name for name, _ in columns], self._title, frames)
        return replace(made, periods=tuple(one.period for _, one in columns))
