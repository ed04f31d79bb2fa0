"""`check_catalogue`: finds the trajectories of a catalogue that have changed or are gone, and renews their entries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from kinema.base.errors import CorruptFileError, Error, FileAccessError, FileIOError, FileNotFound, TruncatedFileError
from kinema.base.printable import counted, printable
from kinema.base.progress import ProgressChoice
from kinema.ml.catalogue.catalogue import Catalogue
from kinema.ml.catalogue.container import CatalogueWriter, write_catalogue
from kinema.ml.catalogue.entry import Entry, PackedEntry
from kinema.ml.catalogue.making import each_in_order, lead, runner_for
from kinema.runners import Runner
from kinema.storage.output_file import reservations, reserve

# entries that a worker checks in one call
_AT_ONCE = 256
# number, kind, message, new entry
_Found = tuple[int, str, str, PackedEntry | None]
# problems of a kind that the text of a report names
_SHOWN = 10


@dataclass(frozen=True)
class ChangedEntry:
    """A trajectory that has changed.

    `kind`: {"changed", "grown", "gone", "unreadable"}; grown: the catalogue still has the earlier frames only.
        Unreadable: its files cannot be accessed, or are not a trajectory any more.
    """

    name: str
    kind: str
    message: str


@dataclass(frozen=True)
class CatalogueCheck:
    """The result of `check_catalogue`.

    `renewed`: names of entries that were renewed.
    """

    path: str
    trajectories: int
    problems: tuple[ChangedEntry, ...]
    renewed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all trajectories are as the catalogue says."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """The report in plain types, for JSON."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        found = counted(len(self.problems), "problem") if self.problems else "no problems"
        renewed = f", {len(self.renewed):,} renewed" if self.renewed else ""
        lines = [f"{self.path}: {self.trajectories:,} trajectories, {found}{renewed}"]
        lines += [f"  {one.kind}: {one.message}" for one in self.problems[:_SHOWN]]
        if len(self.problems) > _SHOWN:
            lines.append(f"  {len(self.problems) - _SHOWN:,} more")
        return "\n".join(map(printable, lines))


def check_catalogue(
    path: str | os.PathLike[str],
    *,
    update: bool = False,
    runner: str | Runner | None = None,
    workers: int | None = None,
    progress: ProgressChoice = False,
) -> CatalogueCheck:
    """Compares every file of a catalogue with its identity: inode, size and times, and its content if these differ.

    Parameters
    ----------
    path : path
    update : bool
        Renew the entries of trajectories that have changed, in a new file that replaces the catalogue. Entries whose
        files are gone, or can no longer be opened, stay and are reported as problems.
    runner, workers, progress : as `kinema.ml.make_catalogue`

    Returns
    -------
    CatalogueCheck

    Raises
    ------
    As `Catalogue`; ArgumentError if another run is writing the catalogue.
    """

    def checked() -> CatalogueCheck:
        if not update:
            return _checked(Catalogue(path), False, runner, workers, progress)
        with reservations():
            # another run may be adding to it
            reserve(path)
            return _checked(Catalogue(path), True, runner, workers, progress)

    return lead(runner, checked)


@dataclass(frozen=True)
class _Check:
    """The work of a worker on a run of entries. Picklable."""

    catalogue: Catalogue
    update: bool

    unpickled_once = True

    def __call__(self, numbers: range) -> list[_Found]:
        """Number, kind, message and new entry of each entry that has changed."""
        found: list[_Found] = []
        for number in numbers:
            try:
                entry = self.catalogue.entry(number)
                entry.verify()
                if entry.grown:
                    message = f"{entry.grown[0]}: the file has grown since the catalogue was made"
                    found.append(self._renewed(number, "grown", message))
            except FileNotFound as error:
                found.append((number, "gone", str(error), None))
            except (CorruptFileError, TruncatedFileError) as error:
                found.append(self._renewed(number, "changed", str(error)))
            except (FileAccessError, FileIOError) as error:
                found.append((number, "unreadable", str(error), None))
        return found

    def _renewed(self, number: int, kind: str, message: str) -> _Found:
        if not self.update:
            return number, kind, message, None
        try:
            return number, kind, message, _anew(self.catalogue, number)
        except Error as error:
            return number, "unreadable", str(error), None


def _anew(catalogue: Catalogue, number: int) -> PackedEntry:
    """The entry of a trajectory as it is now, opened with the earlier arguments. Raises as `kinema.open`."""
    entry = catalogue.entry(number, only_names=True)
    trajectory = entry.reopen()
    mdcath = entry.mdcath and replace(entry.mdcath, n_frames=len(trajectory), n_atoms=trajectory.n_atoms)
    return Entry.pack(entry.name, trajectory, catalogue.folder, mdcath)


def _checked(
    catalogue: Catalogue, update: bool, runner: str | Runner | None, workers: int | None, progress: ProgressChoice
) -> CatalogueCheck:
    runs = [range(start, min(start + _AT_ONCE, len(catalogue))) for start in range(0, len(catalogue), _AT_ONCE)]
    problems: list[ChangedEntry] = []
    fresh: dict[int, PackedEntry] = {}

    def take(found: list[_Found]) -> None:
        for number, kind, message, entry in found:
            if entry is None:
                problems.append(ChangedEntry(catalogue.name_of(number), kind, message))
            else:
                fresh[number] = entry

    chosen, used, _ = runner_for(runner, len(runs), workers)
    check = _Check(catalogue, update)
    each_in_order(check, runs, take, runner=chosen, workers=used, progress=progress, what="checking")
    if fresh:
        _write(catalogue, fresh)
    names = tuple(entry.name for entry in fresh.values())
    return CatalogueCheck(catalogue.path, len(catalogue), tuple(problems), names)


def _write(catalogue: Catalogue, fresh: Mapping[int, PackedEntry]) -> None:
    def fill(writer: CatalogueWriter) -> None:
        for number in range(len(catalogue)):
            entry = fresh.get(number)
            if entry is None:
                writer.copy(catalogue.file, number)
            else:
                writer.add(entry.name, entry.n_frames, entry.n_atoms, entry.data)

    write_catalogue(catalogue.path, fill)
