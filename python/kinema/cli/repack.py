"""`kinema repack`: writes an H5MD file anew, in another layout or compressed. The work is `kinema.repack`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kinema.cli import options
from kinema.cli.command_line import Command


def repack(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="IN", help="H5MD file.", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File to make.", show_default=False)],
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            help="frames (about 1 MiB of whole frames), atoms (few atoms over many frames), contiguous, keep, or a "
            "chunk shape: 16x1000x3.",
        ),
    ] = "frames",
    compress: Annotated[
        str,
        typer.Option(
            "--compress", help="keep, none, gzip[:1-9], zstd[:1-22], lz4, bitshuffle-lz4, bitshuffle-zstd[:1-22]."
        ),
    ] = "keep",
    max_error: Annotated[
        float | None,
        typer.Option("--max-error", help="Round positions, none by more than this.", show_default=False),
    ] = None,
    unit: Annotated[str, typer.Option("--unit", help="Unit of --max-error: angstrom, nm or pm.")] = "angstrom",
    topology: options.Topology = None,
    select: options.Select = None,
    group: options.ParticlesGroup = None,
    align: Annotated[
        int | None, typer.Option("--align", help="Begin chunks at multiples of so many bytes.", show_default=False)
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
        layout=_layout(layout),
        compression=compression,
        level=level,
        max_error=max_error,
        unit=unit,
        select=select,
        topology=None if topology is None else str(topology),
        group=group,
        align=align,
        overwrite=force,
        verify=verify,
        workers=workers,
        memory=memory or "512 MiB",
        progress=False if command.quiet else None,
    )
    command.tell(lambda: asdict(done), done)


def _layout(text: str) -> str | tuple[int, ...]:
    """A name, or the numbers of "16x1000x3"."""
    words = text.lower().split("x")
    if len(words) > 1 and all(word.isdecimal() for word in words):
        return tuple(int(word) for word in words)
    return text


def _compression(text: str) -> tuple[str | None, int | None]:
    """Name and level of "gzip:6"; "none" is None."""
    from kinema.errors import ArgumentError

    name, colon, level = text.partition(":")
    if colon and not level.isdecimal():
        raise ArgumentError(f"--compress is a name and perhaps a level, as in zstd:3, found {text!r}")
    return None if name == "none" else name, int(level) if colon else None
