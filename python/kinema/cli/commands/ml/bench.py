"""`kinema ml bench`: the fourth publication's comparison on the user's own samples. The runs are `kinema.studies`."""

from pathlib import Path
from typing import Annotated

import typer

from kinema.base.comparison import LEAST_REPEATS
from kinema.base.resources import parse_memory
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options import storage as storage_options
from kinema.cli.options.analyses import takes_groups
from kinema.cli.options.shared import one_of
from kinema.cli.word_lists import list_of_words

_PAGE_CACHES = ("drop", "warm")


@takes_groups
def bench(
    context: typer.Context,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SAMPLES",
            help="Files of samples (.npz, .npy, HDF5), or a folder of them.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for report.md, results.json, loading.png.")
    ] = Path("ml-bench-output"),
    fields: Annotated[
        str | None,
        typer.Option("--fields", help="Arrays, with commas between; by default all of the first file."),
    ] = None,
    file_is_sample: storage_options.FileIsSample = None,
    batch: Annotated[int, typer.Option("--batch", **numbers.COUNT, help="Samples per batch.")] = 256,
    batches: Annotated[
        int | None,
        typer.Option("--batches", **numbers.COUNT, help="Most batches per loop.", show_default=False),
    ] = None,
    time_limit: Annotated[
        float, typer.Option("--time-limit", **numbers.decimal(1e-3, 1e7), help="Approximate seconds per run of a loop.")
    ] = 1.0,
    repeats: Annotated[
        int, typer.Option("--repeats", **numbers.whole(1, 100_000), help="Runs of each loop.")
    ] = LEAST_REPEATS,
    size: Annotated[str, typer.Option("--size", help="Most bytes of samples to write in each layout.")] = "256 MiB",
    page_cache: Annotated[
        str,
        typer.Option("--page-cache", **one_of(_PAGE_CACHES), help="Drop files from memory before each loop, or not."),
    ] = "drop",
    scratch: Annotated[
        Path | None,
        typer.Option("--scratch", help="Folder for the samples in all layouts; $TMPDIR.", show_default=False),
    ] = None,
    force: options.Force = False,
) -> None:
    """Loops of NumPy, h5py and Kinema over your own samples, as NPZ and HDF5; a picture, and the layout to use."""
    from kinema.studies.sample_loading import LoadingDesign, run_study

    command: Command = context.obj
    design = LoadingDesign(
        sources=tuple(map(str, sources)),
        fields=None if fields is None else tuple(list_of_words(fields)),
        file_is_sample=file_is_sample,
        batch=batch,
        batches=batches,
        time_limit=time_limit,
        repeats=repeats,
        size=parse_memory(size),
        page_cache=page_cache,
    )
    study = run_study(design, output, command.print_progress, scratch=scratch, overwrite=force)
    written = ", ".join(str(output / name) for name in study.file_names)
    command.print_result(study.as_dict, lambda: f"{study.text}\nwritten: {written}")
