"""`export`: samples as files of other formats, sharded by size, on any runner; outputs appear whole or not at all."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import DTypeLike

from kinema._core import __version__
from kinema.base.errors import ArgumentError, os_errors
from kinema.base.notes import returns_notes
from kinema.base.printable import counted, printable
from kinema.base.progress import ProgressChoice, reporting
from kinema.base.resources import default_memory, parse_memory
from kinema.ml.dataset import Dataset
from kinema.ml.export.base import ExportFormat
from kinema.ml.export.formats import export_format
from kinema.ml.export.source import ExportSource, Run
from kinema.ml.fields.labels import Table, read_table
from kinema.ml.frames import FrameDataset
from kinema.ml.splits import DataSplit
from kinema.ml.stored.samples import LIST_OF_FILES
from kinema.ml.systems import TrajectoryEntry
from kinema.model.selection.atoms import AtomChoice
from kinema.model.selection.frames import FrameChoice, resolve_run
from kinema.runners import Runner, choose_runner
from kinema.storage.output_checks import check_not_input, check_target, is_stream
from kinema.storage.output_file import OutputFile, whole_folder
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory

_VERSION = 1
_STAMPS = ("cell", "step", "time")


@dataclass(frozen=True)
class Exported:
    """Result of `export`.

    Attributes
    ----------
    path, format : str
    n_samples : int
    files : tuple of str
        For a folder, all files in it; for one file, its name.
    size : int
        Bytes of all files.
    units : mapping of str to str
        Units of the values that were written, by name.
    seconds : float
        Wall time of reading and writing.
    notes : tuple of str
    """

    path: str
    format: str
    n_samples: int
    files: tuple[str, ...]
    size: int
    units: Mapping[str, str]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def gib_per_second(self) -> float:
        """GiB written per second."""
        return self.size / self.seconds / 2**30 if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"{printable(self.path)}: {self.format}, {counted(self.n_samples, 'sample')} in "
            f"{counted(len(self.files), 'file')}, {self.size:,} bytes in {self.seconds:.2f} s, "
            f"{self.gib_per_second:.2f} GiB/s"
        )


@returns_notes
def export(
    source: Dataset | Any,
    output: str | os.PathLike[str],
    *,
    format: str,
    topology: str | os.PathLike[str] | Any | None = None,
    select: AtomChoice = None,
    fields: str | Sequence[str] | None = None,
    labels: Table | Sequence[Table] | None = None,
    missing: str = "error",
    energy: str | None = None,
    label_units: Mapping[str, str] | None = None,
    start: int | None = None,
    stop: int | None = None,
    step: int | None = None,
    frames: FrameChoice = None,
    split: DataSplit | str | os.PathLike[str] | None = None,
    part: str | None = None,
    dtype: DTypeLike | None = None,
    shard_size: int | str | None = None,
    compress: bool = False,
    runner: str | Runner | None = None,
    workers: int | None = None,
    memory: int | str | None = None,
    overwrite: bool = False,
    progress: ProgressChoice = False,
) -> Exported:
    """Writes frames of trajectories with their labels, or any data set, as files that training codes read.

        kinema.ml.export("md.h5md", "train.extxyz", format="extxyz", topology="top.pdb")
        kinema.ml.export(["a.nc", "b.nc"], "data", format="deepmd", topology="top.prmtop", labels=["a.csv", "b.csv"])
        kinema.ml.export(frames, "shards", format="npy", split=split, part="train", shard_size="1 GiB")

    An output whose name has the ending of the format is one file; any other name is a folder of shards of `shard_size`,
    with the list of them in `export.json`. The output appears when it is whole, and has the same bytes on any runner,
    for any number of workers and any memory limit.

    Parameters
    ----------
    source : Trajectory, path, what `kinema.ml.mdcath` lists, a list of these; or a Dataset
        Each element of a list is a trajectory of its own: files are not joined.
    output : path
    format : {"samples-h5", "npy", "npz", "extxyz", "deepmd"}
        extxyz and deepmd are in angstrom, eV and eV/angstrom, and take trajectories of different systems. The others
        have the arrays of a batch as they are (angstrom, ps, kJ/(mol angstrom), labels as stored).
    topology : as `kinema.open`
        Used for all trajectories that are given as paths.
    select : as `Trajectory.select`
    fields : str or list of str, optional
        As for `FrameDataset`; by default positions, forces if all trajectories have them, and all columns of `labels`.
    labels, missing, dtype : as for `FrameDataset`
    energy : str, optional
        The label that is the energy, for extxyz and deepmd; by default "energy" or "potential_energy", if there is such
        a label.
    label_units : mapping, optional
        Units of labels whose files do not state them: {"energy": "eV"}; a unit that contradicts a file is an error.
        Energies without a unit are taken as kJ/mol, with a note.
    start, stop, step, frames : as `Trajectory.choose`
        Applied to each trajectory.
    split, part : DataSplit or its file, and the name of a part
        A split of the data set of all these frames.
    shard_size : int or str, optional
        Approximate bytes of a file of a folder; 1 GiB by default.
    compress : bool
        For npz: deflate the members.
    runner : str or Runner, optional
        Runs the work on the shards, as for `kinema.convert`.
    workers : int, optional
    memory : int or str, optional
        Limit of working memory of all workers.
    overwrite : bool
        Replaces a file, or a folder that `export` has made.
    progress : bool, None or function

    Returns
    -------
    Exported

    Raises
    ------
    ArgumentError
        If the format cannot hold the samples, for example because their numbers of atoms differ; if the output exists
        or is an input.
    UnsupportedFormatError
        For LMDB.
    MemoryLimitError, CorruptFileError, TruncatedFileError, FileIOError, ...
        From reading and writing. An existing `output` stays as it was.

    Examples
    --------
    >>> done = kinema.ml.export("md.xtc", "train.npz", format="npz")
    >>> sorted(np.load("train.npz"))
    ['cell', 'positions', 'step', 'time']
    """
    on = choose_runner(runner)

    def whole_call() -> Exported:
        made = export_format(format, energy, label_units, compress)
        name = os.fspath(output)
        single = _is_one_file(name, made, shard_size)
        _check_output(name, made, single=single, overwrite=overwrite)
        of_frames = {"topology": topology, "select": select, "fields": fields, "labels": labels, "dtype": dtype}
        window = {"start": start, "stop": stop, "step": step, "frames": frames}
        dataset = _dataset(source, made, of_frames, window, missing)
        whole = ExportSource(_part(dataset, split, part))
        if not len(whole):
            raise ArgumentError("there are no samples to export")
        limit = default_memory() if memory is None else parse_memory(memory)
        made.check(whole)
        inputs = getattr(whole.frames, "paths", getattr(dataset, "paths", ()))
        topologies = [topology] if isinstance(topology, (str, os.PathLike)) else []
        check_not_input(name, *inputs, *topologies)
        call = _WholeExport(whole, made, on, workers, limit, progress)
        began = time.perf_counter()
        with on.session():
            files, size = call.to_file(name) if single else call.to_folder(name, shard_size)
        return Exported(name, made.name, len(whole), files, size, dict(made.units), time.perf_counter() - began)

    return on.broadcast_from_root(whole_call)


@dataclass(frozen=True)
class _WholeExport:
    """A call with checked arguments."""

    source: ExportSource
    format: ExportFormat
    runner: Runner
    workers: int | None
    memory: int
    progress: ProgressChoice

    def to_file(self, name: str) -> tuple[tuple[str, ...], int]:
        """Makes one file."""
        run = Run("", ((0, len(self.source)),))
        self.source.check_memory(self.memory, self.format.factor)
        threads = self.runner.local_threads(self.workers)
        with OutputFile(name, alone=True) as output:
            # formats create their file themselves
            os.unlink(output.temporary)
            self._write([(run, output.temporary)], at_a_time=1, threads=threads)
            size = os.path.getsize(output.temporary)
        return (name,), size

    def to_folder(self, name: str, shard_size: int | str | None) -> tuple[tuple[str, ...], int]:
        """Makes a folder of shards."""
        runs = self.format.runs(self.source, _shard_bytes("1 GiB" if shard_size is None else shard_size))
        threads = self.runner.local_threads(self.workers)
        # threads of this process read and encode one shard together
        in_this_process = self.runner.name == "threads"
        concurrent = 1 if in_this_process else self.runner.concurrency(self.workers)
        fitting = int(self.memory / (self.format.factor * self.source.sample_bytes))
        self.source.check_memory(self.memory, self.format.factor)
        at_a_time = max(1, min(concurrent, len(runs), fitting))
        with whole_folder(name) as folder:
            pairs = [(run, os.path.join(folder, run.name + self.format.suffix)) for run in runs]
            for place in {os.path.dirname(path) for _, path in pairs}:
                os.makedirs(place, exist_ok=True)
            self._write(pairs, at_a_time=at_a_time, threads=threads if in_this_process else 1)
            self.format.finish(self.source, runs, folder)
            self._write_list(runs, folder)
            found = sorted(
                os.path.relpath(os.path.join(place, file), folder)
                for place, _, files in os.walk(folder)
                for file in files
            )
            size = sum(os.path.getsize(os.path.join(folder, file)) for file in found)
        return tuple(found), size

    def _write(self, pairs: Sequence[tuple[Run, str]], *, at_a_time: int, threads: int) -> None:
        write = _Write(self.source, self.format, self.memory // at_a_time, threads)
        computations = [(run, os.path.abspath(path)) for run, path in pairs]
        total = sum(len(run) for run, _ in pairs)
        with reporting(self.progress, "exporting", total, "samples", launched=self.runner.launched) as report:
            done = 0

            def receive(number: int, _value: Any) -> None:
                nonlocal done
                done += len(pairs[number][0])
                if report is not None:
                    report(done, total)

            if len(computations) == 1 or self.runner.name == "threads":
                for number, one in enumerate(computations):
                    write(one)
                    receive(number, None)
            else:
                self.runner.map(write, computations, workers=at_a_time, receive=receive)

    def _write_list(self, runs: Sequence[Run], folder: str) -> None:
        content = {
            "kinema_export": _VERSION,
            "kinema": __version__,
            "format": self.format.name,
            "n_samples": len(self.source),
            "units": dict(self.format.units),
            "shards": [self.format.describe(run) for run in runs],
        }
        with open(os.path.join(folder, LIST_OF_FILES), "x", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=1) + "\n")


@dataclass(frozen=True)
class _Write:
    """The function that workers run: writes one run."""

    source: ExportSource
    format: ExportFormat
    memory: int
    threads: int

    unpickled_once = True

    def __call__(self, computation: tuple[Run, str]) -> None:
        run, path = computation
        with os_errors("cannot write", path):
            self.format.write(self.source, run, path, self.memory, self.threads)


def _is_one_file(name: str, made: ExportFormat, shard_size: int | str | None) -> bool:
    """Whether the output is one file, not a folder. Raises ArgumentError if the arguments say both or neither."""
    if is_stream(name):
        raise ArgumentError(f"{made.name} is written to files, not into streams; name a file or a folder", at=name)
    endings = {"extxyz": (".extxyz", ".xyz"), "samples-h5": (".h5", ".hdf5")}.get(made.name, (made.suffix,))
    single = bool(made.suffix) and name.lower().endswith(endings)
    if single and shard_size is not None:
        raise ArgumentError("is one file, and shard_size= is of a folder of several; name a folder", at=name)
    suffix = os.path.splitext(os.path.basename(os.path.normpath(name)))[1]
    if not single and suffix.lower() in (".npy", ".npz", ".h5", ".hdf5", ".xyz", ".extxyz"):
        wanted = f"a name that ends with {made.suffix}, or a folder" if made.suffix else "a folder"
        raise ArgumentError(f"{made.name} takes {wanted}, found {suffix}", at=name)
    return single


def _shard_bytes(size: int | str) -> int:
    try:
        return parse_memory(size)
    except ArgumentError as error:
        raise ArgumentError(f"shard_size {str(error).removeprefix('memory ')}") from None


def _check_output(name: str, made: ExportFormat, *, single: bool, overwrite: bool) -> None:
    if single:
        check_target(name, overwrite=overwrite)
        return
    place = os.path.normpath(name)
    if os.path.isdir(place):
        ours = os.path.isfile(os.path.join(place, LIST_OF_FILES))
        if not overwrite:
            what = "overwrite=True replaces it" if ours else "name one that is not there"
            raise ArgumentError(f"exists already; {what}", at=name)
        if not ours:
            raise ArgumentError(
                f"is a folder that was not made by an export (it has no {LIST_OF_FILES}), and is not replaced", at=name
            )
    else:
        check_target(place, overwrite=False, or_else=", but for a file, which has to be removed first")


def _part(dataset: Dataset, split: DataSplit | str | os.PathLike[str] | None, part: str | None) -> Dataset:
    if (split is None) != (part is None):
        raise ArgumentError("split= and part= (--part) go together: the parts of a data set, and the one that is meant")
    if split is None or part is None:
        return dataset
    parts = split if isinstance(split, DataSplit) else DataSplit.load(split)
    if part not in parts.parts:
        raise ArgumentError(f"part={part!r} is none of {', '.join(map(repr, parts.parts))}")
    return parts.of(dataset, part)


def _dataset(
    source: Any, made: ExportFormat, of_frames: dict[str, Any], window: dict[str, Any], missing: str
) -> Dataset:
    """The data set of the source. Raises ArgumentError if arguments of frames are given with a data set."""
    if isinstance(source, Dataset):
        given = [name for name, value in (of_frames | window).items() if value is not None]
        if given:
            raise ArgumentError(f"{given[0]}= is for trajectories; a data set is made with what it has")
        return source
    one = isinstance(source, (Trajectory, str, os.PathLike, TrajectoryEntry))
    items = [source] if one else list(source)
    chosen = any(value is not None for value in window.values())
    trajectories: list[Any] = []
    for item in items:
        opened = item
        if isinstance(item, (str, os.PathLike)):
            opened = open_trajectory(item, of_frames["topology"])
        elif isinstance(item, Trajectory) and of_frames["topology"] is not None:
            raise ArgumentError("topology= is for trajectories that are given as paths; open them with theirs")
        if chosen:
            if not isinstance(opened, Trajectory):
                raise ArgumentError("start=, stop=, step= and frames= are of trajectories, found an entry of a list")
            opened.scan()
            opened = opened[resolve_run(**window, n_frames=opened.n_frames)]
        trajectories.append(opened)
    names = _fields(of_frames["fields"], trajectories, of_frames["labels"])
    if made.name in ("extxyz", "deepmd") and "atomic_numbers" not in names:
        names.append("atomic_numbers")
    dtype = of_frames["dtype"]
    return FrameDataset(
        trajectories,
        of_frames["select"],
        names,
        dtype="float32" if dtype is None else dtype,
        labels=of_frames["labels"],
        missing=missing,
    )


def _fields(given: str | Sequence[str] | None, trajectories: Sequence[Any], labels: Any) -> list[str]:
    if given is not None:
        return [given] if isinstance(given, str) else list(given)
    names = ["positions"]
    opened = [one for one in trajectories if isinstance(one, Trajectory)]
    if len(opened) == len(trajectories) and all("forces" in one.fields for one in opened):
        names.append("forces")
    if labels is not None:
        several = isinstance(labels, Sequence) and not isinstance(labels, (str, bytes))
        first = labels[0] if several else labels
        columns = read_table(first) if isinstance(first, (str, os.PathLike)) else first
        names += [str(name) for name in columns if name not in ("step", *_STAMPS)]
    return names
