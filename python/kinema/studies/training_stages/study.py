"""The stages, one after the other: their files in scratch, a program for each rank, a trace; report and picture."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kinema._core import __version__
from kinema.base.errors import ArgumentError
from kinema.base.printable import counted
from kinema.base.timings import format_seconds
from kinema.ml import SampleDataset
from kinema.report.machine import machine_facts
from kinema.report.storage_facts import file_systems, storage_facts
from kinema.report.traces import side_by_side, summarise
from kinema.storage.output_checks import check_remade
from kinema.storage.output_file import folder_of_results, temporary_folder, write_whole
from kinema.studies.results_log import marked
from kinema.studies.sample_loading.design import LoadingDesign, SampleLayout
from kinema.studies.sample_loading.layouts import Samples, check_room, take_samples, write_layout
from kinema.studies.training_stages.design import STAGES, Stage, StagesDesign
from kinema.studies.training_stages.laboratory import StagesLaboratory
from kinema.studies.training_stages.ranks import train
from kinema.studies.training_stages.report import StageRow, report_text

_PICTURE, _REPORT, _RESULTS = "stages.png", "report.md", "results.json"
_ONE_FILE = SampleLayout("one HDF5 file", "hdf5")
_NPZ_FILES = SampleLayout("an NPZ a sample", "files")


@dataclass(frozen=True, eq=False)
class StagesStudy:
    """A finished study.

    Attributes
    ----------
    design : StagesDesign
    samples : Samples
    rows : tuple of StageRow
    machine : mapping
    file_system : str
        File system of the scratch folder.
    notes : tuple of str
        Stages that are left out, and why.
    cpu : {stage: microseconds}
        CPU time of a sample, in a run in virtual time.
    """

    design: StagesDesign
    samples: Samples
    rows: tuple[StageRow, ...]
    machine: Mapping[str, Any]
    file_system: str
    notes: tuple[str, ...]
    cpu: Mapping[str, float] = field(default_factory=dict)
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
            "samples": {"number": len(samples), "of": samples.of, "bytes": samples.sample_bytes},
            "machine": dict(self.machine),
            "file_system": self.file_system,
            "rows": [row.as_dict() for row in self.rows],
            "notes": list(self.notes),
            **({"cpu_per_sample": dict(self.cpu)} if self.cpu else {}),
        }


def run_stages(
    design: StagesDesign,
    folder: str | os.PathLike[str],
    notify: Callable[[str], None],
    *,
    scratch: str | os.PathLike[str] | None = None,
    traces: str | os.PathLike[str] | None = None,
    lab: StagesLaboratory | None = None,
    overwrite: bool = False,
) -> StagesStudy:
    """Carries out all stages and reports them in a folder. `notify` gets a line for each stage.

    With `lab` they run on its emulated cluster, in virtual time.

    The samples are written to a folder in `scratch` ($TMPDIR) that is removed however the study ends. `traces` is a
    folder that keeps the trace of each stage in a folder of its own. `overwrite` replaces files of the report that
    Kinema did not write, and traces.

    Raises as `kinema.ml.SampleDataset`; ArgumentError if there are too few samples, or no room for them; WorkerError
    if a rank fails or does not end in time; also as `StagesLaboratory.check`.
    """
    if lab is not None:
        lab.check(design)
    samples = _take(design)
    room = Path(tempfile.gettempdir() if scratch is None else scratch)
    check_room(samples, room)
    with folder_of_results(folder) as place:
        for name in (_REPORT, _RESULTS, _PICTURE):
            check_remade(place / name, overwrite=overwrite)
        has_torch = lab is None and find_spec("torch") is not None
        stages = [stage for stage in STAGES if has_torch or stage.loop != "torch"]
        kept_traces = {} if traces is None else _make_trace_folders(stages, Path(traces), overwrite=overwrite)
        why = "is not installed" if lab is None else "reads in processes of its own, which are not emulated"
        notes = () if has_torch else (f"torch {why}: its DataLoader has no row",)
        with temporary_folder(room / "kinema-stages", alone=False) as made:
            paths = _write(samples, Path(made), {stage.files for stage in stages})
            summaries = []
            cpu = {} if lab is None else lab.calibrate(stages, design, samples, paths)
            for stage in stages:
                with temporary_folder(Path(made) / "stage", alone=False) as own:
                    trace = f"{own}/trace" if stage not in kept_traces else os.path.abspath(kept_traces[stage])
                    path = paths[stage.files]
                    run = train if lab is None else lab.train
                    run(stage, design, samples, path, Path(own), trace)
                    label = stage.name if lab is None else f"{stage.name}, lab {lab.platform.name}"
                    summary = summarise(trace, label=label)
                notify(f"{stage.name}: {format_seconds(summary.job.total * 1e-9)}")
                summaries.append(summary)
            kept = [os.path.join(made, "samples")]
            if lab is None:
                machine, system = machine_facts() | {"storage": storage_facts(kept)}, ", ".join(file_systems(kept))
            else:
                machine, system = lab.machine(design), lab.storage
            side_by_side(summaries).plot(place / _PICTURE, overwrite=overwrite)
    rows = tuple(StageRow.from_summary(stage, one) for stage, one in zip(stages, summaries, strict=True))
    study = StagesStudy(design, samples, rows, machine, system, notes, cpu)
    _write_report(study, place)
    return study


def _write_report(study: StagesStudy, place: Path) -> None:
    write_whole(place / _REPORT, lambda file: file.write(marked(study.text).encode()))
    found = json.dumps({"kinema": __version__, **study.as_dict()}, allow_nan=False, indent=1)
    write_whole(place / _RESULTS, lambda file: file.write(found.encode() + b"\n"))


def _take(design: StagesDesign) -> Samples:
    """Samples of the user, as many as fit; ArgumentError if a rank would have no batch."""
    source: Any = design.sources[0] if len(design.sources) == 1 else list(design.sources)
    fields = None if design.fields is None else list(design.fields)
    data = SampleDataset(source, fields, file_is_sample=design.file_is_sample)
    loading = LoadingDesign(design.sources, batch=design.batch, size=design.size)
    samples = take_samples(data, loading)
    if len(samples) < design.batch * design.ranks:
        raise ArgumentError(
            f"{design.sources[0]}: a batch of {design.batch} samples for each of {counted(design.ranks, 'rank')} is "
            f"needed, and {len(samples):,} samples are taken; give a smaller batch, fewer ranks or a larger size"
        )
    return samples


def _write(samples: Samples, folder: Path, kinds: set[str]) -> dict[str, Path]:
    """The files of each kind, not timed: a folder of them, or one file."""
    import h5py

    found = {"npz": folder / "npz", "h5": folder / "h5", "one": folder / "one.h5"}
    if "npz" in kinds:
        write_layout(_NPZ_FILES, samples, found["npz"], 1)
    if "h5" in kinds:
        found["h5"].mkdir()
        for number in range(len(samples)):
            with h5py.File(found["h5"] / f"{number:08d}.h5", "w") as file:
                for name, array in samples.arrays.items():
                    file[name] = array[number : number + 1].reshape(array.shape[1:] or (1,))
    if "one" in kinds:
        with h5py.File(found["one"], "w") as file:
            for name, array in samples.arrays.items():
                file[name] = array
    return found


def _make_trace_folders(stages: Sequence[Stage], place: Path, *, overwrite: bool) -> dict[Stage, Path]:
    """An empty folder for the trace of each stage. Raises ArgumentError for one that is not, unless `overwrite`."""
    folders = {stage: place / stage.folder for stage in stages}
    for folder in folders.values():
        there = sorted(folder.iterdir()) if folder.is_dir() else []
        strange = [one for one in there if not (one.is_file() and ".pfw" in one.suffixes)]
        if strange or (there and not overwrite):
            why = f"holds {strange[0].name}, which is not a trace" if strange else "holds a trace already"
            raise ArgumentError(f"{folder}: {why}; name another folder")
        for one in there:
            one.unlink()
        folder.mkdir(parents=True, exist_ok=True)
    return folders
