"""The stages, one after the other: their files in scratch, a program for each rank, a trace; report and picture."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kinema._core import __version__
from kinema.base.errors import ArgumentError, CorruptFileError, WorkerError
from kinema.base.printable import counted
from kinema.base.timings import format_seconds
from kinema.ml import SampleDataset
from kinema.report.machine import machine_facts
from kinema.report.storage_facts import file_systems, storage_facts
from kinema.report.traces import TraceSummary, side_by_side, summarise
from kinema.runners.local.interpreter import module_command
from kinema.storage.output_checks import check_remade
from kinema.storage.output_file import temporary_folder, write_whole
from kinema.studies import files
from kinema.studies.launching import child_environment, said_last
from kinema.studies.results_log import marked
from kinema.studies.sample_loading.design import LoadingDesign, SampleLayout
from kinema.studies.sample_loading.layouts import Samples, check_room, take_samples, write_layout
from kinema.studies.training_stages.design import STAGES, Stage, StagesDesign
from kinema.studies.training_stages.rank_loop import checksum
from kinema.studies.training_stages.report import StageRow, report_text

_PICTURE, _REPORT, _RESULTS = "stages.png", "report.md", "results.json"
_SECONDS_TO_END = 5.0
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
    """

    design: StagesDesign
    samples: Samples
    rows: tuple[StageRow, ...]
    machine: Mapping[str, Any]
    file_system: str
    notes: tuple[str, ...]
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
        }


def run_stages(
    design: StagesDesign,
    folder: str | os.PathLike[str],
    notify: Callable[[str], None],
    *,
    scratch: str | os.PathLike[str] | None = None,
    traces: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> StagesStudy:
    """Carries out all stages and reports them in a folder. `notify` gets a line for each stage.

    The samples are written to a folder in `scratch` ($TMPDIR) that is removed however the study ends. `traces` is a
    folder that keeps the trace of each stage in a folder of its own. `overwrite` replaces files of the report that
    Kinema did not write, and traces.

    Raises as `kinema.ml.SampleDataset`; ArgumentError if there are too few samples, or no room for them; WorkerError
    if a rank fails or does not end in time.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name in (_REPORT, _RESULTS, _PICTURE):
        check_remade(place / name, overwrite=overwrite)
    samples = _take(design)
    room = Path(tempfile.gettempdir() if scratch is None else scratch)
    check_room(samples, room)
    has_torch = find_spec("torch") is not None
    stages = [stage for stage in STAGES if has_torch or stage.loop != "torch"]
    kept_traces = {} if traces is None else _make_trace_folders(stages, Path(traces), overwrite=overwrite)
    notes = () if has_torch else ("torch is not installed: its DataLoader has no row",)
    with temporary_folder(room / "kinema-stages", alone=False) as made:
        paths = _write(samples, Path(made), {stage.files for stage in stages})
        summaries = []
        for stage in stages:
            summary = _run(stage, design, samples, paths[stage.files], Path(made), kept_traces.get(stage))
            notify(f"{stage.name}: {format_seconds(summary.job.total * 1e-9)}")
            summaries.append(summary)
        kept = [os.path.join(made, "samples")]
        machine = machine_facts() | {"storage": storage_facts(kept)}
        system = ", ".join(file_systems(kept))
        side_by_side(summaries).plot(place / _PICTURE, overwrite=overwrite)
    rows = tuple(StageRow.from_summary(stage, one) for stage, one in zip(stages, summaries, strict=True))
    study = StagesStudy(design, samples, rows, machine, system, notes)
    write_whole(place / _REPORT, lambda file: file.write(marked(study.text).encode()))
    found = json.dumps({"kinema": __version__, **study.as_dict()}, allow_nan=False, indent=1)
    write_whole(place / _RESULTS, lambda file: file.write(found.encode() + b"\n"))
    return study


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


def _run(
    stage: Stage, design: StagesDesign, samples: Samples, path: Path, folder: Path, kept: Path | None
) -> TraceSummary:
    """Runs the ranks of a stage, compares their first batches with the samples, and summarises their trace, which stays
    in the folder `kept`."""
    with temporary_folder(folder / "stage", alone=False) as made:
        trace = f"{made}/trace" if kept is None else os.path.abspath(kept)
        settings: dict[str, Any] = {
            "files": stage.files, "loop": stage.loop, "path": str(path), "fields": list(samples.arrays),
            "samples": len(samples), "batch": design.batch, "step": design.step, "epochs": design.epochs,
            "workers": design.workers, "ranks": design.ranks, "seed": design.seed, "trace": trace,
            "node_cache": f"{made}/node-cache" if stage.node_cache else None,
        }  # fmt: skip
        settings_file = Path(made) / "settings.json"
        settings_file.write_text(json.dumps(settings), encoding="utf-8")
        commands = [
            module_command("kinema.studies.training_stages.rank_loop", settings_file, rank)
            for rank in range(design.ranks)
        ]

        def forget() -> None:
            if design.page_cache == "drop":
                files.forget([str(one) for one in (sorted(path.iterdir()) if path.is_dir() else [path])])

        for found in _trained(stage, commands, design.limit, forget):
            ids = found["ids"]
            expected = checksum(settings["fields"], {name: array[ids] for name, array in samples.arrays.items()})
            if found["checksum"] != expected:
                raise CorruptFileError(f"{stage.name}: a batch has other values than its samples")
        return summarise(trace, label=stage.name)


def _trained(
    stage: Stage, commands: Sequence[Sequence[str]], limit: float, forget: Callable[[], None]
) -> list[dict[str, Any]]:
    """Results of the ranks, which begin at the same time. None of their processes is left."""
    environment = {name: value for name, value in child_environment().items() if not name.startswith("KINEMA_TRACE")}
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile("w+", errors="replace")) for _ in commands]
        ranks = [
            subprocess.Popen(
                words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                errors="replace",
            )
            for words, log in zip(commands, logs, strict=True)
        ]  # fmt: skip
        late = threading.Event()

        def end() -> None:
            for rank in ranks:
                rank.kill()

        def stop() -> None:
            late.set()
            end()

        clock = threading.Timer(limit, stop)
        clock.start()
        try:
            ready = [rank.stdout is not None and rank.stdout.readline() == "ready\n" for rank in ranks]
            # opening small files has read all of them
            forget()
            if all(ready):
                for rank in ranks:
                    assert rank.stdin is not None
                    with suppress(BrokenPipeError):
                        rank.stdin.write("\n")
                        rank.stdin.flush()
                said = [rank.communicate()[0] for rank in ranks]
            else:
                end()
                said = [""] * len(ranks)
        finally:
            clock.cancel()
            end()
            for rank in ranks:
                rank.wait(_SECONDS_TO_END)
                for pipe in (rank.stdin, rank.stdout):
                    if pipe is not None:
                        with suppress(BrokenPipeError):
                            pipe.close()
        if late.is_set():
            raise WorkerError(f"{stage.name}: not done after {limit:g} s")
        # a rank that has not begun is the reason why the others were ended
        failed = [number for number, one in enumerate(ready) if not one]
        failed += [number for number, rank in enumerate(ranks) if rank.returncode != 0]
        if failed:
            logs[failed[0]].seek(0)
            raise WorkerError(f"{stage.name}: rank {failed[0]} failed: {said_last(logs[failed[0]].read())}")
        return [json.loads(said_last(text)) for text in said]
