"""A whole study of loading: makes the samples in each layout in scratch, runs the loops, writes report and picture."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kinema._core import __version__
from kinema.ml import Dataset, SampleDataset, Subset
from kinema.report.figures import style
from kinema.report.machine import machine_facts
from kinema.report.storage_facts import file_systems, storage_facts
from kinema.storage.output_checks import check_remade
from kinema.storage.output_file import folder_of_results, temporary_folder, write_whole
from kinema.studies import files
from kinema.studies.results_log import marked
from kinema.studies.sample_loading.design import AS_THEY_ARE, LAYOUTS, LoadingDesign
from kinema.studies.sample_loading.findings import Recommendation, recommended
from kinema.studies.sample_loading.layouts import Samples, check_room, take_samples, write_layout
from kinema.studies.sample_loading.loops import loop_of_kinema, loops_of
from kinema.studies.sample_loading.measuring import LoopRow, LoopRun, check_loop, measured
from kinema.studies.sample_loading.plotting import draw_loading
from kinema.studies.sample_loading.report import report_text

_PICTURE, _REPORT, _RESULTS = "loading.png", "report.md", "results.json"
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class LoadingStudy:
    """A finished study.

    `stored`: bytes of the files of each layout.
    `limit`: samples per second of a plain read of the same bytes, the best of all repeats.
    `file_system`: file system of the scratch folder.
    """

    design: LoadingDesign
    samples: Samples
    rows: tuple[LoopRow, ...]
    stored: Mapping[str, int]
    limit: float
    recommendation: Recommendation
    machine: Mapping[str, Any]
    file_system: str
    notes: tuple[str, ...] = ()
    file_names: tuple[str, ...] = (_REPORT, _RESULTS, _PICTURE)

    @property
    def text(self) -> str:
        """The report."""
        return report_text(self, _PICTURE)

    def as_dict(self) -> dict[str, Any]:
        """Content of results.json."""
        samples = self.samples
        return {
            "design": asdict(self.design),
            "samples": {
                "number": len(samples),
                "of": samples.of,
                "bytes": samples.sample_bytes,
                "arrays": {name: [str(one.dtype), list(one.shape[1:])] for name, one in samples.arrays.items()},
            },
            "machine": dict(self.machine),
            "file_system": self.file_system,
            "plain_read": self.limit,
            "rows": [row.as_dict() for row in self.rows],
            "stored": dict(self.stored),
            "recommendation": asdict(self.recommendation),
            "notes": list(self.notes),
        }


def run_study(
    design: LoadingDesign,
    folder: str | os.PathLike[str],
    notify: Callable[[str], None],
    *,
    scratch: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> LoadingStudy:
    """Carries out an experiment and reports it in a folder. `notify` gets a line for each step.

    The samples are written in each layout to a separate folder in `scratch` ($TMPDIR), which is removed however the
    study ends. `overwrite` replaces files of the report that Kinema did not write.

    Raises as `kinema.ml.SampleDataset`; ArgumentError if there are too few samples, or no room for them.
    """
    data = _opened(design)
    samples = take_samples(data, design)
    room = Path(tempfile.gettempdir() if scratch is None else scratch)
    check_room(samples, room)
    with folder_of_results(folder) as place:
        for name in (_REPORT, _RESULTS, _PICTURE):
            check_remade(place / name, overwrite=overwrite)
        notify(
            f"{len(samples):,} of {samples.of:,} samples of {samples.sample_bytes:,} bytes, in {len(LAYOUTS)} layouts"
        )
        with temporary_folder(room / "kinema-loading", alone=False) as made:
            rows, stored, limit = _measure(design, data, samples, Path(made), notify)
            stored_in = [os.path.join(made, "samples")]
            system, storage = ", ".join(file_systems(stored_in)), storage_facts(stored_in)
        best = recommended(design, rows, stored, samples, limit)
        study = LoadingStudy(
            design,
            samples,
            tuple(rows),
            stored,
            limit,
            best,
            machine_facts() | {"storage": storage},
            system,
            tuple(_notes(samples, design)),
        )
        figure = draw_loading(rows, limit, (best.layout, best.order), *_titles(study))
        style.write(figure, place / _PICTURE)
    write_whole(place / _REPORT, lambda file: file.write(marked(study.text).encode()))
    found = json.dumps({"kinema": __version__, **study.as_dict()}, allow_nan=False, indent=1)
    write_whole(place / _RESULTS, lambda file: file.write(found.encode() + b"\n"))
    return study


def _opened(design: LoadingDesign) -> SampleDataset:
    source: Any = design.sources[0] if len(design.sources) == 1 else list(design.sources)
    fields = None if design.fields is None else list(design.fields)
    return SampleDataset(source, fields, file_is_sample=design.file_is_sample)


def _measure(
    design: LoadingDesign, data: SampleDataset, samples: Samples, folder: Path, notify: Callable[[str], None]
) -> tuple[list[LoopRow], dict[str, int], float]:
    """The loops of all layouts, bytes of their files, and samples per second of a plain read.

    Repeats are the outer loop, so that a machine that slows down for a while affects all loops alike.
    """
    stored = {AS_THEY_ARE: _size(data.paths)}
    plain: list[str] = []

    def own() -> Dataset:
        return Subset(_opened(design), samples.ids)

    loops = [(AS_THEY_ARE, list(data.paths), loop_of_kinema(own, "random", design.batch, design.seed))]
    for number, layout in enumerate(LAYOUTS):
        paths = write_layout(layout, samples, folder / str(number), design.batch)
        listed = [str(one) for path in paths for one in (sorted(path.iterdir()) if path.is_dir() else [path])]
        stored[layout.name] = _size(listed)
        options = {"batch": design.batch, "seed": design.seed, "longest": design.time_limit}
        some = loops_of(layout, paths, samples.bounds, list(samples.arrays), **options)
        loops += [(layout.name, listed, loop) for loop in some]
        if layout.kind == "hdf5" and layout.chunk is None:
            plain = listed
    for name, _, loop in loops:
        check_loop(name, loop, samples)
    runs: list[list[LoopRun]] = [[] for _ in loops]
    limit = 0.0
    for repeat in range(design.repeats):
        for done, (name, listed, loop) in zip(runs, loops, strict=True):
            done.append(measured(loop, samples, design, partial(_forget, design, listed)))
            rate = done[-1].samples / done[-1].seconds
            notify(f"repeat {repeat}, {name}: {loop.program}, {loop.order}: {rate:,.0f} samples/s")
        limit = max(limit, _plain_read(design, plain, len(samples)))
    rows = [
        LoopRow(name, loop.program, loop.order, tuple(done)) for done, (name, _, loop) in zip(runs, loops, strict=True)
    ]
    return rows, stored, limit


def _plain_read(design: LoadingDesign, paths: Sequence[str], samples: int) -> float:
    """Samples per second of reading files from their start."""
    buffer = bytearray(_BLOCK)
    _forget(design, paths)
    began = time.perf_counter()
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return samples / (time.perf_counter() - began)


def _forget(design: LoadingDesign, paths: Sequence[str]) -> None:
    if design.page_cache == "drop":
        files.forget(paths)


def _size(paths: Sequence[str]) -> int:
    return sum(os.path.getsize(path) for path in paths)


def _notes(samples: Samples, design: LoadingDesign) -> list[str]:
    if len(samples) < samples.of and design.page_cache == "warm":
        return [
            "the samples that were compared fit into memory, where files are read many times as fast as from a disk: "
            "of a data set that does not, --page-cache drop says more"
        ]
    return []


def _titles(study: LoadingStudy) -> tuple[str, str]:
    samples, design = study.samples, study.design
    size = samples.sample_bytes
    weight = f"{size / 1024:,.1f} KiB" if size >= 1024 else f"{size} bytes"
    cache = "from the disk" if design.page_cache == "drop" else "from memory"
    system = study.file_system.partition(" on ")[0]
    return (
        f"Loading training samples: batches of {design.batch}",
        f"{len(samples):,} samples of {weight}, {cache}{f' ({system})' if system else ''}, "
        f"{study.machine['allowed_cores']} cores; Kinema {study.machine['kinema']}",
    )
