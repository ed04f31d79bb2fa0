"""`Analysis`, the base class of all analyses: running, saving, plotting, provenance.

`kinema.execution.run` carries out the passes and lets several analyses share one. Methods import what they need when
they are called.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError, missing_package
from kinema.base.notes import collected, emit
from kinema.base.printable import are_float32
from kinema.execution.computation import Computation, KernelResults, Pass, Passes, Results
from kinema.storage.output_checks import check_not_input, check_plot_path
from kinema.storage.output_file import write_whole
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
    from kinema.statistics.summary import Summary
    from kinema.trajectory.following import FollowOptions

__all__ = ["Analysis", "KernelResults", "Pass", "Passes", "Results", "results_per_frame"]


def results_per_frame(frames: FrameSelection, kernel_results: KernelResults) -> Results:
    """Results of one row per frame: frames, time, values.

    The arrays are in memory; if `kernel_results` has the frame numbers already, they stay in a file or on ranks.
    """
    values, time = kernel_results["values"], kernel_results["time"]
    numbers = kernel_results["frames"] if "frames" in kernel_results else frames.numbers().astype(np.int64)
    return Results(frames=numbers, time=time, values=values)


def dataframe_of(table: Table, call: str) -> Any:
    """A table as a pandas DataFrame, with units in `attrs`. Raises MissingPackageError, naming the call."""
    try:
        import pandas
    except ImportError as error:
        raise missing_package(call, "pandas", "pandas", error) from None
    frame = pandas.DataFrame({column.name: column.values for column in table.columns})
    frame.attrs["units"] = {column.name: column.unit for column in table.columns if column.unit}
    return frame


class Analysis(Computation):
    """An analysis of a trajectory. Subclasses define `_passes` and `_table`.

    Attributes
    ----------
    trajectory : Trajectory
    selection : Selection
    results : Results
        Empty before `run`.
    timings : Timings
        Where the time of the last run went.
    plan : str
        The plans of the last run, in words.
    record : RunRecord or None
        The last run, which `report` describes.
    command : str or None
        The command line that provenance names as the call; None if Python made the call.
    other_formats : dict of str to str
        Suffixes of files other than tables that `save` writes, with what each holds in words.
    """

    other_formats: ClassVar[Mapping[str, str]] = {}

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
            Same as `progress`, as in MDAnalysis.
        workers : int, optional
            Number of workers; by default as many as this process may use. Results are the same to the bit for any
            number.
        runner : {"threads", "processes", "serial", "dask", "mpi"} or Runner, optional
            Kind of worker; results are the same to the bit on each.
        memory : int or str, optional
            Limit of working memory, "256 MiB". Rows of lists count as well: a run that gathers more of them raises
            MemoryLimitError, and `out` writes them to a file instead.
        progress : bool or function, optional
            By default a bar if stderr is a terminal, and with MPI, whose launchers pass stderr on, a line every ten
            seconds; a function is called with (done, total).
        checkpoint : path or Checkpoint, optional
            File to save progress to: every `checkpoint_interval` seconds, on SIGUSR1, and when SIGTERM, Ctrl-C or an
            error ends the run. The same call resumes from it, with the same bits, also on another runner or number of
            workers. The file is removed when the run is done.
        checkpoint_interval : float, optional
            Seconds, 30 by default.
        out : path, optional
            HDF5 file (.h5) to write results per frame to as they are computed, instead of holding them in memory;
            `results` then reads from it (`kinema.execution.results_file`).
        overwrite : bool
            Let `out` replace a file that Kinema did not write; its own results files are replaced in any case.
        access : str
            How frames are read, for comparisons; results are the same to the bit.

            - "direct": blocks of as many frames as memory and cache allow, and only the analysis's atoms.
            - "frame": one frame at a time with all of its atoms, from which the analysis's atoms are picked.
            - "subset": one frame at a time, with only the analysis's atoms if the format allows.
            - "in-memory": each worker reads all frames of its piece with all of their atoms before it computes the
              first; the schedule is then "static", one piece per worker, unless the runner has other options. Raises
              MemoryLimitError before anything is read if that does not fit into `memory`.
            - "hdf5-mpio-independent", "hdf5-mpio-collective": HDF5 files through libhdf5 and MPI-IO, with runner "mpi".
        skip_damaged : bool
            Leave out frames that cannot be decoded, with a note, instead of raising an error. An extra first pass
            decodes all frames of the run that are not known from an earlier one. `results.frames` lists the frames
            used. Bytes of an XTC file without a frame header count as one frame. Frames whose coordinates are not
            finite stay, with a note.
        **options
            Options of a runner that is chosen by name: `threads_per_worker`, `schedule`, `oversubscribe`, `gather`,
            `results` (`kinema.runners.RunnerOptions`).

        Raises
        ------
        ArgumentError, OutOfRangeError, CorruptFileError (also for coordinates that are not numbers),
        TruncatedFileError, MemoryLimitError; with processes also WorkerError. ArgumentError for another run's
        checkpoint, saying what differs; CorruptFileError for a damaged one.

        Examples
        --------
        >>> rmsd = kn.analysis.RMSD(traj, select="name CA").run(start=100, step=10, workers=2)
        >>> rmsd.results.frames
        array([100, 110, 120, 130, 140, 150, 160, 170, 180, 190])
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
        """Runs the analysis over frames as they are written, and returns it at the end.

        The results are the same as `run` gives for the same frames, to the bit. Threads compute. Results that are not
        one row per frame are recomputed whenever there are a quarter more frames, and at the end.

        Parameters
        ----------
        until, timeout, **options
            As in `Trajectory.follow`, without `over` and `fields`: when to stop, how to poll files, memory.
        callback : function of the analysis, optional
            Called with the results so far when frames have arrived: to show them, or to choose what to simulate next.
            A true return value ends the run.
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

    def _save_other(self, path: str, suffix: str) -> None:
        """Writes a file of `other_formats`, which appears whole."""
        import shutil
        import tempfile

        if not self.results:
            raise ArgumentError(f"{type(self).__name__} has no results yet; call run() first")
        with tempfile.TemporaryDirectory() as folder:
            whole = os.path.join(folder, f"whole{suffix}")
            self._write_other(whole, path)
            with open(whole, "rb") as source:
                write_whole(path, lambda file: shutil.copyfileobj(source, file))

    def _write_other(self, path: str, name: str) -> None:
        """Writes results to `path` in the format of its suffix, one of `other_formats`; messages call it `name`."""
        raise NotImplementedError(f"{type(self).__name__} has no formats of its own")

    @abstractmethod
    def _table(self) -> Table:
        """The results as columns."""

    def _dataset(
        self, name: str, unit: str, columns: Sequence[str], title: str, frames: FrameSelection
    ) -> ResultDataset:
        """A data set for results per frame, with this analysis's provenance."""
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
        """The results as named columns with units, atoms counted from 0. Raises ArgumentError before `run`.

        `table().from_one()` counts atoms from 1, as `save` and `plot` do.
        """
        if not self.results:
            raise ArgumentError(f"{type(self).__name__} has no results yet; call run() first")
        return self._table()

    def _dataframe(self) -> Any:
        return dataframe_of(self.table(), "results.to_dataframe()")

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
        """Writes the results; the suffix sets the format.

        Tables are .csv, .xvg, .dat, .npy and .parquet (`kinema.storage.tables`); `other_formats` has other files.

        Atoms count from 1; in .npy they count from 0, as in `results`.

        Parameters
        ----------
        path : path
            "-", "/dev/stdout" and FIFOs are streams: rows are written into them.
        format : {"csv", "xvg", "dat"}, optional
            Overrides the suffix; "csv" by default for a stream without one.
        command : str, optional
            The call that provenance names; by default the Python call.
        output_unit : {"angstrom", "nm"}
            Unit of lengths.
        output_time_unit : {"ps", "ns"}
        overwrite : bool
            Replace a file that Kinema did not write; its own tables are replaced in any case.

        Examples
        --------
        >>> rmsd = kn.analysis.RMSD(traj, select="name CA").run()
        >>> rmsd.save("rmsd.csv", output_unit="nm")
        """
        check_not_input(path, *self.trajectory.paths, *self.other_files)
        check_writable(path, format, overwrite=overwrite, more=tuple(self.other_formats))
        suffix = os.path.splitext(os.fspath(path))[1].lower()
        if format is None and suffix in self.other_formats:
            self._save_other(os.fspath(path), suffix)
            return
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
        """A matplotlib figure of the results, written to `path` (.png, .pdf, .svg) if one is given.

        Units and `overwrite` are the same as in `save`.
        """
        if path is not None:
            check_not_input(path, *self.trajectory.paths, *self.other_files)
            check_plot_path(path, overwrite=overwrite)
        figure = self._figure(self.table().from_one().change_units(output_unit, output_time_unit))
        if path is not None:
            from kinema.report.figures.style import write

            write(figure, path, self.provenance().lines())
        return figure

    def _figure(self, table: Table) -> Figure:
        """The picture of the results, given as a table in the units of the picture."""
        from kinema.analysis.plotting import draw

        return draw(table)

    def statistics(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        begin: float | None = None,
        end: float | None = None,
        equilibrated: bool = False,
        periodic: float | None = None,
        output_unit: str = "angstrom",
    ) -> Summary:
        """Mean, standard error, statistical inefficiency and start of equilibrium of each column of the results.

        Arguments and errors are those of `kinema.summarise`. Raises ArgumentError before `run`, and for results that
        are not one row for each frame.

        Examples
        --------
        >>> kn.analysis.RMSD(traj, select="name CA").run().statistics()["rmsd"].n_values
        196
        """
        from kinema.statistics.summary import summarise

        return summarise(
            self,
            columns,
            begin=begin,
            end=end,
            equilibrated=equilibrated,
            periodic=periodic,
            output_unit=output_unit,
        )

    def report(self, *, extra: Mapping[str, Any] | None = None) -> Report:
        """Where the time of the last run went: every second, stragglers, advice; to print, save and plot.

        Analyses that ran together share one report; `extra` is as in `kinema.report.Report`. Raises ArgumentError
        before `run`, and on ranks that have no results.
        """
        from kinema.report import report_of

        if self.record is None:
            raise ArgumentError(f"{type(self).__name__} has no timings yet; call run() first, on the rank that leads")
        return report_of(self.record, extra=extra)

    def provenance(self, command: str | None = None) -> Provenance:
        """The origin of the results: version, call, files with fingerprints, selection, frames, date."""
        if self.record is None:
            return self._provenance(command, None)
        return replace(self._provenance(command, self.record.frames), date=self.record.date)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for users of the results: on the trajectory, on this analysis's arguments, on its last run.

        Each is also a warning of class `kinema.Note`.
        """
        of_run = () if self.record is None else self.record.notes
        return tuple(dict.fromkeys((*self.trajectory.notes, *self._notes, *of_run)))

    def _add_notes(self, notes: Sequence[str]) -> None:
        """Adds notes to this analysis and emits the new ones."""
        new = [note for note in dict.fromkeys(notes) if note not in self._notes]
        self._notes += new
        emit(new)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Collects notes within the block, adds them to this analysis, and emits them after the block."""
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
