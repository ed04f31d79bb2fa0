"""`kinema ml bench`: the fourth publication's comparison on the user's own samples. The runs are `kinema.studies`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinema.base.comparison import LEAST_REPEATS
from kinema.base.errors import ArgumentError
from kinema.base.resources import parse_memory
from kinema.cli import numbers
from kinema.cli.command_line import Command
from kinema.cli.options import shared as options
from kinema.cli.options import storage as storage_options
from kinema.cli.options.analyses import takes_groups
from kinema.cli.options.laboratory import Lab, Nodes, laboratory
from kinema.cli.options.shared import one_of
from kinema.cli.word_lists import list_of_words

if TYPE_CHECKING:
    from kinema.studies.sample_loading import LoadingStudy
    from kinema.studies.training_stages import StagesLaboratory, StagesStudy

_PAGE_CACHES = ("drop", "warm")
_STAGES = "Stages of training"


@takes_groups
def bench(
    context: typer.Context,
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SAMPLES", help="Files of samples (.npz, .npy, HDF5), or a folder of them."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for report.md, results.json and a picture.")
    ] = Path("ml-bench-output"),
    fields: Annotated[
        str | None,
        typer.Option("--fields", help="Arrays, with commas between; by default all of the first file."),
    ] = None,
    file_is_sample: storage_options.FileIsSample = None,
    batch: Annotated[int, typer.Option("--batch", **numbers.COUNT, help="Samples per batch.")] = 256,
    batches: Annotated[
        int | None,
        typer.Option("--batches", **numbers.COUNT, help="Most batches per loop."),
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
    step: Annotated[
        float | None,
        typer.Option(
            "--step",
            **numbers.decimal(0.0, 1e4),
            help="Seconds of a step of training: run the talk's stages (0.133) instead of the loops; --trace DIR keeps "
            "their traces.",
            rich_help_panel=_STAGES,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs",
            **numbers.COUNT,
            help="Epochs of the stages of --step.",
            show_default="2",
            rich_help_panel=_STAGES,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            **numbers.whole(1, numbers.MOST_WORKERS),
            help="Threads that read for a rank of --step.",
            show_default="6",
            rich_help_panel=_STAGES,
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            "--ranks",
            **numbers.whole(1, numbers.MOST_WORKERS),
            help="Processes that train, with --step.",
            show_default="1",
            rich_help_panel=_STAGES,
        ),
    ] = None,
    lab: Lab = None,
    nodes: Nodes = None,
    stripes: Annotated[
        int | None,
        laboratory("--stripes", **numbers.COUNT, help="Storage targets of each file of --lab."),
    ] = None,
    cpu_per_sample: Annotated[
        str | None,
        laboratory(
            "--cpu-per-sample",
            help="CPU time of a sample with --lab: measured, or microseconds for each stage.",
            show_default="measured",
        ),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option("--scratch", help="Folder for the samples in all layouts; $TMPDIR."),
    ] = None,
    force: options.Force = False,
) -> None:
    """Loops of NumPy, h5py and Kinema over your own samples, as NPZ and HDF5; a picture, and the layout to use."""
    command: Command = context.obj
    common: dict[str, Any] = {
        "sources": tuple(map(str, sources)),
        "fields": None if fields is None else tuple(list_of_words(fields)),
        "file_is_sample": file_is_sample,
        "batch": batch,
        "size": parse_memory(size),
        "page_cache": page_cache,
    }
    of_stages = {"epochs": epochs, "workers": workers, "ranks": ranks}
    given: dict[str, Any] = {name: value for name, value in of_stages.items() if value is not None}
    of_lab = {"nodes": nodes, "stripes": stripes, "cost": cpu_per_sample}
    laboratory = _laboratory(lab, {name: value for name, value in of_lab.items() if value is not None})
    study: LoadingStudy | StagesStudy
    if step is not None:
        if batches is not None:
            raise ArgumentError("--batches is of the loops: a stage of --step has all batches of its epochs")
        from kinema.studies.training_stages import StagesDesign, run_stages

        stages = StagesDesign(**common, step=step, **given)
        study = run_stages(
            stages, output, command.print_progress, scratch=scratch, traces=command.trace, lab=laboratory,
            overwrite=force,
        )  # fmt: skip
    else:
        if laboratory is not None:
            raise ArgumentError("--lab is of the stages of --step, and there are none")
        for name in given:
            raise ArgumentError(f"--{name} is of the stages of --step, and there are none")
        from kinema.studies.sample_loading import LoadingDesign, run_study

        design = LoadingDesign(**common, batches=batches, time_limit=time_limit, repeats=repeats)
        study = run_study(design, output, command.print_progress, scratch=scratch, overwrite=force)
    written = ", ".join(str(output / name) for name in study.file_names)
    command.print_result(study.as_dict, lambda: f"{study.text}\nwritten: {written}")


def _laboratory(name: str | None, given: dict[str, Any]) -> "StagesLaboratory | None":
    """The emulated cluster, if there is one. Raises ArgumentError for its options without `--lab`."""
    if name is None:
        for option in given:
            words = {"cost": "cpu-per-sample"}.get(option, option)
            raise ArgumentError(f"--{words} is for an emulated cluster: it needs --lab")
        return None
    from kinema.studies.lab.platform import read_platform
    from kinema.studies.training_stages import StagesLaboratory

    return StagesLaboratory(read_platform(name), **given)
