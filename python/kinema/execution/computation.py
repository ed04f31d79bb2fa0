"""`Computation`: what `run` carries out, an analysis as passes over frames; and the results of one.

It imports little, as does what is derived from it: the command line asks analyses what they declare.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.printable import html_table
from kinema.base.timings import Timings
from kinema.base.values import dataclass

if TYPE_CHECKING:
    from kinema import _core
    from kinema.execution.record import RunRecord
    from kinema.execution.results_file import ResultDataset
    from kinema.model.selection.atoms import Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.runners import Timings
    from kinema.runners.base import Rows
    from kinema.trajectory import Trajectory

__all__ = ["Computation", "KernelResults", "Pass", "Passes", "Results", "ResultsOnRoot", "SideBySide"]

# what a kernel's partial gives when it is finished; arrays, which may stay in a file
KernelResults = dict[str, Any]


@dataclass(frozen=True, eq=False)
class SideBySide:
    """A result that is made of others when it is first asked for: arrays side by side, as float64 columns."""

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
        """(rows, columns) of all."""
        return np.column_stack([array.astype(np.float64, copy=False) for array in self.arrays])


class Results:
    """Results by name, as attributes or by key: `results.rmsd` is `results["rmsd"]`.

    Not a dict, since `values` is the name of a result.
    """

    def __init__(self, **values: Any) -> None:
        self._values = values
        self._as_dataframe: Callable[[], Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # the analysis stays where it is
        return {"_values": self._values, "_as_dataframe": None}

    def to_dataframe(self) -> Any:
        """The results as a pandas DataFrame, with the columns of the tables that the analysis saves.

        Atoms count from 0, as in all of Python; the units of columns are in `attrs["units"]`. MissingPackageError (an
        ImportError) without pandas; ArgumentError before `run`, and of results that were pickled.
        """
        if self._as_dataframe is None:
            raise ArgumentError(
                "these results do not know their analysis: run() has not been called, or they were pickled; a data "
                "frame is made where they were computed"
            )
        return self._as_dataframe()

    def __getattr__(self, name: str) -> Any:
        # called before __init__ when a pickle is loaded
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"no result {name!r}, there are: {', '.join(values) or 'none, call run() first'}")
        return self[name]

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        if isinstance(value, SideBySide):
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
        """These and others."""
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
    """The results on a rank that has none: each access raises an ArgumentError that says how to get them."""

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
        """ArgumentError."""
        raise self._not_here()

    def to_dataframe(self) -> Any:
        """ArgumentError."""
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
    """One pass over the frames: a kernel and the transforms of each frame; `rows` where results are one row a frame.

    `state` is what the progress title says of it: how far passes whose number is not known have come.
    """

    kernel: _core.Kernel
    transforms: Sequence[_core.Transform] = ()
    rows: Rows | None = None
    state: str = ""


# yields passes, is sent the results of each, returns those of all
Passes = Generator[Pass, KernelResults, Results]


class Computation(ABC):
    """Passes over the frames of a trajectory, for one selection of atoms. `kinema.analysis.Analysis` is one.

    Attributes
    ----------
    trajectory : Trajectory
    selection : Selection
    arguments : dict of str to Any
        What it was made with, by name; a checkpoint compares them.
    record : RunRecord or None
        Of the last run; None before `run`, and on ranks that have no results.
    command : str or None
        The call as provenance and reports give it, where it was not made from Python.
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
        """Of the last run; empty before `run`."""
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
        """Notes on the frames that are chosen, before they are read: what would make the results misleading."""
        return ()

    @property
    def other_files(self) -> tuple[str, ...]:
        """Names of the files besides the trajectory's that decide the results: topology, index files, references."""
        names = [self.trajectory.topology_name, *(selection.file for selection in self.selections)]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def timings(self) -> Timings:
        """Where the time of the last run went; empty before `run`."""
        return Timings(()) if self.record is None else self.record.timings

    @property
    def plan(self) -> str:
        """The plans of the last run in words; "" before `run`."""
        return "" if self.record is None else self.record.plan

    @abstractmethod
    def _passes(self, frames: FrameSelection) -> Passes:
        """Yields each pass, is sent its results, returns the results of all. `frames` are those of the run.

        A run that goes on from a checkpoint is sent the stored results of the passes that were done: each pass must
        follow from the arguments and the results before it, and be the same to the bit. Another one is refused.
        """

    def _per_frame(self, frames: FrameSelection) -> ResultDataset | None:
        """The data set of a file for results that are one row a frame; None where they are not.

        There is one pass then, with the results "values" (frames, ...) and "time" (frames,).
        """
        return None
