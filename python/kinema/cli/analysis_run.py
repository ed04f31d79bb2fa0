"""Steps of every analysis command: open, choose frames, run, save, plot, print a summary.

`kinema.cli.commands.analyses` makes the analysis object.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from kinema.analysis.declared import DeclaredAnalysis
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.base.printable import counted, printable
from kinema.base.resources import peak_memory
from kinema.cli.command_line import Command
from kinema.cli.options.analyses import (
    FollowedFiles,
    FrameOptions,
    Opening,
    Outputs,
    Workers,
    remove_checkpoints_of_passes,
)
from kinema.cli.periodic.inputs import UnselectedInputs
from kinema.cli.stopping import Terminated
from kinema.storage.tables import NO_UNIT, PER_UNIT
from kinema.trajectory.time_range import frames_between, frames_listed

# coordinates are stored with three decimals of a nm, or better
_DECIMALS = {"angstrom": 4, "nm": 5}


def statistics(analysis: DeclaredAnalysis, output_unit: str) -> tuple[str, dict[str, float]]:
    """The unit, and mean, least and largest value in it; values in a file are read chunk by chunk.

    Periodic values such as dihedral angles have only a circular mean: least and largest depend on the cut. The
    dictionary is empty if the values are of different things (`DeclaredAnalysis.summarised_over`).
    """
    values, quantity = analysis.summarised
    own = quantity.unit
    unit = output_unit if own == "angstrom" else own
    if analysis.summarised_over is None:
        return unit, {}
    count, total, least, largest = 0, 0.0 + 0.0j, np.inf, -np.inf
    for chunk in [values] if isinstance(values, np.ndarray) else values.chunks():
        chosen = chunk if analysis.summarised_column is None else chunk[:, analysis.summarised_column]
        # NaN: angles of coincident atoms, already noted
        chosen = chosen[~np.isnan(chosen)]
        if chosen.size:
            # the mean of periodic values is the mean of their directions
            turns = np.exp(2j * np.pi / quantity.period * chosen) if quantity.period else chosen
            count, total = count + chosen.size, total + complex(np.sum(turns))
            least, largest = min(least, float(np.min(chosen))), max(largest, float(np.max(chosen)))
    if quantity.period:
        return unit, {"circular mean": float(np.angle(total)) / (2 * np.pi) * quantity.period if count else np.nan}
    mean = total.real / max(count, 1)
    if not count:
        mean = least = largest = np.nan
    per_unit = PER_UNIT.get((own, output_unit), 1.0)
    return unit, {"mean": mean / per_unit, "min": least / per_unit, "max": largest / per_unit}


def further_summary(analysis: DeclaredAnalysis, output_unit: str) -> dict[str, tuple[float, str]]:
    """Other numbers of the summary (`DeclaredAnalysis.further_summary`), with lengths in `output_unit`."""
    found = {}
    for name, (value, unit) in analysis.further_summary.items():
        shown = output_unit if unit == "angstrom" else unit
        found[name] = value / PER_UNIT.get((unit, shown), 1.0), shown
    return found


def error_of_mean(analysis: DeclaredAnalysis, output_unit: str) -> tuple[float, bool] | None:
    """The standard error of the mean of `statistics`, and whether it is on a plateau; else it is a lower bound.

    None if values are not of one quantity over frames, or if no mean has an error: with fewer than two frames.
    """
    values, quantity = analysis.summarised
    column = analysis.summarised_column
    if not analysis.is_per_frame or column is None or quantity.period or analysis.summarised_over is None:
        return None
    from kinema.statistics.estimators import block_error

    chunks = [values] if isinstance(values, np.ndarray) else values.chunks()
    series = np.concatenate([np.asarray(chunk[:, column], np.float64) for chunk in chunks])
    series = series[np.isfinite(series)]
    if len(series) < 2:
        return None
    found = block_error(series)
    return found.error / PER_UNIT.get((quantity.unit, output_unit), 1.0), found.has_plateau


def open_inputs(
    command: Command,
    inputs: UnselectedInputs,
    opening: Opening,
    outputs: Outputs,
    workers: Workers,
    following: FollowedFiles,
    window: FrameOptions,
    files: Sequence[Path | None] = (),
) -> tuple[kn.Trajectory, kn.Selection]:
    """The trajectory and its atoms. Refuses outputs that cannot be written before it reads anything.

    `files` are the analysis's other inputs. With --follow, waits until the files exist.
    """

    following.check(outputs, workers, opening)
    if following.follow:
        _check_followed(inputs, following)
    with outputs.checkpoint_noted():
        outputs.check([*inputs.paths, inputs.topology, inputs.index_file, *files])
        if following.follow:
            from kinema.trajectory.following import when_there

            trajectory = when_there(lambda: opened(inputs, opening), following.follow_timeout, command.print_progress)
            if inputs.fit is not None or inputs.bonds is not None:
                _wait_for_first_frame(trajectory, following)
        else:
            trajectory = opened(inputs, opening)
        trajectory = transformed(command, trajectory, inputs, opening, workers, window, outputs)
        return trajectory, inputs.of_analysis(trajectory)


def _check_followed(inputs: UnselectedInputs, following: FollowedFiles) -> None:
    """Raises ArgumentError for transforms that depend on frames that are not written yet, or may change."""
    words = [word.strip() for word in (inputs.pbc or "").split(",")]
    viewed_trajectory = {f"--pbc {word}": word in words for word in ("nojump", "displacement")}
    for option, given in {**viewed_trajectory, "--fit progressive": inputs.fit == "progressive"}.items():
        if given:
            raise ArgumentError(
                f"{option} is made by a pass over all frames, so it cannot follow frames that are still being written; "
                "run it when all are there"
            )
    for option, given in (("--fit", inputs.fit is not None), ("--bonds guess", inputs.bonds == "guess")):
        if given and following.on_rewind == "restart":
            raise ArgumentError(
                f"{option} is made of the first frame, which changes if the files are rewritten; leave out --on-rewind "
                "restart"
            )


def _wait_for_first_frame(trajectory: kn.Trajectory, following: FollowedFiles) -> None:
    """Waits for the first frame, which transforms need. Raises ArgumentError if none is written."""
    if not sum(1 for _ in trajectory.follow(1, following.follow_timeout)):
        raise ArgumentError(f"{trajectory.paths[0]}: no frame was written, and the transforms need the first one")


def opened(inputs: UnselectedInputs, opening: Opening) -> kn.Trajectory:
    """The trajectory, without transforms."""
    topology = None if inputs.topology is None else str(inputs.topology)
    trajectory = kn.open([str(path) for path in inputs.paths], topology, **opening.arguments)
    if topology is not None:
        _ = trajectory.topology  # its number of atoms is checked, whether or not a name is asked for
    return trajectory


def transformed(
    command: Command,
    trajectory: kn.Trajectory,
    inputs: UnselectedInputs,
    opening: Opening,
    workers: Workers,
    window: FrameOptions,
    outputs: Outputs,
) -> kn.Trajectory:
    """The trajectory with the transforms of the options; finds its frames first if a transform needs them."""

    def scan() -> None:
        progress = False if command.quiet else None
        find = workers.chosen(command).find_frames
        trajectory.scan(workers=workers.workers, progress=progress, search=find, skip_damaged=opening.skip_damaged)

    of_passes = {
        "runner": workers.chosen(command),
        "workers": workers.workers,
        "memory": workers.memory,
        "progress": False if command.quiet else None,
        "skip_damaged": opening.skip_damaged,
        "checkpoint": outputs.kept,
    }
    return inputs.transformed(trajectory, scan, lambda one: chosen_frames(one, window), of_passes)


def run(
    command: Command,
    trajectory: kn.Trajectory,
    analysis: DeclaredAnalysis,
    *,
    inputs: UnselectedInputs,
    opening: Opening,
    window: FrameOptions,
    outputs: Outputs,
    workers: Workers,
    following: FollowedFiles,
) -> None:
    """Runs the analysis on the frames of the window, writes the outputs and prints the summary."""
    if following.follow:
        analysis.command = command.typed
        _follow(analysis, window, outputs, workers, following)
        _print_summary(command, trajectory, analysis, outputs)
        return
    run_together(command, trajectory, [(analysis, outputs)], outputs, opening=opening, window=window, workers=workers)
    _print_summary(command, trajectory, analysis, outputs)


def run_together(
    command: Command,
    trajectory: kn.Trajectory,
    analyses: Sequence[tuple[DeclaredAnalysis, Outputs]],
    outputs: Outputs,
    *,
    opening: Opening,
    window: FrameOptions,
    workers: Workers,
) -> None:
    """Runs analyses in one pass and writes values and pictures of each; they share checkpoint, rows and report."""
    progress = False if command.quiet else None
    runner = workers.chosen(command)
    with outputs.checkpoint_noted():
        trajectory.scan(
            workers=workers.workers, progress=progress, search=runner.find_frames, skip_damaged=opening.skip_damaged
        )
        frames = chosen_frames(trajectory, window)
        for analysis, _ in analyses:
            analysis.command = command.typed
        kept = outputs.kept
        kn.run(
            [analysis for analysis, _ in analyses],
            **frames,
            workers=workers.workers,
            runner=runner,
            memory=workers.memory,
            progress=progress,
            checkpoint=kept,
            out=outputs.rows,
            access=workers.access,
            skip_damaged=opening.skip_damaged,
        )
        for analysis, own in analyses:
            if own.output is not None and own.rows is None:
                analysis.save(own.output, format=own.output_format, overwrite=own.force, **own.units)
            if own.plot is not None:
                analysis.plot(own.plot, overwrite=own.force, **own.units)
            own.save_more(analysis)
        if outputs.report is not None:
            analyses[0][0].report().save(outputs.report, overwrite=outputs.force)
        remove_checkpoints_of_passes(kept)
        if kept is not None:
            kept.remove()


def _follow(
    analysis: DeclaredAnalysis, window: FrameOptions, outputs: Outputs, workers: Workers, following: FollowedFiles
) -> None:
    """Runs the analysis on frames as they arrive; its outputs grow."""
    from kinema.analysis.growing_outputs import GrowingOutputs
    from kinema.execution.following import follow, frames_by_number, frames_in_time

    choose = None
    if window.frames is not None:
        raise ArgumentError("--frames lists existing frames, and --follow takes frames as they arrive; use one")
    if _is_by_time(window):
        choose = frames_in_time(lambda trajectory: frames_between(trajectory, window.begin, window.end, window.dt))
    elif (window.start, window.stop, window.step) != (None, None, None):
        choose = frames_by_number(window.start, window.stop, window.step)
    growing = GrowingOutputs(
        outputs.output, outputs.plot, format=outputs.output_format, overwrite=outputs.force, **outputs.units
    )
    looked_at = False

    def update() -> None:
        nonlocal looked_at
        if not looked_at:
            looked_at = True
            emit(analysis.notes_before(analysis.trajectory.choose(stop=1)))
        growing.update(analysis)

    try:
        follow(
            [analysis],
            following.until,
            following.follow_timeout,
            callback=update,
            choose=choose,
            options={"workers": workers.workers, "memory": workers.memory, "on_rewind": following.on_rewind},
        )
    except (KeyboardInterrupt, Terminated) as stop:
        # the usual end of a run without --until
        if analysis.results and outputs.written:
            names = ", ".join("stdout" if name == "-" else name for name in outputs.written)
            stop.add_note(f"written, from {counted(analysis.timings.frames, 'frame')}: {names}")
        raise
    finally:
        if analysis.results:
            growing.update(analysis, last=True)
            outputs.save_more(analysis)
        growing.close()


def _print_summary(command: Command, trajectory: kn.Trajectory, analysis: DeclaredAnalysis, outputs: Outputs) -> None:
    command.print_result(
        lambda: facts(command, trajectory, analysis, outputs),
        lambda: "\n".join(map(printable, lines_of(trajectory, analysis, outputs, outputs.checkpoint))),
        on_stderr=outputs.use_stdout,
    )


def _is_by_time(window: FrameOptions) -> bool:
    """Whether frames are chosen by time. Raises ArgumentError if they are also chosen by number."""
    by_time = any(value is not None for value in (window.begin, window.end, window.dt))
    by_number = any(value is not None for value in (window.start, window.stop, window.step))
    if window.frames is not None and (by_time or by_number):
        raise ArgumentError("--frames lists the frames, and others are chosen by time or by number as well; use one")
    if by_time and by_number:
        raise ArgumentError("-b, -e and --dt choose frames by time, --start, --stop and --step by number; use one")
    return by_time


def chosen_frames(trajectory: kn.Trajectory, window: FrameOptions) -> dict[str, Any]:
    """The arguments of `run` that choose frames."""
    by_time = _is_by_time(window)
    if window.frames is not None:
        return {"frames": frames_listed(trajectory, window.frames)}
    if by_time:
        return {"frames": frames_between(trajectory, window.begin, window.end, window.dt)}
    return {"start": window.start, "stop": window.stop, "step": window.step}


def facts(command: Command, trajectory: kn.Trajectory, analysis: DeclaredAnalysis, outputs: Outputs) -> dict[str, Any]:
    """The summary that --json prints."""
    timings = analysis.timings
    unit, values = statistics(analysis, outputs.output_unit)
    error = error_of_mean(analysis, outputs.output_unit)
    return {
        "command": command.typed,
        "version": kn.__version__,
        "files": list(trajectory.paths),
        "format": trajectory.format,
        "n_atoms": trajectory.n_atoms,
        "n_frames": trajectory.n_frames,
        "frames_used": timings.frames,
        "quantity": analysis.subject,
        "unit": unit,
        **{name.replace(" ", "_"): value for name, value in values.items()},
        **({} if error is None else {"error": error[0], "error_has_plateau": error[1]}),
        **({"over": analysis.summarised_over} if values else {}),
        **{
            name.replace(" ", "_"): value for name, (value, _) in further_summary(analysis, outputs.output_unit).items()
        },
        **({"rows": int(np.asarray(analysis.results.counts).sum())} if analysis.is_list else {}),
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


def lines_of(
    trajectory: kn.Trajectory, analysis: DeclaredAnalysis, outputs: Outputs, checkpoint: Path | None
) -> list[str]:
    """The summary for a person: the values in one line, the speed in another, the files."""
    unit, values = statistics(analysis, outputs.output_unit)
    timings = analysis.timings
    # each frame is read in every round
    rounds = f", {len(timings.passes)} rounds" if len(timings.passes) > 1 else ""
    shown = {name: f"{name} {value:.{_DECIMALS.get(unit, 4)}f}" for name, value in values.items()}
    error = error_of_mean(analysis, outputs.output_unit)
    if error is not None:
        # two digits of an error are known; without a plateau it is a lower bound
        shown["mean"] += f" +- {'' if error[1] else 'at least '}{error[0]:.2g}"
    found = ", ".join(shown.values())
    of_unit = "" if unit == NO_UNIT else f" {unit}"
    lines = [
        f"{analysis.subject}: {found}{of_unit} over {analysis.summarised_over}" if values else analysis.subject,
        f"{counted(timings.frames, 'frame')} of {counted(trajectory.n_atoms, 'atom')} ({trajectory.format}){rounds} in "
        f"{timings.wall:.2f} s, {timings.frames_per_second:,.0f} frames/s on {counted(timings.n_workers, 'worker')}",
    ]
    further = further_summary(analysis, outputs.output_unit)
    if further:
        words = {
            name: f"{value:.4g}{'' if unit == NO_UNIT else f' {unit}'}" if np.isfinite(value) else "none"
            for name, (value, unit) in further.items()
        }
        lines.insert(1, ", ".join(f"{name} {value}" for name, value in words.items()))
    if timings.frames_restored:
        lines.append(f"{timings.frames_restored:,} frames were done already: {checkpoint}")
    written = ", ".join("stdout" if name == "-" else name for name in outputs.written)
    return [*lines, f"written: {written}" if written else "values are written with -o FILE, a picture with --plot FILE"]
