"""`Computation`: an analysis as passes over frames, which `run` carries out; and its results.

It imports little, and so do its subclasses, because the command line asks analyses for their declarations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.printable import html_table
from kinema.base.timings import Timings

if TYPE_CHECKING:
    from kinema import _core
    from kinema.execution.record import RunRecord
    from kinema.execution.results_file import ResultDataset
    from kinema.model.selection.atoms import Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.runners import Timings
    from kinema.runners.base import Rows
    from kinema.trajectory import Trajectory

# the results of a finished partial of a kernel; arrays may stay in a file
KernelResults = dict[str, Any]


class MadeOnAccess(ABC):
    """A result that is made from others on first access."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of its numbers."""

    @abstractmethod
    def made(self) -> NDArray[Any]:
        """The result."""


@dataclass(frozen=True, eq=False)
class SideBySide(MadeOnAccess):
    """Arrays, which may stay in a file, side by side as float64."""

    arrays: tuple[NDArray[Any], ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self.arrays[0]), sum(int(np.prod(array.shape[1:])) for array in self.arrays)

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """float64."""
        return np.dtype(np.float64)

    def made(self) -> NDArray[np.float64]:
        """All columns, (rows, columns)."""
        return np.column_stack([np.asarray(array, np.float64) for array in self.arrays])


class Results:
    """Results by name, as attributes or by key: `results.rmsd` is `results["rmsd"]`.

    Not a dict, because `values` is the name of a result.
    """

    def __init__(self, **values: Any) -> None:
        self._values = values
        self._as_dataframe: Callable[[], Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # the analysis is not pickled
        return {"_values": self._values, "_as_dataframe": None}

    def to_dataframe(self) -> Any:
        """The results as a pandas DataFrame, with the columns of the tables that the analysis saves.

        Atoms count from 0, as everywhere in Python; the units of columns are in `attrs["units"]`. Raises
        MissingPackageError (an ImportError) without pandas; ArgumentError before `run`, and for results from a pickle.
        """
        if self._as_dataframe is None:
            raise ArgumentError(
                "these results do not know their analysis: run() has not been called, or they were pickled; a data "
                "frame is made in the process that computed them"
            )
        return self._as_dataframe()

    def __getattr__(self, name: str) -> Any:
        # also called before __init__, when a pickle is loaded
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"no result {name!r}, there are: {', '.join(values) or 'none, call run() first'}")
        return self[name]

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        if isinstance(value, MadeOnAccess):
            value = self._values[name] = value.made()
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def keys(self) -> list[str]:
        """Names of the results, so that `dict(results)` works."""
        return list(self._values)

    def and_more(self, **values: Any) -> Results:
        """These results and the given ones."""
        return Results(**self._values, **values)

    def __repr__(self) -> str:
        return f"<Results: {', '.join(self._values) or 'none yet'}>"

    def _repr_html_(self) -> str:
        """Names, shapes and types, as notebooks show them."""
        rows = [
            (name, getattr(one, "shape", ""), getattr(one, "dtype", type(one).__name__))
            for name, one in self._values.items()
        ]
        return html_table("Results" if rows else "Results: none yet", rows)


class ResultsOnRoot(Results):
    """The results on a rank without results: each access raises an ArgumentError that says how to get them."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._not_here()

    def __getitem__(self, name: str) -> Any:
        raise self._not_here()

    def __contains__(self, name: object) -> bool:
        raise self._not_here()

    def __iter__(self) -> Iterator[str]:
        raise self._not_here()

    def __len__(self) -> int:
        raise self._not_here()

    def keys(self) -> list[str]:
        """Raises ArgumentError."""
        raise self._not_here()

    def to_dataframe(self) -> Any:
        """Raises ArgumentError."""
        raise self._not_here()

    def __repr__(self) -> str:
        return "<Results: on rank 0>"

    def _repr_html_(self) -> str:
        return html_table("Results: on rank 0", ())

    def _not_here(self) -> ArgumentError:
        return ArgumentError(
            "the results are on rank 0; ask for them there, or run with kinema.runners.MPI(results='all')"
        )


@dataclass(frozen=True)
class Pass:
    """One pass over the frames: a kernel and the transforms of each frame; `rows` if results have one row per frame.

    `state` describes the progress in its title: how far an iteration with an unknown number of passes has come.
    """

    kernel: _core.Kernel
    transforms: Sequence[_core.Transform] = ()
    rows: Rows | None = None
    state: str = ""


@dataclass(frozen=True)
class JointPass:
    """Passes over the same frames that are made as one; their results are sent as a list, in the same order."""

    parts: tuple[Pass, ...]


def parts_of(one: Pass | JointPass) -> tuple[Pass, ...]:
    """The parts of a joint pass; a single pass is its own part."""
    return one.parts if isinstance(one, JointPass) else (one,)


def results_of_parts(passes: Sequence[Pass | JointPass], results: Sequence[Any]) -> list[Any]:
    """The results that each of the passes is sent, given the results of all parts in order."""
    found = iter(results)
    return [[next(found) for _ in one.parts] if isinstance(one, JointPass) else next(found) for one in passes]


# yields passes, is sent the results of each pass, returns the results of all
Passes = Generator[Pass | JointPass, Any, Results]


def results_after(passes: Passes, rows: Any) -> Results:
    """The results of a computation of one pass, which is sent the results of that pass."""
    try:
        passes.send(rows)
    except StopIteration as end:
        found: Results = end.value
        return found
    raise AssertionError("a computation of one pass has yielded a second one")


class Computation(ABC):
    """Passes over the frames of a trajectory, for one selection of atoms. `kinema.analysis.Analysis` is one.

    Attributes
    ----------
    trajectory : Trajectory
    selection : Selection
    arguments : dict of str to Any
        The arguments it was made with, by name; a checkpoint compares them.
    record : RunRecord or None
        Record of the last run; None before `run`, and on ranks that have no results.
    command : str or None
        The call as provenance and reports show it, if it was not made from Python.
    """

    _results: Results
    #: passes over the frames; None where their number is not known before they are done
    n_passes: int | None = 1

    def __init__(self, trajectory: Trajectory, selection: Selection, arguments: dict[str, Any]) -> None:
        self.trajectory = trajectory
        self.selection = selection
        self.arguments = arguments
        self._notes: list[str] = []
        self.results = Results()
        self.record: RunRecord | None = None
        self.command: str | None = None

    @property
    def results(self) -> Results:
        """Results of the last run; empty before `run`."""
        return self._results

    @results.setter
    def results(self, found: Results) -> None:
        found._as_dataframe = self._dataframe if len(found._values) else None
        self._results = found

    def _dataframe(self) -> Any:
        """See `Results.to_dataframe`."""
        raise ArgumentError(f"{type(self).__name__} has no table, of which a data frame is made")

    def __repr__(self) -> str:
        """Atoms, arguments and whether it has run: "<RMSD of 214 atoms (select='name CA', ...): 98 frames>"."""
        given = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        if isinstance(self.results, ResultsOnRoot):
            state = "results on rank 0"
        else:
            state = "not run yet" if self.record is None else f"{len(self.record.frames)} frames"
        return f"<{type(self).__name__} of {self.selection.count(self.trajectory.n_atoms)} ({given}): {state}>"

    @property
    def selections(self) -> Sequence[Selection]:
        """All selections whose atoms are read."""
        return (self.selection,)

    def notes_before(self, frames: FrameSelection) -> Sequence[str]:
        """Notes on the chosen frames before they are read: reasons why the results could mislead."""
        return ()

    def check_memory(self, frames: FrameSelection, memory: int) -> None:
        """Checks before the first frame that results of these frames fit into `memory` bytes.

        Raises MemoryLimitError, with what would fit. Working memory of passes is checked by their plans.
        """
        return

    @property
    def other_files(self) -> tuple[str, ...]:
        """Names of other files that decide the results, besides the trajectory's: topology, index files, references."""
        names = [self.trajectory.topology_name, *(selection.file for selection in self.selections)]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def timings(self) -> Timings:
        """Time spent in the last run, by activity; empty before `run`."""
        return Timings(()) if self.record is None else self.record.timings

    @property
    def plan(self) -> str:
        """The plans of the last run in words; "" before `run`."""
        return "" if self.record is None else self.record.plan

    @abstractmethod
    def _passes(self, frames: FrameSelection) -> Passes:
        """Yields each pass, is sent its results, returns the results of all. `frames` are the frames of the run.

        If a run continues from a checkpoint, it is sent the stored results of the finished passes: each pass must
        depend only on the arguments and the earlier results, and be the same to the bit. Any other pass is refused.
        """

    def _row_dataset(self, frames: FrameSelection) -> ResultDataset | None:
        """The data set in a file for results that have one row per frame; None for other results.

        There is one pass then, with the results "values" (frames, ...) and "time" (frames,).
        """
        return None

    def _row_datasets(self, frames: FrameSelection) -> Sequence[ResultDataset]:
        """The data set of each part of the pass, in order; empty for results that are not rows of frames."""
        dataset = self._row_dataset(frames)
        return () if dataset is None else (dataset,)
