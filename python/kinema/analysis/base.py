"""`Analysis`, the base class of all analyses: running, saving, plotting, provenance.

How passes are carried out, and how several analyses share one, is in `kinema.execution.run`. What a method needs is
imported when it is called.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError, missing_package
from kinema.base.notes import collected, emit
from kinema.base.printable import are_float32
from kinema.execution.computation import Computation, KernelResults, Pass, Passes, Results
from kinema.storage.output_checks import check_not_input, check_plot_path
from kinema.storage.provenance import Input, Provenance
from kinema.storage.tables import Column, Table, check_writable, write_table
from kinema.trajectory.transform import transforms_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kinema.base.progress import ProgressChoice
    from kinema.execution.checkpoint import CheckpointChoice
    from kinema.execution.results_file import ResultDataset
    from kinema.model.selection.frames import FrameChoice, FrameSelection
    from kinema.report import Report
    from kinema.runners import Runner, RunnerOptions
    from kinema.trajectory.following import FollowOptions

__all__ = ["Analysis", "KernelResults", "Pass", "Passes", "Results", "results_per_frame"]


def results_per_frame(frames: FrameSelection, kernel_results: KernelResults) -> Results:
    """Results that are one row a frame: frames, time, values.

    Arrays in memory; or, if `kernel_results` has the numbers of frames already, arrays that stay in a file or on ranks.
    """
    values, time = kernel_results["values"], kernel_results["time"]
    numbers = kernel_results["frames"] if "frames" in kernel_results else frames.numbers().astype(np.int64)
    return Results(frames=numbers, time=time, values=values)


class Analysis(Computation):
    """An analysis of a trajectory. Subclasses give `_passes` and `_table`.

    Attributes
    ----------
    trajectory : Trajectory
    selection : Selection
    results : Results
        Empty before `run`.
    timings : Timings
        Where the time of the last run went.
    plan : str
        The plans of the last run in words.
    record : RunRecord or None
        The last run, as `report` has it.
    command : str or None
        What provenance gives as the call where it was not made from Python.
    """

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
        overwrite: bool = False,
        access: str = "direct",
        skip_damaged: bool = False,
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
            `results` then reads from it (`kinema.execution.results_file`).
        overwrite : bool
            Replace a file that Kinema did not write with `out`; its own files of results are replaced in any case.
        access : str
            How frames are read, for comparisons; results are the same to the bit.

            - "direct": blocks of as many frames as memory and cache allow, and of them the atoms of the analysis.
            - "frame": one frame at a time with all of its atoms, of which those of the analysis are picked.
            - "subset": one frame at a time, of which those atoms are read where the format allows.
            - "in-memory": each worker reads all frames of its piece with all of their atoms before it computes the
              first; the schedule is then "static", one piece a worker, unless the runner has other options.
              MemoryLimitError before anything is read where that does not fit into `memory`.
            - "hdf5-mpio-independent", "hdf5-mpio-collective": HDF5 files through libhdf5 and MPI-IO, with runner "mpi".
        skip_damaged : bool
            Frames that cannot be decoded are left out, with a note, rather than an error: a pass before the first
            decodes all frames of the run that are not known from an earlier one. `results.frames` says which are
            there. Bytes of an XTC file without a frame header count as one frame. Frames whose coordinates are not
            finite stay, with a note.
        **options
            Of a runner that is chosen by name: `threads_per_worker`, `schedule`, `oversubscribe`, `gather`, `results`
            (`kinema.runners.RunnerOptions`).

        Raises
        ------
        ArgumentError, OutOfRangeError, CorruptFileError (also for coordinates that are not numbers),
        TruncatedFileError, MemoryLimitError; with processes also WorkerError. ArgumentError for a checkpoint of
        another run, saying what differs; CorruptFileError for a damaged one.
        """
        from kinema.execution.run import run

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
            overwrite=overwrite,
            access=access,
            skip_damaged=skip_damaged,
            **options,
        )
        return self

    def follow(
        self,
        until: int | str | None = None,
        timeout: float | None = None,
        *,
        callback: Callable[[Self], object] | None = None,
        start: int | None = None,
        stop: int | None = None,
        step: int | None = None,
        **options: Unpack[FollowOptions],
    ) -> Self:
        """Runs the analysis over frames as they are written, and returns it when that has ended.

        The results are those of `run` over the same frames, to the bit. Threads compute. Results that are not one row
        a frame are computed anew whenever there are a quarter more frames, and at the end.

        Parameters
        ----------
        until, timeout, **options
            As of `Trajectory.follow`, without `over` and `fields`: where it ends, how files are looked at, memory.
        callback : function of the analysis, optional
            Called when frames have come, with the results so far: to show them, to choose what is simulated next. It
            ends the run by returning what is true.
        start, stop, step : int, optional
            Frames as in a slice, counted from the first.

        Raises
        ------
        ArgumentError (also for an analysis of several passes), and as `Trajectory.follow` and `run`.
        """
        from kinema.execution.following import follow, frames_by_number

        follow(
            [self],
            until,
            timeout,
            callback=None if callback is None else lambda: callback(self),
            choose=None if (start, stop, step) == (None, None, None) else frames_by_number(start, stop, step),
            options=options,
        )
        return self

    @abstractmethod
    def _table(self) -> Table:
        """The results as columns."""

    def _dataset(
        self, name: str, unit: str, columns: Sequence[str], title: str, frames: FrameSelection
    ) -> ResultDataset:
        """A data set for results per frame, with the provenance of this analysis."""
        from kinema.execution.results_file import ResultDataset

        return ResultDataset(name, unit, tuple(columns), title, self._provenance(None, frames).json())

    def _frames_and_times(self) -> tuple[Column, Column]:
        """The first columns of a table whose rows are frames."""
        time = np.asarray(self.results.time)
        return Column("frame", np.asarray(self.results.frames)), Column("time", time, "ps", are_float32(time))

    @property
    def _digits(self) -> int:
        """Significant digits of a quantity of positions as text: 7 if they are stored as float32, else all (0)."""
        return 0 if "positions" in self.trajectory.wide_fields else 7

    def table(self) -> Table:
        """The results as named columns with units, atoms counted from 0; ArgumentError before `run`.

        `table().from_one()` counts them from 1, as what `save` and `plot` write.
        """
        if not self.results:
            raise ArgumentError(f"{type(self).__name__} has no results yet; call run() first")
        return self._table()

    def _dataframe(self) -> Any:
        """See `Results.to_dataframe`."""
        try:
            import pandas
        except ImportError as error:
            raise missing_package("results.to_dataframe()", "pandas", "pandas", error) from None
        table = self.table()
        frame = pandas.DataFrame({column.name: column.values for column in table.columns})
        frame.attrs["units"] = {column.name: column.unit for column in table.columns if column.unit}
        return frame

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        command: str | None = None,
        output_unit: str = "angstrom",
        output_time_unit: str = "ps",
        overwrite: bool = False,
    ) -> None:
        """Writes the results; the suffix decides: .csv, .xvg, .dat, .npy, .parquet (see `kinema.storage.tables`).

        Atoms are counted from 1, but in .npy from 0, as in `results`.

        Parameters
        ----------
        path : path
            "-", "/dev/stdout" and FIFOs are written into.
        format : {"csv", "xvg", "dat"}, optional
            Instead of what the suffix says; "csv" where a stream has none.
        command : str, optional
            The call as the provenance gives it, by default the Python call.
        output_unit : {"angstrom", "nm"}
            Of lengths.
        output_time_unit : {"ps", "ns"}
        overwrite : bool
            Replace a file that Kinema did not write; its own tables are replaced in any case.
        """
        check_not_input(path, *self.trajectory.paths, *self.other_files)
        check_writable(path, format, overwrite=overwrite)
        table = self.table().change_units(output_unit, output_time_unit)
        write_table(path, table, self.provenance(command), format=format, overwrite=overwrite)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        output_unit: str = "angstrom",
        output_time_unit: str = "ps",
        overwrite: bool = False,
    ) -> Figure:
        """A matplotlib figure of the results, written to `path` (.png, .pdf, .svg) where one is given.

        Units and `overwrite` are those of `save`.
        """
        if path is not None:
            check_not_input(path, *self.trajectory.paths, *self.other_files)
            check_plot_path(path, overwrite=overwrite)
        figure = self._figure(self.table().from_one().change_units(output_unit, output_time_unit))
        if path is not None:
            from kinema.report.plotting import write

            write(figure, path, self.provenance().lines())
        return figure

    def _figure(self, table: Table) -> Figure:
        """The picture of the results, given as a table in the units of the picture."""
        from kinema.analysis.plotting import draw

        return draw(table)

    def report(self, *, extra: Mapping[str, Any] | None = None) -> Report:
        """Where the time of the last run went: every second, stragglers, advice; to print, save and plot.

        Analyses that ran together have one report; `extra` as in `kinema.report.Report`. ArgumentError before `run`,
        and on ranks that have no results.
        """
        from kinema.report import report_of

        if self.record is None:
            raise ArgumentError(f"{type(self).__name__} has no timings yet; call run() first, on the rank that leads")
        return report_of(self.record, extra=extra)

    def provenance(self, command: str | None = None) -> Provenance:
        """What made the results: version, call, files with fingerprints, selection, frames, date."""
        if self.record is None:
            return self._provenance(command, None)
        return replace(self._provenance(command, self.record.frames), date=self.record.date)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user of the results should know: of the trajectory, of this analysis' arguments, of its last run.

        Each is also a warning of class `kinema.Note`.
        """
        of_run = () if self.record is None else self.record.notes
        return tuple(dict.fromkeys((*self.trajectory.notes, *self._notes, *of_run)))

    def _add_notes(self, notes: Sequence[str]) -> None:
        """Adds notes to those of this analysis and emits them."""
        new = [note for note in dict.fromkeys(notes) if note not in self._notes]
        self._notes += new
        emit(new)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Within the block notes are those of this analysis, and are emitted behind it."""
        with collected() as notes:
            yield
        self._add_notes(notes)

    def _provenance(self, command: str | None, frames: FrameSelection | None) -> Provenance:
        command = command or self.command
        inputs = [Input(part.path, part.size, part.fingerprint) for part in self.trajectory.parts]
        inputs += [Input.from_path(name) for name in self.other_files if name not in self.trajectory.paths]
        arguments = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return Provenance(
            version=_core.__version__,
            call=command or f"kinema.analysis.{type(self).__name__}({arguments})",
            inputs=tuple(inputs),
            selection=f"{self.selection.description} ({self.selection.n_atoms} atoms)",
            frames="" if frames is None else str(frames),
            parameters={f"stated {name}": value for name, value in self.trajectory.stated.items()}
            | transforms_in_words(self.trajectory)
            | ({} if command is None else {name: str(value) for name, value in self.arguments.items()}),
            notes=self.notes,
        )
