"""`kinema index`: finds the frames of files and stores their positions. The work is `Trajectory.scan`."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

import kinema as kn
from kinema.base.errors import ArgumentError
from kinema.base.printable import printable
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import Opened, TrajectoryFiles, takes_groups
from kinema.model.frame import Part


@takes_groups
def index(
    context: typer.Context,
    named: TrajectoryFiles,
    opened: Opened,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Do not use a stored index.")] = False,
    atom_checkpoints: Annotated[
        bool,
        typer.Option(
            "--atom-checkpoints",
            help="Also store, in the cache folder, places in frames at which decoding can start (XTC of many atoms).",
        ),
    ] = False,
    checksums: Annotated[
        bool,
        typer.Option(
            "--checksums",
            help="Also store a checksum of each frame's bytes, for `kinema check` to compare; not for HDF5.",
        ),
    ] = False,
    on_truncated: options.OnTruncated = "drop",
    workers: options.Workers = None,
) -> None:
    """Find the frames of each file and store their positions, so that later runs start at once.

    Stored checksums stay until --checksums --rebuild replaces them; --checksums adds the checksums of new frames.
    """
    command: Command = context.obj
    for name, given in (("--rebuild", rebuild), ("--checksums", checksums)):
        if given and opened.no_stored:
            raise ArgumentError(f"{name} stores what it finds, which --no-stored forbids; give one of them")
    progress = False if command.quiet else None
    facts: list[dict[str, Any]] = []
    for file in named.paths:
        traj = kn.open(str(file), index="rebuild" if rebuild else "auto", on_truncated=on_truncated, **opened.arguments)
        traj.scan(workers=workers, progress=progress)
        (part,) = traj.parts
        stored = None
        if atom_checkpoints and part.atom_checkpoints is None:
            (stored,) = traj.store_atom_checkpoints(workers=workers, progress=progress)
        made = traj.store_checksums(workers=workers, progress=progress)[0] if checksums else None
        facts.append(
            {
                "path": part.path,
                "frames": part.file_frames,
                "index": part.index,
                "index_path": part.index_path,
                "note": part.index_note,
                "atom_checkpoints": _checkpoint_facts(part, stored) if atom_checkpoints else None,
                "checksums": None if made is None else asdict(made),
                "notes": list(traj.notes),
            }
        )
    command.print_result(lambda: facts, lambda: "\n".join(printable(_line(one)) for one in facts))


def _checkpoint_facts(part: Part, stored: tuple[str, int, str | None] | None) -> dict[str, Any]:
    """Facts about the atom checkpoints that the user asked for."""
    if stored is not None:
        path, number, note = stored
        return {"state": "built", "path": path, "number": number, "note": note}
    state = "stored" if part.atom_checkpoints is not None else "not needed"
    return {"state": state, "path": None, "number": None, "note": None}


def _line(facts: dict[str, Any]) -> str:
    where = f", {facts['index_path']}" if facts["index_path"] else ""
    note = f" ({facts['note']})" if facts["note"] else ""
    line = f"{facts['path']}: {facts['frames']:,} frames, index {facts['index']}{where}{note}"
    made = facts["atom_checkpoints"]
    if made is not None:
        number = f"{made['number']:,} " if made["number"] is not None else ""
        place = f", {made['path']}" if made["path"] else ""
        line += f"; {number}atom checkpoints {made['state']}{place}" + (f" ({made['note']})" if made["note"] else "")
    sums = facts["checksums"]
    if sums is not None:
        added = f", {sums['n_added']:,} of them new" if sums["n_added"] < sums["n_frames"] else ""
        line += f"; checksums of {sums['n_frames']:,} frames{added}, {sums['path']}"
    return line
