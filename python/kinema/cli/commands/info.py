"""`kinema info`: the contents of files, from `kinema.open`, and for H5MD files from `kinema.layout_of`."""

import dataclasses
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

import kinema as kn
from kinema import _core
from kinema.base.errors import ArgumentError, Error
from kinema.base.input_files import is_hdf5
from kinema.base.printable import counted, printable, shortest
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import Opening, TrajectoryFiles, takes_groups
from kinema.formats.h5md import H5mdOptions, groups_of
from kinema.model.selection.frames import FrameSelection


@takes_groups
def info(
    context: typer.Context,
    named: TrajectoryFiles,
    opening: Opening,
    topology: options.Topology = None,
    select: options.Select = None,
    workers: options.Workers = None,
) -> None:
    """Format, atoms, frames, times and parts of a trajectory; several files are its parts.

    For H5MD files also their atoms, groups, units, chunks and filters, and what their layout costs. With a topology,
    also what is known of the atoms. With --select, also the number of selected atoms and what reading them costs.
    """
    command: Command = context.obj
    files = named.paths
    found = {file: _groups(file, opening.arguments) for file in files}
    h5md = [file for file in files if found[file]]
    traj = None
    group = opening.particles
    if group is not None or all(sum(bool(one.fields) for one in found[file]) <= 1 for file in h5md):
        traj = kn.open(
            [str(file) for file in files],
            None if topology is None else str(topology),
            **opening.arguments,
        )
        traj.scan(workers=workers, progress=False if command.quiet else None)
    if select is not None and traj is None:
        raise ArgumentError("--select is for one group of an H5MD file; name it with --particles")
    chosen = None if select is None or traj is None else _chosen(traj, traj.select(select))
    atoms = None if chosen is None else chosen.atoms
    stated = {name: opening.arguments[name] for name in ("particles", "units", "external", "stored")}
    layouts = [kn.layout_of(file, atoms=atoms, **stated) for file in h5md]
    command.print_result(
        lambda: _facts(traj, chosen, layouts),
        lambda: "\n".join(map(printable, _lines(traj, chosen, layouts))).lstrip("\n"),
    )


@dataclasses.dataclass(frozen=True)
class _Chosen:
    """Selected atoms, the bytes read from the first frame for their positions, and the bytes of these positions."""

    atoms: Any
    n_atoms: int
    description: str
    bytes_read: int
    bytes_wanted: int

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "atoms"}


def _chosen(traj: Any, selection: Any) -> _Chosen:
    read = 0
    # other fields may have been written at other strides
    fields = [name for name in ("positions", "velocities", "forces") if name in traj.fields][:1]
    if traj.n_frames:
        core = _core.Trajectory(**traj.core.recipe(), record_reads=True)
        core.scan()
        core.take_reads()
        core.read(FrameSelection(range(1)), atoms=selection.indices, fields=fields, workers=1, mark_absent=True)
        read = sum(length for _, _, length in core.take_reads())
    wanted = 12 * len(fields) * selection.n_atoms
    return _Chosen(selection.indices, selection.n_atoms, selection.description, read, wanted)


def _box(traj: Any, frame: int) -> list[float] | None:
    """Lengths (angstrom) and angles alpha, beta, gamma (degrees) of a frame's box; None if it has none.

    A length of 0 means an open edge.
    """
    import numpy as np

    # without vectors, which may have been written at other strides
    arrays = traj.core.read(traj.choose(frames=[frame]), fields=[], atoms=np.zeros(1, np.uint32), workers=1)
    if not arrays["present"]["cells"][0]:
        return None
    # float32: seven digits
    return [float(f"{value:.7g}") for value in _core.lengths_of_cells(arrays["cells"])[0]]


def _boxes(traj: Any) -> list[list[float] | None]:
    """The box of the first frame, and that of the last frame if it differs."""
    if not traj.n_frames or "cell" not in traj.fields:
        return [None]
    boxes = []
    for frame in (0, traj.n_frames - 1):
        # the frame may have no box
        with suppress(ArgumentError):
            boxes.append(_box(traj, frame))
    return boxes[:1] if len(boxes) == 2 and boxes[0] == boxes[1] else boxes or [None]


def _groups(file: Path, stated: Mapping[str, Any]) -> tuple[Any, ...]:
    """Groups of particles of an H5MD file; empty for a file with an error, which `kinema.open` raises."""
    try:
        options = H5mdOptions(external=stated["external"], stored=stated["stored"])
        return groups_of(file, options) if is_hdf5(file) else ()
    except Error:
        return ()


def _facts(traj: Any, chosen: _Chosen | None, layouts: list[Any]) -> dict[str, Any]:
    facts = {} if traj is None else _trajectory_facts(traj)
    facts |= {} if chosen is None else {"selection": chosen.as_dict()}
    return facts | ({"layouts": [layout.as_dict() for layout in layouts]} if layouts else {})


def _atoms(traj: Any) -> Any:
    """The table of the atoms; None without a topology."""
    return None if traj.topology_name is None else traj.atoms


def _atom_facts(atoms: Any) -> dict[str, Any]:
    return {"from": atoms.name, "columns": list(atoms.columns), "guessed": sorted(atoms.guessed)}


def _trajectory_facts(traj: Any) -> dict[str, Any]:
    return {
        "format": traj.format,
        "n_atoms": traj.n_atoms,
        "n_frames": traj.n_frames,
        "dt": traj.dt,
        "fields": list(traj.fields),
        "units": dict(traj.units),
        "boxes": _boxes(traj),
        "stated": dict(traj.stated),
        "atoms": None if (atoms := _atoms(traj)) is None else _atom_facts(atoms),
        "parts": [dataclasses.asdict(part) for part in traj.parts],
        "gaps": [dataclasses.asdict(gap) for gap in traj.gaps],
    }


def _lines(traj: Any, chosen: _Chosen | None, layouts: list[Any]) -> list[str]:
    lines = [] if traj is None else _trajectory_lines(traj)
    if chosen is not None:
        lines += [
            "",
            f"selection {chosen.description}: {chosen.n_atoms:,} of {traj.n_atoms:,} atoms",
            f"  {chosen.bytes_read:,} bytes are read of a frame for {chosen.bytes_wanted:,} bytes of numbers",
        ]
    for layout in layouts:
        lines += ["", *_layout_lines(layout, with_notes=traj is None)]
    return lines


def _trajectory_lines(traj: Any) -> list[str]:
    step = "" if traj.dt is None or not math.isfinite(traj.dt) else f", {shortest(traj.dt, 6)} ps apart"
    lines = [
        f"{counted(traj.n_frames, 'frame')} of {counted(traj.n_atoms, 'atom')}{step}",
        f"fields: {', '.join(traj.fields)}",
    ]
    lines.append(f"box: {', then '.join(map(_box_text, _boxes(traj)))}")
    atoms = _atoms(traj)
    if atoms is not None:
        columns = [f"{name} (guessed)" if name in atoms.guessed else name for name in atoms.columns]
        lines.append(f"atoms: {', '.join(columns) or 'nothing is known'}; of {atoms.name}")
    if traj.stated:
        lines.append(f"stated: {', '.join(f'{name} {value}' for name, value in traj.stated.items())}")
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
            lines.append(f"  times    {shortest(part.first_time)} to {shortest(part.last_time)} ps")
        if part.first_step is not None and part.last_step is not None:
            lines.append(f"  steps    {part.first_step} to {part.last_step}")
        lines.append(f"  index    {part.index}" + (f", {part.index_path}" if part.index_path else ""))
        if part.index_note:
            lines.append(f"           {part.index_note}")
        lines += [f"  title    {remark}" for remark in part.remarks]
        lines += [f"  assumed  {assumption}" for assumption in part.assumptions]
    return lines


def _box_text(box: list[float] | None) -> str:
    if box is None:
        return "none"
    lengths, angles = box[:3], box[3:]
    return (
        f"{' x '.join(f'{length:.7g}' for length in lengths)} angstrom, "
        f"angles {', '.join(f'{angle:.7g}' for angle in angles)} degrees"
    )


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
    if layout.draws_in:
        lines.append(f"  draws in other files: {', '.join(layout.draws_in)}")
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
        ratios = ", ".join(
            f"{pattern.replace('some atoms', subset + ' of the atoms')} {ratio:,.1f}"
            for pattern, ratio in field.amplification.items()
        )
        lines.append(f"      bytes touched / wanted: {ratios}")
    return lines
