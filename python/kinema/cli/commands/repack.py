"""`kinema repack`: writes an H5MD file anew, in another layout or compressed. The work is `kinema.repack`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kinema.cli import numbers, options
from kinema.cli.analysis_options import Stated, takes_groups
from kinema.cli.command_line import Command
from kinema.formats.hdf5.filters import COMPRESSIONS

# with their levels: gzip[:1-9]
_COMPRESSIONS = [name if highest is None else f"{name}[:1-{highest}]" for name, (_, highest) in COMPRESSIONS.items()]


def _layout(text: str) -> str | tuple[int, ...]:
    """A name, or the numbers of "16x1000x3"."""
    words = text.lower().split("x")
    if len(words) > 1 and all(word.isdecimal() for word in words):
        return tuple(numbers.whole_number(word, 1, numbers.LARGEST) for word in words)
    return text


@takes_groups
def repack(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="IN", help="H5MD file.", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File to make.", show_default=False)],
    files: Stated,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            parser=_layout,
            metavar="TEXT",
            help="frames (about 1 MiB of whole frames), atoms (few atoms over many frames), contiguous, keep, or a "
            "chunk shape: 16x1000x3.",
        ),
    ] = "frames",
    compress: Annotated[
        str,
        typer.Option(
            "--compress", help=f"{', '.join(['keep', 'none', *_COMPRESSIONS])}, or a filter's number: 32001:5,1."
        ),
    ] = "keep",
    shuffle: Annotated[
        bool | None,
        typer.Option("--shuffle/--no-shuffle", help="HDF5's shuffle before --compress.", show_default=False),
    ] = None,
    checksum: Annotated[
        bool,
        typer.Option("--checksum", help="Store a Fletcher32 checksum with each chunk."),
    ] = False,
    max_error: Annotated[
        float | None,
        typer.Option(
            "--max-error",
            **numbers.decimal(0, 1e18),
            help="Round positions, none by more than this.",
            show_default=False,
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit", help="Unit of --max-error: angstrom, nm or pm; angstrom by default.", show_default=False
        ),
    ] = None,
    topology: options.Topology = None,
    select: options.Select = None,
    align: Annotated[
        int | None,
        typer.Option(
            "--align",
            **numbers.whole(1, 1 << 40),
            help="Begin chunks at multiples of so many bytes.",
            show_default=False,
        ),
    ] = None,
    verify: options.Verify = True,
    force: options.Force = False,
    workers: options.Workers = None,
    memory: options.Memory = None,
) -> None:
    """Store the frames of an H5MD file in another layout, compressed, rounded or of fewer atoms; keep all else."""
    import kinema as kn

    command: Command = context.obj
    compression, level = _compression(compress)
    done = kn.repack(
        source,
        target,
        layout=layout,
        compression=compression,
        level=level,
        shuffle=shuffle,
        checksum=checksum,
        max_error=max_error,
        unit=unit,
        select=select,
        topology=None if topology is None else str(topology),
        **files.arguments,
        align=align,
        overwrite=force,
        verify=verify,
        workers=workers,
        memory=memory or "512 MiB",
        progress=False if command.quiet else None,
    )
    command.print_result(lambda: asdict(done), lambda: done)


def _compression(text: str) -> tuple[str | tuple[int, tuple[int, ...]] | None, int | None]:
    """Name and level of "gzip:6", number and values of "32001:5,1"; "none" is None."""
    from kinema.errors import ArgumentError

    name, colon, level = text.partition(":")
    if name.isdecimal():
        values = level.split(",") if level else []
        if not all(word.isdecimal() for word in values):
            raise ArgumentError(f"--compress by number is a filter and its values, as in 32001:5,1, found {text!r}")
        return (int(name), tuple(map(int, values))), None
    if colon and not level.isdecimal():
        raise ArgumentError(f"--compress is a name and perhaps a level, as in zstd:3, found {text!r}")
    return None if name == "none" else name, int(level) if colon else None
