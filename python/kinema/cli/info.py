"""`kinema info`: what is in a file. All of it comes from `kinema.open`, and of H5MD files from `kinema.layout`."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import typer

from kinema.cli import options
from kinema.cli.command_line import Command


def info(
    context: typer.Context,
    files: options.Files,
    topology: options.Topology = None,
    select: options.Select = None,
    group: options.ParticlesGroup = None,
    overlap: options.OverlapOption = options.Overlap.last,
    on_truncated: options.OnTruncatedOption = options.OnTruncated.error,
    workers: options.Workers = None,
) -> None:
    """Format, atoms, frames, times and parts of a trajectory; several files are its parts.

    Of H5MD files also groups, units, chunks, filters, and what their layout costs; --select says which atoms to count
    that for.
    """
    import kinema as kn
    from kinema.errors import ArgumentError

    command: Command = context.obj
    found = [file for file in files if _is_h5md(file)]
    traj = None
    if group is not None or not _has_several_groups(found):
        traj = kn.open(
            [str(file) for file in files],
            None if topology is None else str(topology),
            overlap=overlap.value,
            on_truncated=on_truncated.value,
            group=group,
        )
        traj.scan(workers=workers, progress=False if command.quiet else None)
    if select is not None and (traj is None or not found):
        raise ArgumentError("--select is for one group of an H5MD file; name it with --group")
    atoms = None if select is None or traj is None else traj.select(select).indices
    layouts = [_layout(file, atoms, group) for file in found]
    if command.json:
        facts = {} if traj is None else _facts(traj)
        print(json.dumps(facts | ({"layouts": [layout.as_dict() for layout in layouts]} if layouts else {})))
    elif not command.quiet:
        lines = [] if traj is None else _lines(traj)
        for layout in layouts:
            lines += ["", *_layout_lines(layout, with_notes=traj is None)]
        print("\n".join(lines).lstrip("\n"))


def _is_h5md(file: Path) -> bool:
    """Whether it is HDF5 with the structure of H5MD; what is wrong with a file is said by `kinema.open`."""
    from kinema.errors import Error
    from kinema.files import is_hdf5
    from kinema.h5md import groups_of

    try:
        return is_hdf5(file) and bool(groups_of(file))
    except Error:
        return False


def _has_several_groups(found: list[Path]) -> bool:
    from kinema.h5md import groups_of

    return any(sum(bool(one.fields) for one in groups_of(file)) > 1 for file in found)


def _layout(file: Path, atoms: Any, group: str | None) -> Any:
    import kinema as kn

    return kn.layout_of(file, atoms=atoms, group=group)


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


def _layout_lines(layout: Any, *, with_notes: bool) -> list[str]:
    origin = ", ".join(filter(None, (layout.creator and f"written by {layout.creator}", layout.author)))
    lines = [f"layout of {layout.path}" + (f" ({origin})" if origin else "")]
    for group in layout.groups:
        lines.append(f"  {group.name}: {group.n_atoms:,} atoms, {group.n_frames:,} frames")
        if group.problem:
            lines.append(f"    note   {group.problem}")
        for field in group.fields:
            lines += _field_lines(field, layout.subset)
        if with_notes:
            lines += [f"    note   {warning}" for warning in group.warnings]
    if layout.observables:
        lines.append(f"  observables: {', '.join(layout.observables)}")
    return [*lines, *(f"  advice   {advice}" for advice in layout.advice)]


def _field_lines(field: Any, subset: str) -> list[str]:
    shape = "x".join(map(str, field.shape))
    lines = [f"    {field.name}: {shape} {field.dtype}, {field.unit or 'no unit'}"]
    if field.chunks is not None:
        chunks = "x".join(map(str, field.chunks))
        at = f"at multiples of {field.alignment:,} bytes" if field.alignment >= 512 else "not aligned"
        lines.append(f"      {field.n_chunks:,} chunks of {chunks} ({field.chunk_bytes:,} bytes), {at}")
    elif not field.through_library:
        lines.append(
            "      no chunks" if not field.n_chunks else f"      {field.n_chunks:,} chunks in several data sets"
        )
    how = " + ".join(field.filters) or "not compressed"
    if field.raw_bytes:
        lines.append(
            f"      {how}, {field.stored_bytes:,} bytes, {field.stored_bytes / field.raw_bytes:.2f} of the numbers'"
        )
    if field.amplification:
        told = ", ".join(
            f"{pattern.replace('some atoms', subset + ' of the atoms')} {ratio:,.1f}"
            for pattern, ratio in field.amplification.items()
        )
        lines.append(f"      bytes touched / wanted: {told}")
    return lines
