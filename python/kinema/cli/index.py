"""`kinema index`: finds the frames of files and stores where they are. The work is `Trajectory.scan`."""

import json
from typing import Annotated

import typer

from kinema.cli import options
from kinema.cli.command_line import Command


def index(
    context: typer.Context,
    files: options.Files,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Do not use an index that is stored.")] = False,
    on_truncated: options.OnTruncatedOption = options.OnTruncated.error,
    workers: options.Workers = None,
) -> None:
    """Find the frames of each file and store where they are, so that later runs start at once."""
    import kinema as kn

    command: Command = context.obj
    facts = []
    for file in files:
        traj = kn.open(str(file), index="rebuild" if rebuild else "auto", on_truncated=on_truncated.value)
        traj.scan(workers=workers, progress=False if command.quiet else None)
        (part,) = traj.parts
        facts.append(
            {
                "path": part.path,
                "frames": part.file_frames,
                "index": part.index,
                "index_path": part.index_path,
                "note": part.index_note,
            }
        )
    if command.json:
        print(json.dumps(facts))
    elif not command.quiet:
        for one in facts:
            where = f", {one['index_path']}" if one["index_path"] else ""
            note = f" ({one['note']})" if one["note"] else ""
            print(f"{one['path']}: {one['frames']:,} frames, index {one['index']}{where}{note}")
