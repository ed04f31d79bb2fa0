"""`OpenedFiles`: opened files as one sequence of frames, or a view of some of them, and their transfer to processes.

The Rust half stores the frame index; nothing else is written.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit, emit_once
from kinema.base.progress import ProgressChoice, reporting
from kinema.base.resources import worker_count
from kinema.base.timings import Timings
from kinema.cache.counts import emit_troubles
from kinema.formats import h5md
from kinema.model.frame import Gap, Part, notes_of
from kinema.model.selection.frames import FrameChoice, FrameSelection, resolve, resolve_run
from kinema.model.snapshot import TrajectorySnapshot, opened_again
from kinema.model.topology import Topology
from kinema.trajectory.following.patterns import GivenFiles

if TYPE_CHECKING:
    from kinema.storage.frame_checksums import StoredChecksums
    from kinema.trajectory.transform import Transform


class OpenedFiles:
    """Opened files, or some of their frames; the base class of `Trajectory`."""

    def __init__(
        self,
        core: _core.Trajectory,
        topology: Topology | None = None,
        view: FrameSelection | None = None,
        *,
        hdf5: h5md.H5mdOptions | None = None,
        opening: dict[str, float] | None = None,
        stated: Mapping[str, str] | None = None,
        given: GivenFiles | None = None,
    ) -> None:
        self._core = core
        # names and patterns, as the files were opened
        self._given = GivenFiles(tuple(core.paths)) if given is None else given
        # shared by all views
        self._opening = {} if opening is None else opening
        self._timings: Timings | None = None
        self._hdf5 = hdf5
        self._stated = {} if stated is None else dict(stated)
        self._topology = topology
        self._view = view
        self._topology_fits = False
        #: findings of `broken_molecules.py`, by transforms and selection; shared by all views of the same files
        self.broken_molecules: dict[Any, Any] = {}
        #: each transform for a reference of other atoms, None for a transform that names atoms by number
        self.for_other_atoms: tuple[Transform | None, ...] = (None,) * len(core.transforms)
        #: whether it stands for an MDAnalysis Universe at one frame: no other frame can be read
        self.is_one_frame = False

    def snapshot(self) -> bytes:
        """The topology, which is read now, and the options of HDF5 files, serialised for other processes.

        From this and the core's snapshot (`_core.Trajectory.pack`), `from_snapshot` makes the same trajectory without
        opening a file.
        """
        topology = None if self._topology is None else self._topology.snapshot()
        return pickle.dumps((topology, self._hdf5, self._stated), protocol=pickle.HIGHEST_PROTOCOL)

    @classmethod
    def from_snapshot(cls, core: _core.Trajectory, snapshot: bytes) -> Self:
        """The trajectory of a `snapshot`; `core` is made from the same process's snapshot of the files."""
        topology, hdf5, stated = pickle.loads(snapshot)
        return cls(core, None if topology is None else Topology(topology), hdf5=hdf5, stated=stated)

    def with_core(self, core: _core.Trajectory) -> Self:
        """The same frames and topology with another Rust half of the same files; for data sets."""
        return self._with(core, self._view)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles paths and options, with headers and indices; finds the frames first if necessary.

        Unpickling opens no file. A file's identity is checked when it is first read: CorruptFileError or
        TruncatedFileError if it has changed, or is a different file on that machine.
        """
        self.scan()
        snapshot, data = TrajectorySnapshot.take(self._core, absolute=True)
        others = self.for_other_atoms
        return _unpickled, (type(self), snapshot, data, self._topology, self._view, self._hdf5, self._stated, others)

    # -- finding frames ------------------------------------------------------------------------------------------

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, in order."""
        return tuple(self._core.paths)

    @property
    def core(self) -> _core.Trajectory:
        """The Rust half, shared by all views of the same files; for runners."""
        return self._core

    @property
    def n_frames(self) -> int:
        """Number of frames; finds all frames of all files if that has not been done."""
        self.scan()
        return self._core.n_frames if self._view is None else len(self._view)

    def __len__(self) -> int:
        return self.n_frames

    @property
    def wide_fields(self) -> frozenset[str]:
        """The fields among positions, velocities and forces that float32 cannot hold exactly, in any of the files."""
        return frozenset(field for info in self._core.parts() for field in info["wide_fields"])

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files of the whole trajectory, even of a view, with the frames that are kept of each."""
        self.scan()
        return tuple(Part.from_core(info) for info in self._core.parts())

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Places where a file begins later than one frame after its predecessor's end, or earlier."""
        self.scan()
        return tuple(Gap.from_core(info) for info in self._core.gaps())

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for users of the frames: odd files, frames left out or replaced by another part's, gaps, and findings
        in frames that have been read: invalid cells, values that were never written.

        Each is also a warning of class `kinema.Note` when the frames have been found, or read.
        """
        return (*notes_of(self.parts, self.gaps), *self._core.frame_notes())

    def note_frames(self) -> None:
        """Emits each new note on frames that have been read, and the troubles of node caches."""
        emit(self._core.frame_notes(new=True))
        emit_troubles()

    def refresh(self) -> int:
        """Scans for frames that were appended to the files since they were opened, and returns the number of frames.

        For files that a simulation is still writing. Existing views keep their frames.

        Raises ArgumentError for a view.
        """
        if self._view is not None:
            raise ArgumentError("a view of some frames cannot be refreshed; refresh the trajectory that it is of")
        before = self.notes if self._core.scanned else ()
        self.refresh_as(self._given.checked())
        emit_once(note for note in self.notes if note not in before)
        return self._core.n_frames

    def refresh_as(self, paths: Sequence[str] | None = None, *, settled: bool = False, finished: bool = False) -> None:
        """As `refresh`, with these files and without notes: unchanged known parts are not opened.

        Frames that may still be written are left out; with less caution if the files are `settled`, unchanged for long,
        and with none if they are `finished`: then they are opened as by `open`.
        """
        self._core = opened_again(self._core, paths, settled=settled, finished=finished)

    def scan(
        self,
        *,
        workers: int | None = None,
        progress: ProgressChoice = False,
        search: Callable[[_core.Trajectory], None] | None = None,
        skip_damaged: bool = False,
    ) -> None:
        """Finds all frames of all files now; does nothing if they are known.

        `search` is called first: a parallel scan, such as by MPI ranks. The whole scan is timed. With `skip_damaged`,
        bytes of an XTC file without a frame header are not an error: they count as one frame, which cannot be read, has
        no time and the step of the frame before it, and appears in a note and in `damaged` of `parts`.
        """
        if self._core.scanned:
            return
        began = time.perf_counter()
        if search is not None:
            search(self._core)
        total = sum(os.path.getsize(path) for path in self.paths if os.path.exists(path))
        with reporting(progress, "finding frames", total, "bytes") as report:
            self._core.scan(worker_count(workers), report, skip_damaged)
        self._opening["frames"] = time.perf_counter() - began
        emit_once([*notes_of(self.parts, self.gaps), *self._core.frame_notes(new=True)])

    def store_atom_checkpoints(
        self, *, workers: int | None = None, progress: ProgressChoice = False
    ) -> list[tuple[str, int, str | None] | None]:
        """Reads all frames and stores checkpoints of every 4096th atom, in the user's cache folder.

        XTC files that are opened later start decoding there, so that atoms at the end of a large system are read
        without the atoms before them; a checkpoint takes 8 bytes. Returns path, number of checkpoints and note for each
        file, None for a file that does not need them. Raises ArgumentError if the trajectory was opened with
        stored=False.
        """
        self.scan(workers=workers)
        total = sum(part.size for part in self.parts)
        with reporting(progress, "making atom checkpoints", total, "bytes") as report:
            return _core.store_atom_checkpoints(self._core, workers=worker_count(workers), progress=report)

    def store_checksums(self, *, workers: int | None = None, progress: ProgressChoice = False) -> list[StoredChecksums]:
        """Reads all frames and stores a checksum of the bytes of each, for `kinema.check` to compare with the file.

        Checksums are stored beside each file, or in the user's cache folder. Checksums of the unchanged beginning of a
        file stay; with `index="rebuild"` all are replaced. Raises ArgumentError for formats whose frames are not
        contiguous bytes (H5MD, formats read by MDAnalysis) and for a trajectory that was opened with stored=False;
        CorruptFileError for a frame that has changed since its checksum was stored.
        """
        # imported here, because it brings threads and hashes
        from kinema.storage.frame_checksums import store_checksums

        self.scan(workers=workers)
        numbers = range(len(self.paths))
        stored = [store_checksums(self._core, part, workers=workers, progress=progress) for part in numbers]
        emit(note for one in stored for note in one.notes)
        return stored

    # -- views ----------------------------------------------------------------------------------------------------

    def read_otherwise(self, core: _core.Trajectory, hdf5: h5md.H5mdOptions | None) -> Self:
        """The same frames after the same transforms, from the same files reopened with other options."""
        made = self._with(core.with_transforms([*self._core.transforms]), self._view)
        made._hdf5 = hdf5
        return made

    def with_topology(self, topology: Topology) -> Self:
        """The same frames with another topology of the same number of atoms."""
        made = self._with(self._core, self._view)
        made._topology, made._topology_fits = topology, False
        return made

    def viewed_trajectory(self) -> Self:
        """The trajectory that this is a view of."""
        return self._with(self._core, None)

    def _with(self, core: _core.Trajectory, view: FrameSelection | None) -> Self:
        own: dict[str, Any] = {"hdf5": self._hdf5, "opening": self._opening, "stated": self._stated}
        made = type(self)(core, self._topology, view, given=self._given, **own)
        made._topology_fits = self._topology_fits
        made.broken_molecules = self.broken_molecules
        if len(core.transforms) == len(self.for_other_atoms):
            made.for_other_atoms = self.for_other_atoms
        return made

    def _frames(self, choice: FrameChoice) -> FrameSelection:
        """The frames that `choice` names within this view, as numbers in the whole trajectory."""
        inner = resolve(choice, self.n_frames)
        return inner if self._view is None else self._view.compose(inner)

    def choose(
        self, start: int | None = None, stop: int | None = None, step: int | None = None, frames: FrameChoice = None
    ) -> FrameSelection:
        """The frames that the arguments of an analysis's `run` name, as numbers in the whole trajectory.

        Raises ArgumentError for no frames at all, or for both `frames` and one of the others.
        """
        inner = resolve_run(start, stop, step, frames, self.n_frames)
        return inner if self._view is None else self._view.compose(inner)

    def same_frames(self, other: OpenedFiles) -> bool:
        """Whether both are the same frames of the same opened files, with the same transforms."""
        return self._core.is_same(other._core) and self._frames(None) == other._frames(None)

    def _view_values(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self._view is None else values[self._view.numbers()]


def _unpickled(
    cls: type[OpenedFiles],
    snapshot: TrajectorySnapshot,
    data: NDArray[np.uint8],
    topology: Topology | None,
    view: FrameSelection | None,
    hdf5: h5md.H5mdOptions | None,
    stated: Mapping[str, str],
    for_other_atoms: tuple[Transform | None, ...],
) -> OpenedFiles:
    made = cls(snapshot.open(data), topology, view, hdf5=hdf5, stated=stated)
    made.for_other_atoms = for_other_atoms
    return made
