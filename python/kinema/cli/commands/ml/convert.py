"""`kinema ml convert`: samples of many files as one archive. The work is `kinema.ml.convert`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from kinema.base.errors import ArgumentError
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options import storage as storage_options
from kinema.cli.options.analyses import checkpoint_of, takes_groups
from kinema.cli.word_lists import list_of_words, named_words


@dataclass(frozen=True)
class Stored:
    """Which arrays are stored, and how."""

    layout: Annotated[
        str | None,
        typer.Option(
            "--layout",
            parser=storage_options.layout,
            metavar="TEXT",
            help="contiguous, samples (about 64 KiB of samples in a chunk) or samples:N (N in a chunk); contiguous by "
            "default, samples with --compress.",
        ),
    ] = None
    compress: Annotated[
        str,
        typer.Option("--compress", help=f"{', '.join(storage_options.COMPRESSIONS)}."),
    ] = "none"
    shuffle: storage_options.Shuffle = None
    checksum: storage_options.Checksum = False
    fields: Annotated[
        str | None,
        typer.Option("--fields", help="Arrays, with commas between; by default all of the first file."),
    ] = None
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="TYPE",
            help="Type of all arrays, float32; or of some: x=float32,y=int8. By default as in the files.",
        ),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """As arguments of `kinema.ml.convert`."""
        compression, level = storage_options.compression(self.compress)
        return {
            "layout": self.layout,
            "compression": compression,
            "level": level,
            "shuffle": self.shuffle,
            "checksum": self.checksum,
            "fields": None if self.fields is None else list_of_words(self.fields),
            "dtype": None if self.dtype is None else _types(self.dtype),
        }


@takes_groups
def convert(
    context: typer.Context,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SAMPLES", help="Files of samples (.npz, .npy, HDF5), in their order, or a folder of them."
        ),
    ],
    stored: Stored,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Archive to make, .h5.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the plan and what a training loop would read; write nothing.")
    ] = False,
    file_is_sample: storage_options.FileIsSample = None,
    workers: options.Workers = None,
    memory: options.Memory = None,
    node_cache: options.NodeCacheFolder = None,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Read back what was written, and compare.")
    ] = True,
    checkpoint: options.Checkpoint = None,
    checkpoint_interval: options.CheckpointInterval = None,
    force: options.Force = False,
) -> None:
    """Write the samples of many files, and the origin of each, into one HDF5 archive."""
    import kinema.ml

    command: Command = context.obj
    saved = checkpoint_of(checkpoint, checkpoint_interval)
    paths: Any = sources[0] if len(sources) == 1 else sources
    folder = None if node_cache is None else str(node_cache)
    given = {**stored.arguments, "workers": workers, "memory": memory, "node_cache": folder}
    given["file_is_sample"] = file_is_sample
    if explain:
        plan = kinema.ml.plan_conversion(paths, **given)
        command.print_result(lambda: {"plan": str(plan).splitlines()}, lambda: plan)
        return
    if output is None:
        raise ArgumentError("no archive is named; give -o FILE.h5, or --explain to write nothing")
    done = kinema.ml.convert(
        paths,
        output,
        **given,
        overwrite=force,
        verify=verify,
        checkpoint=saved,
        progress=False if command.quiet else None,
    )
    command.print_result(lambda: {**asdict(done), "gib_per_second": done.gib_per_second}, lambda: done)


def _types(text: str) -> str | dict[str, str]:
    """ "float32", or {"x": "float32"} from "x=float32"."""
    return named_words("--dtype", text, "a type, or ARRAY=TYPE") if "=" in text else text
