"""`RunFiles`: the files of each series of runs, made on first use, and the arguments that open them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinema import _core
from kinema.base.errors import ArgumentError, FileNotFound, os_errors
from kinema.base.notes import emit_once
from kinema.base.resources import default_memory, parse_memory
from kinema.formats.made import Made
from kinema.storage.output_file import temporary_folder
from kinema.studies import files
from kinema.studies.design import Design, Setting
from kinema.studies.stripes import set_stripes
from kinema.trajectory import Trajectory
from kinema.trajectory.opening import open as open_trajectory
from kinema.transforms.arguments import select_atoms

_FOLDER = "kinema-scaling"
# decides all positions in memory
_SEED = 1
# bytes of the position of an atom
_ATOM_BYTES = 12
# share of the memory limit that positions in memory may take
_SHARE = 0.5


@dataclass(frozen=True)
class RunInput:
    """Files of a run and how they are opened; `kept_frames` of positions in memory differ, the others repeat them."""

    paths: tuple[str, ...]
    stated: Mapping[str, Any] = field(default_factory=dict)
    kept_frames: int | None = None


def kept_frames(design: Design, n_atoms: int, n_frames: int, processes: int) -> int:
    """Number of frames of source "none" that each of some processes of a node holds in memory.

    All together take at most half of the memory limit of a run. Raises ArgumentError if one frame does not fit.
    """
    limit = default_memory() if design.memory is None else parse_memory(design.memory)
    most = int(_SHARE * limit) // (_ATOM_BYTES * n_atoms * processes)
    if most < 1:
        least = int(_ATOM_BYTES * n_atoms * processes / _SHARE) + 1
        raise ArgumentError(
            f"source none: a frame of {n_atoms:,} atoms in each of {processes} processes needs a memory limit of at "
            f"least {least:,} bytes, found {limit:,}"
        )
    return min(most, n_frames)


class RunFiles:
    """The files of an experiment.

    `scratch`: folder of the files, unless the series names a storage.
    `notify`: gets a line for each file that is written.
    `stack`: removes the files of other folders at the end.
    """

    def __init__(self, design: Design, scratch: Path, notify: Callable[[str], None], stack: ExitStack) -> None:
        self._design = design
        self.scratch = scratch
        self._notify = notify
        self._stack = stack
        self._made: dict[tuple[Any, ...], tuple[str, ...]] = {}
        self._folders: dict[tuple[str, int], Path] = {}
        self._chosen: Trajectory | None = None

    def prepare(self, settings: Iterable[Setting]) -> None:
        """Makes the folders of all storages and stripes, and selects the atoms: what cannot be is refused before the
        first run."""
        design = self._design
        if design.select is not None and design.files:
            select_atoms(open_trajectory(list(design.files), design.topology, **design.stated), design.select)
        for setting in settings:
            self.folder_of(setting)

    def folder_of(self, setting: Setting) -> Path:
        """The folder for the files of a series. Raises FileNotFound, ArgumentError if there can be none."""
        key = (setting.storage, setting.stripes)
        if key not in self._folders:
            self._folders[key] = self._make_folder(*key)
        return self._folders[key]

    def _make_folder(self, storage: str, stripes: int) -> Path:
        folder = self.scratch
        if storage:
            above = Path(self._design.storages[storage])
            if not above.is_dir():
                raise FileNotFound(f"{above}: is not a folder, expected that of storage {storage}", path=str(above))
            folder = Path(self._stack.enter_context(temporary_folder(above / _FOLDER, alone=False)))
        if stripes:
            folder = folder / f"stripes{stripes}"
            with os_errors("cannot make", str(folder)):
                folder.mkdir()
            set_stripes(str(folder), stripes)
        return folder

    def opened(self, setting: Setting, workers: int) -> RunInput:
        """The files of a run, made if they do not exist yet."""
        if setting.source == "none":
            return self._in_memory(setting, workers)
        paths = self._paths(setting, workers) * setting.times
        stated: dict[str, Any] = dict(self._design.stated) if setting.as_given else {"stored": self._design.stored}
        if setting.format == "bare" and not setting.as_given:
            stated |= files.BARE
        return RunInput(paths, stated)

    def _paths(self, setting: Setting, workers: int) -> tuple[str, ...]:
        if setting.as_given and not (setting.storage or setting.stripes):
            return self._design.files
        given = "as is" if setting.as_given else setting.format
        parts = {"subfiles": workers, "chain": max(self._design.workers)}.get(given, 0)
        key = (setting.source, given, parts, setting.storage, setting.stripes)
        if key not in self._made:
            kind = "copies of the files" if setting.as_given else given
            self._notify(f"writing {kind if setting.source == 'file' else 'synthetic data'} (not timed)")
            self._made[key] = tuple(self._make(setting, parts))
        return self._made[key]

    def _make(self, setting: Setting, parts: int) -> list[str]:
        folder = self.folder_of(setting)
        if setting.as_given:
            return files.copies(self._design.files, folder)
        chosen = self._frames()
        if setting.source == "synthetic":
            memory = files.MEMORY_FOLDER
            if not memory.is_dir():
                raise FileNotFound(f"{memory}: synthetic data are kept there, in memory; this system has none")
            folder = Path(self._stack.enter_context(temporary_folder(memory / _FOLDER, alone=False)))
            return files.write_synthetic(folder, chosen.n_atoms, chosen.n_frames)
        if parts:
            return files.write_subfiles(chosen, folder, parts)
        return files.write_as(chosen, folder, setting.format)

    def size(self) -> tuple[int, int]:
        """Atoms and frames of the runs."""
        design = self._design
        if design.files and (design.atoms is None or design.frames is None):
            chosen = self._frames()
            return design.atoms or chosen.n_atoms, design.frames or chosen.n_frames
        return design.atoms or 0, design.frames or 0

    def _in_memory(self, setting: Setting, workers: int) -> RunInput:
        """The file that stands for positions in memory: 64 bytes."""
        n_atoms, n_frames = self.size()
        n_frames *= setting.times
        if setting.task == "empty":
            n_atoms = 1
        # threads of a process share the positions
        processes = 1 if setting.runner in ("serial", "threads") else min(workers, setting.ranks_per_node or workers)
        kept = kept_frames(self._design, n_atoms, n_frames, processes)
        path = str(self.scratch / f"none-{n_atoms}-{n_frames}-{kept}.made")
        if not os.path.exists(path):
            with os_errors("cannot write", path):
                Path(path).write_bytes(_core.made_file(_SEED, n_atoms, n_frames, kept))
        if kept < n_frames:
            emit_once([f"source none: {kept:,} of {n_frames:,} frames fit in the memory of each process, and repeat"])
        return RunInput((path,), {"stored": False, "format": Made.name}, kept)

    def _frames(self) -> Trajectory:
        if self._chosen is None:
            design = self._design
            whole = open_trajectory(list(design.files), **design.stated)
            self._chosen = whole[slice(design.start, design.stop, design.step)]
        return self._chosen
