"""What analyses have in common: rounds, running, results, saving and plotting.

It knows no quantity, and how several analyses share a pass is in `kinema.analysis.run`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack

import numpy as np

from kinema import _core
from kinema.errors import ArgumentError
from kinema.frames import FrameChoice, ResolvedFrames, count, numbers
from kinema.output import Column, Table, check_plot_path, check_writable, write_table, write_whole
from kinema.progress import ProgressChoice
from kinema.provenance import Input, Provenance
from kinema.result_file import Quantity
from kinema.runners import Runner, RunnerOptions, Timings
from kinema.runners.base import Rows
from kinema.selection import Selection
from kinema.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kinema.checkpoint import Checkpoint
    from kinema.profile import Report

__all__ = [
    "Analysis",
    "CheckpointChoice",
    "Found",
    "Results",
    "ResultsElsewhere",
    "Round",
    "Rounds",
    "results_per_frame",
]

# what a kernel's partial gives when it is finished; arrays, which may stay in a file
Found = dict[str, Any]

# the file that a run is saved to, and how
CheckpointChoice: TypeAlias = "str | os.PathLike[str] | Checkpoint | None"


class Results:
    """Results by name, as attributes or by key: `results.rmsd` is `results["rmsd"]`.

    Not a dict, since `values` is the name of a result.
    """

    def __init__(self, **found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        # asked for before __init__ has run when a pickle is loaded
        found = self.__dict__.get("_found", {})
        if name not in found:
            raise AttributeError(f"no result {name!r}, there are: {', '.join(found) or 'none, call run() first'}")
        return found[name]

    def __getitem__(self, name: str) -> Any:
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._found]

    def keys(self) -> list[str]:
        """Names of the results, so that `dict(results)` works."""
        return list(self._found)

    def __repr__(self) -> str:
        return f"<Results: {', '.join(self._found) or 'none yet'}>"


class ResultsElsewhere(Results):
    """What a rank has that was told no results: asking for any is an ArgumentError that says how to get them."""

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

    def __repr__(self) -> str:
        return "<Results: on rank 0>"

    def _not_here(self) -> ArgumentError:
        return ArgumentError(
            "the results are on rank 0; ask for them there, or run with kinema.runners.MPI(results='all')"
        )


@dataclass(frozen=True)
class Round:
    """One pass over the frames: a kernel, and what each frame goes through first; `rows` where it finds rows."""

    kernel: _core.Kernel
    transforms: Sequence[_core.Transform] = ()
    rows: Rows | None = None


def results_per_frame(name: str, frames: ResolvedFrames, found: Found) -> Results:
    """Results that are one row a frame: frames, time, values, and `name`, all of them side by side.

    Arrays in memory, or where `found` has the table already arrays that stay where they are: in a file, on ranks.
    """
    values, time = found["values"], found["time"]
    if "table" in found:
        return Results(**{name: found["table"]}, frames=found["frames"], time=time, values=values)
    frame_numbers = numbers(frames)
    table = np.column_stack([frame_numbers.astype(np.float64), time, values])
    return Results(**{name: table}, frames=frame_numbers.astype(np.int64), time=time, values=values)


# yields rounds, is sent what each of them found, returns the results
Rounds = Generator[Round, Found, Results]


class Analysis(ABC):
    """An analysis of a trajectory. Subclasses give `_rounds` and `_table`.

    Attributes
    ----------
    trajectory : Trajectory
    selection : Selection
    results : Results
        Empty before `run`.
    timings : Timings
        Where the time of the last run went.
    command : str or None
        What provenance tells as the call where it was not made from Python.
    """

    #: passes over the frames, for the progress bar
    n_rounds = 1

    def __init__(self, trajectory: Trajectory, selection: Selection, arguments: dict[str, Any]) -> None:
        self.trajectory = trajectory
        self.selection = selection
        self.results = Results()
        self.timings = Timings(())
        self.plan = ""
        self.command: str | None = None
        self._arguments = arguments
        self._frames: ResolvedFrames | None = None

    def run(
        self,
        start: int | None = None,
        stop: int | None = None,
        step: int | None = None,
        frames: FrameChoice = None,
        verbose: bool | None = None,
        workers: int | None = None,
        *,
        runner: str | Runner | None = None,
        memory: int | str | None = None,
        progress: ProgressChoice = None,
        checkpoint: CheckpointChoice = None,
        checkpoint_interval: float | None = None,
        out: str | os.PathLike[str] | None = None,
        access: str = "direct",
        **options: Unpack[RunnerOptions],
    ) -> Self:
        """Runs the analysis and returns it.

        Parameters
        ----------
        start, stop, step : int, optional
            Frames as in a slice.
        frames : slice, list, array or mask, optional
            Frames in any order, instead of start, stop and step.
        verbose : bool, optional
            The same as `progress`, as in MDAnalysis.
        workers : int, optional
            By default as many as this process may use. Results are the same to the bit for any number.
        runner : {"threads", "processes", "serial", "dask", "mpi"} or Runner, optional
            What the workers are; results are the same to the bit on each.
        memory : int or str, optional
            Limit of working memory, "256 MiB".
        progress : bool or function, optional
            By default a bar where stderr is a terminal, and with MPI, whose launchers pass stderr on, a line every ten
            seconds; a function is called with (done, total).
        checkpoint : path or Checkpoint, optional
            A file that what is done is saved to: every `checkpoint_interval` seconds, on SIGUSR1, and when the run is
            ended by SIGTERM, Ctrl-C or an error. The same call goes on from there, with the same bits, also on another
            runner or number of workers. Removed when the run is done.
        checkpoint_interval : float, optional
            Seconds, 30 by default.
        out : path, optional
            An HDF5 file (.h5) that results per frame are written to as they are done, and not held in memory;
            `results` then reads from it (`kinema.result_file`).
        access : str
            How frames are read, for comparisons; results are the same to the bit.

            - "direct": blocks of as many frames as memory and cache allow, and of them the atoms of the analysis.
            - "frame": one frame at a time with all of its atoms, of which those of the analysis are picked.
            - "subset": one frame at a time, of which those atoms are read where the format allows.
            - "in-memory": each worker reads all frames of its piece with all of their atoms before it computes the
              first; work is then handed out static, one piece a worker, unless the runner was told otherwise.
              MemoryLimitError before anything is read where that does not fit into `memory`.
            - "hdf5-mpio-independent", "hdf5-mpio-collective": HDF5 files through libhdf5 and MPI-IO, with runner "mpi".
        **options
            Of a runner that is chosen by name: `threads_per_worker`, `schedule`, `oversubscribe`, `gather`, `results`
            (`kinema.runners.RunnerOptions`).

        Raises
        ------
        ArgumentError, OutOfRangeError, CorruptFileError (also for coordinates that are not numbers),
        TruncatedFileError, MemoryLimitError; with processes also WorkerError. ArgumentError for a checkpoint of
        another run, saying what differs; CorruptFileError for a damaged one.
        """
        from kinema.analysis.run import run

        run(
            [self],
            start=start,
            stop=stop,
            step=step,
            frames=frames,
            verbose=verbose,
            workers=workers,
            runner=runner,
            memory=memory,
            progress=progress,
            checkpoint=checkpoint,
            checkpoint_interval=checkpoint_interval,
            out=out,
            access=access,
            **options,
        )
        return self

    @abstractmethod
    def _rounds(self, frames: ResolvedFrames) -> Rounds:
        """Yields each round, is sent what it found, returns the results. `frames` are those of the run."""

    @abstractmethod
    def _table(self) -> Table:
        """The results as columns."""

    def _per_frame(self, frames: ResolvedFrames) -> Quantity | None:
        """How results that are one row a frame are called in a file; None where they are not.

        The analysis has one round then, which finds "values" (frames, ...) and "time" (frames,).
        """
        return None

    def _quantity(self, name: str, unit: str, columns: Sequence[str], title: str, frames: ResolvedFrames) -> Quantity:
        """A quantity with the provenance of this analysis."""
        return Quantity(name, unit, tuple(columns), title, self._provenance(None, frames).json())

    def _frames_and_times(self) -> tuple[Column, Column]:
        """The first columns of a table whose rows are frames."""
        return Column("frame", np.asarray(self.results.frames)), Column("time", np.asarray(self.results.time), "ps")

    def table(self) -> Table:
        """The results as named columns with units; ArgumentError before `run`."""
        if not self.results:
            raise ArgumentError(f"{type(self).__name__} has no results yet; call run() first")
        return self._table()

    def save(self, path: str | os.PathLike[str], *, command: str | None = None) -> None:
        """Writes the results; the suffix decides: .csv, .xvg, .dat, .npy, .parquet (see `kinema.output`).

        `command` is what the provenance tells as the call, by default the Python call.
        """
        check_writable(path)
        write_table(path, self.table(), self.provenance(command))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """A matplotlib figure of the results, written to `path` (.png, .pdf, .svg) where one is given."""
        from kinema.analysis.plotting import draw

        if path is not None:
            check_plot_path(path)
        figure = draw(self.table())
        if path is not None:
            suffix = os.path.splitext(os.fspath(path))[1][1:]
            write_whole(path, lambda file: figure.savefig(file, format=suffix, dpi=150))
        return figure

    def report(self) -> Report:
        """Where the time of the last run went: every second, stragglers, advice; to print, save and plot.

        Raises ArgumentError before `run`, and on ranks that were told no results.
        """
        from kinema.profile import report_of

        return report_of([self])

    def provenance(self, command: str | None = None) -> Provenance:
        """What made the results: version, call, files with fingerprints, selection, frames, date."""
        return self._provenance(command, self._frames)

    def _provenance(self, command: str | None, frames: ResolvedFrames | None) -> Provenance:
        command = command or self.command
        inputs = [Input(part.path, part.size, part.fingerprint) for part in self.trajectory.parts]
        if self.trajectory.topology_name is not None:
            inputs.append(Input(self.trajectory.topology_name))
        arguments = ", ".join(f"{name}={value}" for name, value in self._arguments.items())
        return Provenance(
            version=_core.__version__,
            call=command or f"kinema.analysis.{type(self).__name__}({arguments})",
            inputs=tuple(inputs),
            selection=f"{self.selection.description} ({self.selection.n_atoms} atoms)",
            frames="" if frames is None else _described(frames),
            parameters={} if command is None else {name: str(value) for name, value in self._arguments.items()},
        )


def _described(frames: ResolvedFrames) -> str:
    if isinstance(frames, tuple):
        start, step, length = frames
        return f"{length} from {start}, every {step}" if step != 1 else f"{length} from {start}"
    some = ", ".join(str(number) for number in frames[:5])
    return f"{count(frames)} chosen: {some}{', ...' if len(frames) > 5 else ''}"
