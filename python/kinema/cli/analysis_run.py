"""What `kinema rmsd`, `rmsf` and `rgyr` have in common: open, choose frames, run, save, plot, tell.

It knows no quantity; the commands make the analysis object.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinema as kn
from kinema.cli.command_line import Command
from kinema.cli.options import OnTruncated, Overlap, RunnerName
from kinema.errors import ArgumentError
from kinema.output import check_plot_path, check_writable
from kinema.peak_memory import peak_memory
from kinema.time_window import frames_between


@dataclass(frozen=True)
class Inputs:
    """Files, atoms and how to read."""

    trajectory: list[Path]
    topology: Path | None
    select: str | None
    index_file: Path | None
    group: str | None
    overlap: Overlap
    on_truncated: OnTruncated


@dataclass(frozen=True)
class Window:
    """Frames: by time in ps, or by number."""

    begin: float | None
    end: float | None
    every: float | None
    start: int | None
    stop: int | None
    step: int | None


@dataclass(frozen=True)
class Workers:
    """How many, with how much memory together, and what they are."""

    number: int | None
    memory: str | None
    runner: RunnerName


@dataclass(frozen=True)
class Outputs:
    """Where the values and the picture go."""

    values: Path | None
    plot: Path | None


@dataclass(frozen=True)
class Quantity:
    """What the summary calls the values."""

    name: str
    unit: str
    values: Callable[[Any], NDArray[Any]]


def open_inputs(inputs: Inputs, outputs: Outputs) -> tuple[kn.Trajectory, kn.Selection]:
    """The trajectory and its atoms; where outputs cannot be written, that is said before anything is read."""
    if outputs.values is not None:
        check_writable(outputs.values)
    if outputs.plot is not None:
        check_plot_path(outputs.plot)
    trajectory = kn.open(
        [str(path) for path in inputs.trajectory],
        None if inputs.topology is None else str(inputs.topology),
        overlap=inputs.overlap.value,
        on_truncated=inputs.on_truncated.value,
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
    trajectory.scan(workers=workers.number, progress=progress)
    notes = notes_on(trajectory)
    if not command.quiet:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    analysis.run(
        **_frames(trajectory, window),
        workers=workers.number,
        runner=workers.runner.value,
        memory=workers.memory,
        progress=progress,
    )
    if outputs.values is not None:
        analysis.save(outputs.values, command=command.typed)
    if outputs.plot is not None:
        analysis.plot(outputs.plot)
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
    by_time = any(value is not None for value in (window.begin, window.end, window.every))
    by_number = any(value is not None for value in (window.start, window.stop, window.step))
    if by_time and by_number:
        raise ArgumentError("-b, -e and --dt choose frames by time, --start, --stop and --step by number; use one")
    if by_time:
        return {"frames": frames_between(trajectory, window.begin, window.end, window.every)}
    return {"start": window.start, "stop": window.stop, "step": window.step}


def _statistics(values: NDArray[Any]) -> dict[str, float]:
    return {name: float(getattr(np, name)(values)) for name in ("mean", "min", "max")}


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
        **_statistics(quantity.values(analysis)),
        "workers": timings.n_workers,
        "seconds": timings.wall,
        "cpu_seconds": timings.cpu,
        "frames_per_second": timings.frames_per_second,
        "bytes_read": timings.bytes_read,
        "reads": timings.reads,
        "peak_memory": peak_memory(),
        "outputs": [str(path) for path in (outputs.values, outputs.plot) if path is not None],
    }


def _tell(trajectory: kn.Trajectory, analysis: Any, quantity: Quantity, outputs: Outputs) -> None:
    """What a person reads: the values in one line, the speed in another, the files."""
    found = _statistics(quantity.values(analysis))
    timings = analysis.timings
    print(f"{quantity.name}: mean {found['mean']:.4f}, min {found['min']:.4f}, max {found['max']:.4f} {quantity.unit}")
    print(
        f"{timings.frames:,} frames of {trajectory.n_atoms:,} atoms ({trajectory.format}) in {timings.wall:.2f} s, "
        f"{timings.frames_per_second:,.0f} frames/s on {timings.n_workers} workers"
    )
    written = [str(path) for path in (outputs.values, outputs.plot) if path is not None]
    print(
        f"written: {', '.join(written)}" if written else "values are written with -o FILE, a picture with --plot FILE"
    )
