"""The common part of `kinema rmsd`, `rmsf` and `rgyr`: open, choose frames, run, save, plot, print a summary.

The commands make the analysis object.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from kinema.analysis.growing_outputs import GrowingOutputs
from kinema.cli.analysis_options import FollowedFiles, FrameOptions, Inputs, Opening, Outputs, Workers
from kinema.cli.command_line import Command
from kinema.cli.stopping import Terminated
from kinema.errors import ArgumentError
from kinema.execution.following import follow, frames_by_number, frames_in_time
from kinema.execution.results_file import ResultArray
from kinema.following import when_there
from kinema.notes import emit
from kinema.printable import counted, printable
from kinema.resources import peak_memory
from kinema.selection.broken import find_broken
from kinema.selection.time_range import frames_between
from kinema.writing.tables import PER_UNIT

# coordinates are stored with three decimals of a nm, or better
_DECIMALS = {"angstrom": 4, "nm": 5}


@dataclass(frozen=True)
class Summarised:
    """What the summary is about: name of the values, which are lengths, and their column where they have several."""

    name: str
    column: int | None = None

    def statistics(self, analysis: Any, unit: str) -> dict[str, float]:
        """Mean, least and largest value in a unit; of values in a file some are in memory at a time."""
        values = analysis.results.values
        mean, least, largest = 0.0, np.inf, -np.inf
        for chunk in values.chunks() if isinstance(values, ResultArray) else [values]:
            column = chunk if self.column is None else chunk[:, self.column]
            mean += float(np.mean(column)) * (len(column) / len(values))
            least, largest = min(least, float(np.min(column))), max(largest, float(np.max(column)))
        per_unit = PER_UNIT.get(("angstrom", unit), 1.0)
        return {"mean": mean / per_unit, "min": least / per_unit, "max": largest / per_unit}


def open_inputs(
    command: Command,
    inputs: Inputs,
    opening: Opening,
    outputs: Outputs,
    workers: Workers,
    following: FollowedFiles,
    reference: Path | None = None,
) -> tuple[kn.Trajectory, kn.Selection]:
    """The trajectory and its atoms; outputs that cannot be written are refused before anything is read.

    Files that are to be followed are waited for.
    """

    def opened() -> kn.Trajectory:
        topology = None if inputs.topology is None else str(inputs.topology)
        return kn.open([str(path) for path in inputs.paths], topology, **opening.arguments)

    following.check(outputs, workers, opening)
    with outputs.checkpoint_noted():
        outputs.check([*inputs.paths, inputs.topology, inputs.index_file, reference])
        if following.follow:
            trajectory = when_there(opened, following.follow_timeout, command.print_progress)
        else:
            trajectory = opened()
        if inputs.topology is not None:
            _ = trajectory.topology  # its number of atoms is checked, whether or not a name is asked for

        def scan() -> None:
            progress = False if command.quiet else None
            find = workers.chosen(command).find_frames
            trajectory.scan(workers=workers.workers, progress=progress, search=find, skip_damaged=opening.skip_damaged)

        return inputs.transformed(trajectory, scan), inputs.chosen(trajectory)


def run(
    command: Command,
    trajectory: kn.Trajectory,
    analysis: Any,
    quantity: Summarised,
    opening: Opening,
    window: FrameOptions,
    outputs: Outputs,
    workers: Workers,
    following: FollowedFiles,
) -> None:
    """Runs the analysis on the frames of the window, writes what is to be written and prints the summary."""
    if following.follow:
        analysis.command = command.typed
        _follow(analysis, window, outputs, workers, following)
        _print_summary(command, trajectory, analysis, quantity, outputs)
        return
    progress = False if command.quiet else None
    runner = workers.chosen(command)
    with outputs.checkpoint_noted():
        trajectory.scan(
            workers=workers.workers, progress=progress, search=runner.find_frames, skip_damaged=opening.skip_damaged
        )
        analysis.command = command.typed
        broken = find_broken(trajectory, analysis.selection)
        if broken is not None:
            emit([f"{trajectory.paths[0]}: {broken}"])
        kept = outputs.kept
        analysis.run(
            **chosen_frames(trajectory, window),
            workers=workers.workers,
            runner=runner,
            memory=workers.memory,
            progress=progress,
            checkpoint=kept,
            out=outputs.rows,
            access=workers.access,
            skip_damaged=opening.skip_damaged,
        )
        if outputs.output is not None and outputs.rows is None:
            analysis.save(outputs.output, format=outputs.output_format, **outputs.units)
        if outputs.plot is not None:
            analysis.plot(outputs.plot, **outputs.units)
        if outputs.report is not None:
            analysis.report().save(outputs.report)
        if kept is not None:
            kept.remove()
    _print_summary(command, trajectory, analysis, quantity, outputs)


def _follow(analysis: Any, window: FrameOptions, outputs: Outputs, workers: Workers, following: FollowedFiles) -> None:
    """Runs the analysis on frames as they come; what is written of it grows."""
    choose = None
    if _is_by_time(window):
        choose = frames_in_time(lambda trajectory: frames_between(trajectory, window.begin, window.end, window.dt))
    elif (window.start, window.stop, window.step) != (None, None, None):
        choose = frames_by_number(window.start, window.stop, window.step)
    growing = GrowingOutputs(outputs.output, outputs.plot, format=outputs.output_format, **outputs.units)
    try:
        follow(
            [analysis],
            following.until,
            following.follow_timeout,
            callback=lambda: growing.update(analysis),
            choose=choose,
            options={"workers": workers.workers, "memory": workers.memory, "on_rewind": following.on_rewind},
        )
    except (KeyboardInterrupt, Terminated) as stop:
        # which is how one without an end is ended
        if analysis.results and outputs.written:
            names = ", ".join("stdout" if name == "-" else name for name in outputs.written)
            stop.add_note(f"written, of {counted(analysis.timings.frames, 'frame')}: {names}")
        raise
    finally:
        if analysis.results:
            growing.update(analysis, last=True)
        growing.close()


def _print_summary(
    command: Command, trajectory: kn.Trajectory, analysis: Any, quantity: Summarised, outputs: Outputs
) -> None:
    command.print_result(
        lambda: _facts(command, trajectory, analysis, quantity, outputs),
        lambda: "\n".join(map(printable, _lines(trajectory, analysis, quantity, outputs))),
        on_stderr=outputs.use_stdout,
    )


def _is_by_time(window: FrameOptions) -> bool:
    """Whether frames are chosen by time; ArgumentError where they are by number as well."""
    by_time = any(value is not None for value in (window.begin, window.end, window.dt))
    by_number = any(value is not None for value in (window.start, window.stop, window.step))
    if by_time and by_number:
        raise ArgumentError("-b, -e and --dt choose frames by time, --start, --stop and --step by number; use one")
    return by_time


def chosen_frames(trajectory: kn.Trajectory, window: FrameOptions) -> dict[str, Any]:
    """The arguments of `run` that choose frames."""
    if _is_by_time(window):
        return {"frames": frames_between(trajectory, window.begin, window.end, window.dt)}
    return {"start": window.start, "stop": window.stop, "step": window.step}


def _facts(
    command: Command, trajectory: kn.Trajectory, analysis: Any, quantity: Summarised, outputs: Outputs
) -> dict[str, Any]:
    """The summary that --json prints."""
    timings = analysis.timings
    return {
        "command": command.typed,
        "version": kn.__version__,
        "files": list(trajectory.paths),
        "format": trajectory.format,
        "n_atoms": trajectory.n_atoms,
        "n_frames": trajectory.n_frames,
        "frames_used": timings.frames,
        "quantity": quantity.name,
        "unit": outputs.output_unit,
        **quantity.statistics(analysis, outputs.output_unit),
        "workers": timings.n_workers,
        "access": timings.access,
        "frames_restored": timings.frames_restored,
        "seconds": timings.wall,
        "cpu_seconds": timings.cpu,
        "frames_per_second": timings.frames_per_second,
        "bytes_read": timings.bytes_read,
        "reads": timings.reads,
        "peak_memory": peak_memory(),
        "outputs": outputs.written,
    }


def _lines(trajectory: kn.Trajectory, analysis: Any, quantity: Summarised, outputs: Outputs) -> list[str]:
    """The summary for a person: the values in one line, the speed in another, the files."""
    values, unit = quantity.statistics(analysis, outputs.output_unit), outputs.output_unit
    timings = analysis.timings
    # each frame is read in every round
    rounds = f", {len(timings.passes)} rounds" if len(timings.passes) > 1 else ""
    lines = [
        f"{quantity.name}: "
        + ", ".join(f"{name} {value:.{_DECIMALS[unit]}f}" for name, value in values.items())
        + f" {unit}",
        f"{counted(timings.frames, 'frame')} of {counted(trajectory.n_atoms, 'atom')} ({trajectory.format}){rounds} in "
        f"{timings.wall:.2f} s, {timings.frames_per_second:,.0f} frames/s on {counted(timings.n_workers, 'worker')}",
    ]
    if timings.frames_restored:
        lines.append(f"{timings.frames_restored:,} frames were done already: {outputs.checkpoint}")
    written = ", ".join("stdout" if name == "-" else name for name in outputs.written)
    return [*lines, f"written: {written}" if written else "values are written with -o FILE, a picture with --plot FILE"]
