"""`make_catalogue` and `extend_catalogue`: workers take snapshots of many trajectories, which go into one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from kinema.base.choices import check_choice
from kinema.base.errors import (
    ArgumentError,
    CorruptFileError,
    FileAccessError,
    FileIOError,
    FileNotFound,
    TruncatedFileError,
    UnsupportedFormatError,
)
from kinema.base.input_files import is_hdf5
from kinema.base.notes import collected, emit
from kinema.base.progress import ProgressChoice, reporting
from kinema.base.resources import worker_count
from kinema.formats import h5md
from kinema.formats.atoms import topology_of
from kinema.formats.h5md.read.mdcath import is_mdcath
from kinema.ml.catalogue.container import CatalogueFile, CatalogueWriter, write_catalogue
from kinema.ml.catalogue.entry import Entry, PackedEntry
from kinema.ml.catalogue.sources import Files, files_of, name_of
from kinema.ml.mdcath import MdcathTrajectory, mdcath
from kinema.runners import Runner, choose_runner
from kinema.runners.calls import CallValues
from kinema.storage.hdf5.file import open_hdf5, reading
from kinema.storage.output_checks import check_not_input, is_stream
from kinema.storage.output_file import reservations, reserve
from kinema.trajectory.opening import open as open_trajectory

T = TypeVar("T")

UNREADABLE = ("error", "leave-out")
"""Choices for files that cannot be opened."""

# number of trajectories from which worker processes are worth their start
_MANY = 64
# files for each worker that are begun and not written yet
_AHEAD = 64
# notes of single files that are passed on; beyond this, only their number is
_NOTED = 5
_UNREADABLE_ERRORS = (
    ArgumentError,
    CorruptFileError,
    FileAccessError,
    FileIOError,
    FileNotFound,
    TruncatedFileError,
    UnsupportedFormatError,
)


@dataclass(frozen=True)
class CatalogueMade:
    """The result of `make_catalogue` and `extend_catalogue`.

    `trajectories`: entries that the catalogue has now.
    `added`: entries that this call has added.
    `n_frames`: frames of all entries.
    `unreadable`: errors of files that were left out.
    """

    path: str
    trajectories: int
    added: int
    n_frames: int
    n_bytes: int
    unreadable: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        left_out = f", {len(self.unreadable)} files left out" if self.unreadable else ""
        return (
            f"{self.path}: {self.trajectories:,} trajectories with {self.n_frames:,} frames ({self.added:,} added"
            f"{left_out}), {self.n_bytes:,} bytes"
        )


@dataclass(frozen=True)
class _Scan:
    """The work of a worker on the files of one trajectory, or on one file with several. Picklable.

    `opening`: arguments of `kinema.open`.
    `particles`: name or pattern of the groups to include; None: all.
    `threads`: threads that look for the frames of a file.
    `leaves_out`: whether a file that cannot be opened is left out.
    """

    folder: str
    opening: Mapping[str, Any]
    particles: str | None
    threads: int
    leaves_out: bool

    unpickled_once = True

    def __call__(self, files: Files) -> tuple[list[PackedEntry], str | None, list[str]]:
        """The entries, the reason if there is none, and notes."""
        with collected() as notes:
            try:
                return list(self._entries(files)), None, list(notes)
            except _UNREADABLE_ERRORS as error:
                # the error of an argument that fits no file names none
                if not self.leaves_out or error.path is None:
                    raise
                return [], str(error), []

    def _entries(self, files: Files) -> Iterator[PackedEntry]:
        if len(files) > 1 or not is_hdf5(files[0]):
            yield self._pack(files, None)
            return
        with open_hdf5(files[0]) as file, reading(files[0]):
            of_mdcath = is_mdcath(file)
        if of_mdcath:
            dt = self.opening.get("dt")
            for one in mdcath(files[0], **({} if dt is None else {"dt": dt})):
                if self._wants(one.particles):
                    yield self._pack(files, one.particles, one)
            return
        groups = [one.name for one in h5md.groups_of(files[0]) if one.fields]
        if len(groups) < 2:
            yield self._pack(files, None)
            return
        for group in groups:
            if self._wants(group) or self._wants(group.removeprefix("particles/")):
                yield self._pack(files, group)

    def _pack(self, files: Files, group: str | None, mdcath: MdcathTrajectory | None = None) -> PackedEntry:
        more: dict[str, Any] = {} if group is None else {"particles": group}
        if mdcath is not None:
            more["dt"] = mdcath.dt
        trajectory = open_trajectory(list(files), **(dict(self.opening) | more))
        trajectory.scan(workers=self.threads)
        return Entry.pack(name_of(files, self.folder, group), trajectory, self.folder, mdcath)

    def _wants(self, group: str) -> bool:
        return self.particles is None or fnmatchcase(group, self.particles)


def make_catalogue(
    data: Any,
    path: str | os.PathLike[str],
    *,
    topology: str | os.PathLike[str] | None = None,
    format: str | None = None,
    particles: str | None = None,
    units: Mapping[str, str] | None = None,
    dt: float | None = None,
    stored: bool = True,
    unreadable: str = "error",
    overwrite: bool = False,
    runner: str | Runner | None = None,
    workers: int | None = None,
    progress: ProgressChoice = False,
) -> CatalogueMade:
    """Makes a catalogue: one file from which `Catalogue` opens any of many trajectories at once.

        kinema.ml.make_catalogue("mdcath/", "mdcath.kinema-catalogue")

    Parameters
    ----------
    data : path, or list of paths and of lists of paths
        Folders (all trajectories below, by the endings of their names), patterns ("runs/**/*.xtc"), files. An inner
        list has the parts of one trajectory. A file with several groups of particles, or of mdCATH, gives one
        trajectory for each.
    path : path
        The catalogue. It stores the paths of the files relative to its own folder.
    topology : path, optional
        Topology of all trajectories.
    particles : str, optional
        The groups to include, as a name or a pattern: "*/320/*".
    format, units, dt, stored : as `kinema.open`
    unreadable : {"error", "leave-out"}
        For files that cannot be opened: raise an error, or leave them out with a note.
    overwrite : bool
        Whether an existing file is replaced.
    runner, workers : as `kinema.run`
        By default processes if there are many files.
    progress : as `kinema.run`

    Returns
    -------
    CatalogueMade

    Raises
    ------
    ArgumentError, and as `kinema.open`; then no catalogue is made.
    """
    if not overwrite and os.path.exists(path):
        raise ArgumentError("exists; give another name, overwrite=True (--force), or add to it", at=os.fspath(path))
    opening = {"topology": topology, "format": format, "units": units, "dt": dt, "stored": stored}
    files = files_of(data)
    work = _Making(path, opening, particles, unreadable, runner, workers, progress)
    return work.lead(lambda: work.write(files, None))


def extend_catalogue(
    data: Any,
    path: str | os.PathLike[str],
    *,
    topology: str | os.PathLike[str] | None = None,
    format: str | None = None,
    particles: str | None = None,
    units: Mapping[str, str] | None = None,
    dt: float | None = None,
    stored: bool = True,
    unreadable: str = "error",
    runner: str | Runner | None = None,
    workers: int | None = None,
    progress: ProgressChoice = False,
) -> CatalogueMade:
    """Appends trajectories to a catalogue. Existing entries keep their positions; a new file replaces the catalogue.

    Files that the catalogue already has are not added again, which is noted. Arguments and errors are as for
    `make_catalogue`.
    """
    opening = {"topology": topology, "format": format, "units": units, "dt": dt, "stored": stored}
    files = files_of(data)
    work = _Making(path, opening, particles, unreadable, runner, workers, progress)
    # opened once the output is reserved: another run may be adding as well
    return work.lead(lambda: work.write(files, CatalogueFile(path)))


class _Making:
    """The checked arguments of a call, and the methods that carry it out."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        opening: Mapping[str, Any],
        particles: str | None,
        unreadable: str,
        runner: str | Runner | None,
        workers: int | None,
        progress: ProgressChoice,
    ) -> None:
        check_choice("unreadable", unreadable, UNREADABLE)
        self._path = os.fspath(path)
        if is_stream(self._path):
            raise ArgumentError("a catalogue is a file, not a stream", at=self._path)
        self._runner, self._workers, self._progress = runner, workers, progress
        given = {name: value for name, value in opening.items() if value is not None}
        if "topology" in given:
            # raises once if it is missing
            topology_of(given["topology"])
            given["topology"] = os.path.abspath(os.fspath(given["topology"]))
        folder = os.path.dirname(os.path.abspath(self._path))
        self._scan = _Scan(folder, given, particles, 1, unreadable == "leave-out")

    def lead(self, work: Callable[[], CatalogueMade]) -> CatalogueMade:
        """The result of `work`, which one process leads; nobody else may write the catalogue meanwhile."""

        def reserved() -> CatalogueMade:
            with reservations():
                reserve(self._path)
                return work()

        return lead(self._runner, reserved)

    def write(self, files: Sequence[Files], before: CatalogueFile | None) -> CatalogueMade:
        """Writes the earlier entries and those of the files."""
        check_not_input(self._path, *(part for one in files for part in one))
        unreadable: list[str] = []
        notes: list[str] = []
        counts = [0, 0]

        def fill(writer: CatalogueWriter) -> None:
            for number in range(0 if before is None else len(before)):
                assert before is not None
                writer.copy(before, number)
            new = [one for one in files if name_of(one, self._scan.folder) not in writer]
            counts[1] = len(files) - len(new)

            def take(value: tuple[list[PackedEntry], str | None, list[str]]) -> None:
                entries, wrong, said = value
                notes.extend(said)
                if wrong is not None:
                    unreadable.append(wrong)
                for one in entries:
                    if one.name in writer:
                        counts[1] += 1
                        continue
                    writer.add(one.name, one.n_frames, one.n_atoms, one.data)
                    counts[0] += 1

            runner, workers, threads = runner_for(self._runner, len(new), self._workers)
            scan = replace(self._scan, threads=threads)
            each_in_order(scan, new, take, runner=runner, workers=workers, progress=self._progress, what="cataloguing")
            if not len(writer):
                raise ArgumentError(f"there is no trajectory for it{_listed(unreadable)}", at=self._path)

        write_catalogue(self._path, fill)
        if counts[1]:
            notes.append(
                f"{self._path}: {counts[1]} files or trajectories were in it already, and stay as they are; what has "
                f"changed is renewed with: kinema ml catalogue check {self._path} --update"
            )
        notes += [f"{one} (left out)" for one in unreadable]
        said = _few(list(dict.fromkeys(notes)))
        emit(said)
        made = CatalogueFile(self._path)
        return CatalogueMade(
            path=self._path,
            trajectories=len(made),
            added=counts[0],
            n_frames=int(made.n_frames.sum()),
            n_bytes=os.path.getsize(self._path),
            unreadable=tuple(unreadable),
            notes=tuple(said),
        )


def each_in_order(
    call: Callable[[Any], T],
    items: Sequence[Any],
    take: Callable[[T], None],
    *,
    runner: Runner,
    workers: int | None,
    progress: ProgressChoice,
    what: str,
) -> None:
    """Calls `call` on each item on workers, and `take` on each value, in the order of the items.

    The number of values that wait for `take` is bounded.
    """
    waiting: dict[int, T] = {}
    taken = 0
    with reporting(progress, what, len(items), "files", launched=runner.launched) as report, runner.session():

        def receive(number: int, value: T) -> None:
            nonlocal taken
            waiting[number] = value
            while taken in waiting:
                take(waiting.pop(taken))
                taken += 1
                if report is not None:
                    report(taken, len(items))

        values = CallValues(len(items), None, receive, _AHEAD * runner.concurrency(workers))
        runner.call_each(call, items, values, workers=workers)


def runner_for(runner: str | Runner | None, items: int, workers: int | None) -> tuple[Runner, int | None, int]:
    """The runner, its workers, and the threads of each; by default processes if there is much to do."""
    if runner is None and items >= _MANY and worker_count(workers) > 1:
        runner = "processes"
    chosen = choose_runner(runner)
    if chosen.name == "threads":
        # files one after the other, each with all threads: libhdf5 would read only one of several files at a time
        return choose_runner("serial"), None, worker_count(workers)
    return chosen, workers, chosen.threads_per_worker


def lead(runner: str | Runner | None, work: Callable[[], T]) -> T:
    """The result of `work`, which one process leads; all processes get it."""
    return choose_runner(runner).broadcast_from_root(work)


def _listed(unreadable: Collection[str]) -> str:
    return "".join(f"; {one}" for one in list(unreadable)[:1])


def _few(notes: list[str]) -> list[str]:
    if len(notes) <= 2 * _NOTED:
        return notes
    return [*notes[:_NOTED], f"{len(notes) - 2 * _NOTED} more notes on files", *notes[-_NOTED:]]
