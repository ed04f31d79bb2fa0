"""What `kinema rmsd`, `rmsf` and `rgyr` have in common: open, choose frames, run, save, plot, tell.

It knows no quantity; the commands make the analysis object.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import kinema as kn
from kinema.cli.analysis_options import Inputs, Joining, Outputs, Window, Workers
from kinema.cli.command_line import Command
from kinema.errors import ArgumentError
from kinema.peak_memory import peak_memory
from kinema.result_file import StoredArray
from kinema.runners import CalledByAll
from kinema.runners.timings import counted
from kinema.time_window import frames_between


@dataclass(frozen=True)
class Quantity:
    """What the summary calls the values, and which column of them it is about, where they have columns."""

    name: str
    unit: str
    column: int | None = None

    def statistics(self, analysis: Any) -> dict[str, float]:
        """Mean, least and largest value; of values in a file some are in memory at a time."""
        values = analysis.results.values
        mean, least, largest = 0.0, np.inf, -np.inf
        for chunk in values.chunks() if isinstance(values, StoredArray) else [values]:
            found = chunk if self.column is None else chunk[:, self.column]
            mean += float(np.mean(found)) * (len(found) / len(values))
            least, largest = min(least, float(np.min(found))), max(largest, float(np.max(found)))
        return {"mean": mean, "min": least, "max": largest}


def open_inputs(inputs: Inputs, joining: Joining, outputs: Outputs) -> tuple[kn.Trajectory, kn.Selection]:
    """The trajectory and its atoms; where outputs cannot be written, that is said before anything is read."""
    outputs.check()
    trajectory = kn.open(
        [str(path) for path in inputs.trajectory],
        None if inputs.topology is None else str(inputs.topology),
        overlap=joining.overlap.value,
        on_truncated=joining.on_truncated.value,
    )
    if inputs.topology is not None:
        _ = trajectory.topology  # its number of atoms is checked, whether or not a name is asked for
    if inputs.group is not None and inputs.index_file is None:
        raise ArgumentError("--group names a group of an index file; give the file with -n")
    if inputs.index_file is None:
        return trajectory, trajectory.select(inputs.select)
    return trajectory, trajectory.select(inputs.select, index_file=str(inputs.index_file), group=inputs.group)


def run(
    command: Command,
    trajectory: kn.Trajectory,
    analysis: Any,
    quantity: Quantity,
    window: Window,
    outputs: Outputs,
    workers: Workers,
) -> None:
    """Runs the analysis on the frames of the window, writes what is to be written and tells the user."""
    progress = False if command.quiet else None
    runner = workers.chosen(command)
    search = runner.find_frames if isinstance(runner, CalledByAll) else None
    trajectory.scan(workers=workers.workers, progress=progress, search=search)
    notes = notes_on(trajectory)
    if not command.quiet:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    analysis.command = command.typed
    kept = outputs.kept
    analysis.run(
        **_frames(trajectory, window),
        workers=workers.workers,
        runner=runner,
        memory=workers.memory,
        progress=progress,
        checkpoint=kept,
        out=outputs.rows,
        access=workers.access.value,
    )
    if outputs.output is not None and outputs.rows is None:
        analysis.save(outputs.output)
    if outputs.plot is not None:
        analysis.plot(outputs.plot)
    if outputs.report is not None:
        analysis.report().save(outputs.report)
    if kept is not None:
        kept.remove()
    if command.json:
        summary = _summary(command, trajectory, analysis, quantity, outputs)
        print(json.dumps(summary | {"notes": notes}))
    elif not command.quiet:
        _tell(trajectory, analysis, quantity, outputs)


def notes_on(trajectory: kn.Trajectory) -> list[str]:
    """What a user of results should know of the files: gaps, frames that another part replaces, dropped frames."""
    notes = [part.truncation + " (left out)" for part in trajectory.parts if part.truncation]
    for part in trajectory.parts:
        replaced = part.file_frames - (part.kept[1] - part.kept[0])
        if replaced:
            notes.append(f"{part.path}: {replaced} of {part.file_frames} frames are those of a neighbouring part")
    return notes + [str(gap) for gap in trajectory.gaps]


def _frames(trajectory: kn.Trajectory, window: Window) -> dict[str, Any]:
    """The arguments of `run` that choose frames."""
    by_time = any(value is not None for value in (window.begin, window.end, window.dt))
    by_number = any(value is not None for value in (window.start, window.stop, window.step))
    if by_time and by_number:
        raise ArgumentError("-b, -e and --dt choose frames by time, --start, --stop and --step by number; use one")
    if by_time:
        return {"frames": frames_between(trajectory, window.begin, window.end, window.dt)}
    return {"start": window.start, "stop": window.stop, "step": window.step}


def _summary(
    command: Command, trajectory: kn.Trajectory, analysis: Any, quantity: Quantity, outputs: Outputs
) -> dict[str, Any]:
    """What --json prints."""
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
        "unit": quantity.unit,
        **quantity.statistics(analysis),
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


def _tell(trajectory: kn.Trajectory, analysis: Any, quantity: Quantity, outputs: Outputs) -> None:
    """What a person reads: the values in one line, the speed in another, the files."""
    found = quantity.statistics(analysis)
    timings = analysis.timings
    print(f"{quantity.name}: mean {found['mean']:.4f}, min {found['min']:.4f}, max {found['max']:.4f} {quantity.unit}")
    print(
        f"{timings.frames:,} frames of {trajectory.n_atoms:,} atoms ({trajectory.format}) in {timings.wall:.2f} s, "
        f"{timings.frames_per_second:,.0f} frames/s on {counted(timings.n_workers)}"
    )
    if timings.frames_restored:
        print(f"{timings.frames_restored:,} frames were done already: {outputs.checkpoint}")
    written = ", ".join(outputs.written)
    print(f"written: {written}" if written else "values are written with -o FILE, a picture with --plot FILE")
