"""`kinema index`: finds the frames of files and stores where they are. The work is `Trajectory.scan`."""

from typing import Annotated, Any

import typer

from kinema.cli import options
from kinema.cli.analysis_options import Opened, TrajectoryFiles, takes_groups
from kinema.cli.command_line import Command
from kinema.printable import printable


@takes_groups
def index(
    context: typer.Context,
    named: TrajectoryFiles,
    opened: Opened,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Do not use an index that is stored.")] = False,
    on_truncated: options.OnTruncated = "drop",
    workers: options.Workers = None,
) -> None:
    """Find the frames of each file and store where they are, so that later runs start at once."""
    import kinema as kn
    from kinema.errors import ArgumentError

    command: Command = context.obj
    if rebuild and opened.no_stored:
        raise ArgumentError("--rebuild stores what it finds, which --no-stored forbids; give one of them")
    facts: list[dict[str, Any]] = []
    for file in named.paths:
        traj = kn.open(str(file), index="rebuild" if rebuild else "auto", on_truncated=on_truncated, **opened.arguments)
        traj.scan(workers=workers, progress=False if command.quiet else None)
        (part,) = traj.parts
        facts.append(
            {
                "path": part.path,
                "frames": part.file_frames,
                "index": part.index,
                "index_path": part.index_path,
                "note": part.index_note,
                "notes": list(traj.notes),
            }
        )
    command.print_result(lambda: facts, lambda: "\n".join(printable(_line(one)) for one in facts))


def _line(facts: dict[str, Any]) -> str:
    where = f", {facts['index_path']}" if facts["index_path"] else ""
    note = f" ({facts['note']})" if facts["note"] else ""
    return f"{facts['path']}: {facts['frames']:,} frames, index {facts['index']}{where}{note}"
