"""`kinema info`: what is in a file. All of it comes from `kinema.open`."""

import dataclasses
import json
from typing import Any

import typer

from kinema.cli import options
from kinema.cli.command_line import Command


def info(
    context: typer.Context,
    files: options.Files,
    overlap: options.OverlapOption = options.Overlap.last,
    on_truncated: options.OnTruncatedOption = options.OnTruncated.error,
    workers: options.Workers = None,
) -> None:
    """Format, atoms, frames, times and parts of a trajectory; several files are its parts."""
    import kinema as kn

    command: Command = context.obj
    traj = kn.open([str(file) for file in files], overlap=overlap.value, on_truncated=on_truncated.value)
    traj.scan(workers=workers, progress=False if command.quiet else None)
    if command.json:
        print(json.dumps(_facts(traj)))
    elif not command.quiet:
        print("\n".join(_lines(traj)))


def _facts(traj: Any) -> dict[str, Any]:
    return {
        "format": traj.format,
        "n_atoms": traj.n_atoms,
        "n_frames": traj.n_frames,
        "dt": traj.dt,
        "fields": list(traj.fields),
        "units": dict(traj.units),
        "parts": [dataclasses.asdict(part) for part in traj.parts],
        "gaps": [dataclasses.asdict(gap) for gap in traj.gaps],
    }


def _lines(traj: Any) -> list[str]:
    step = "" if traj.dt is None else f", {traj.dt:g} ps apart"
    lines = [f"{traj.n_frames:,} frames of {traj.n_atoms:,} atoms{step}", f"fields: {', '.join(traj.fields)}"]
    for part in traj.parts:
        start, stop = part.kept
        lines += [
            "",
            part.path,
            f"  format   {part.format}, {part.variant}",
            f"  size     {part.size:,} bytes",
        ]
        kept = "" if stop - start == part.file_frames else f", {stop - start:,} of them used"
        lines.append(f"  frames   {part.file_frames:,}{kept}")
        if part.first_time is not None and part.last_time is not None:
            lines.append(f"  times    {part.first_time:g} to {part.last_time:g} ps")
        if part.first_step is not None and part.last_step is not None:
            lines.append(f"  steps    {part.first_step} to {part.last_step}")
        lines.append(f"  index    {part.index}" + (f", {part.index_path}" if part.index_path else ""))
        lines += [f"  title    {remark}" for remark in part.remarks]
        notes = [*part.warnings, part.index_note, part.truncation]
        lines += [f"  note     {note}" for note in notes if note]
    for gap in traj.gaps:
        lines += ["", str(gap)]
    return lines
