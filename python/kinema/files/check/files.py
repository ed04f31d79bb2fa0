"""`check`: finds truncation, gaps, repeated times, NaN, jumps and wrong atom counts in trajectory files.

It changes no file and does not judge the physics.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as made_with
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError, TruncatedFileError, UnsupportedFormatError
from kinema.base.notes import collected, emit
from kinema.base.printable import counted, printable
from kinema.base.progress import ProgressChoice, reporting
from kinema.base.resources import parse_memory
from kinema.cache.node_cache import NodeCacheChoice
from kinema.files.check.headers import damaged_headers, header_problems, problems_between_parts
from kinema.files.check.motion import Motion, jumps
from kinema.files.check.problems import Problem, kind_of
from kinema.model.frame import VECTOR_FIELDS
from kinema.model.selection.atoms import AtomChoice
from kinema.model.selection.decoded_frames import Verdicts
from kinema.model.selection.frames import FrameSelection
from kinema.model.selection.readable_frames import (
    DamagedFrame,
    DecodedFrames,
    decode_frames,
    keep_verdicts,
    not_finite_rows,
)
from kinema.trajectory import Trajectory
from kinema.trajectory.bonds import bonds_of
from kinema.trajectory.broken_molecules import BrokenMolecules, MoleculeSearch, sampled_frames
from kinema.trajectory.opening import open

__all__ = ["CheckReport", "check"]

# The text of a report names at most this many problems of a kind; the report itself holds all.
_SHOWN_OF_A_KIND = 10
_DEFAULT_MEMORY = "128 MiB"


@dataclass(frozen=True)
class CheckReport:
    """The result of `check`.

    Attributes
    ----------
    paths : tuple of str
    n_frames, n_atoms : int
        `n_frames`: total of all files; `n_atoms`: of the first file that could be read.
    problems : tuple of Problem
    notes : tuple of str
        Oddities that are not problems: a count in a header that differs from the file's, fields that are left out,
        broken molecules.
    broken : dict of str to BrokenMolecules
        For each file in which molecules are broken at the faces of the cell: `frame`, the first such frame, and
        `broken`, the number broken in it; `frames`, the number of such frames, out of `seen` frames that were examined;
        `most`, the largest number broken in one frame.
    """

    paths: tuple[str, ...]
    n_frames: int
    n_atoms: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    broken: Mapping[str, BrokenMolecules] = made_with(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """The report in plain types, for JSON."""
        return {**dataclasses.asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        count = len(self.problems)
        found = "no problems" if self.ok else f"{count} problem{'s' if count > 1 else ''}"
        files = f"{len(self.paths)} files" if len(self.paths) > 1 else self.paths[0]
        head = f"{files}: {counted(self.n_frames, 'frame')} of {counted(self.n_atoms, 'atom')}, {found}"
        lines = [head]
        for kind in dict.fromkeys(problem.kind for problem in self.problems):
            same = [problem for problem in self.problems if problem.kind == kind]
            lines += [f"  {kind}: {problem}" for problem in same[:_SHOWN_OF_A_KIND]]
            if len(same) > _SHOWN_OF_A_KIND:
                lines.append(f"  {kind}: {len(same) - _SHOWN_OF_A_KIND:,} more")
        return "\n".join(map(printable, lines))


def check(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    topology: str | os.PathLike[str] | None = None,
    *,
    coordinates: bool = True,
    quick: bool = False,
    select: AtomChoice = None,
    index_file: str | os.PathLike[str] | None = None,
    group: str | None = None,
    bonds: Any = None,
    jump: float = 10.0,
    format: str | None = None,
    particles: str | None = None,
    external: str = "folder",
    units: Mapping[str, str] | None = None,
    dt: float | None = None,
    time_offset: float | None = None,
    t0: float | None = None,
    stored: bool = True,
    node_cache: NodeCacheChoice = None,
    workers: int | None = None,
    memory: int | str | None = None,
    progress: ProgressChoice = False,
) -> CheckReport:
    """Finds problems in files, which may be the parts of one trajectory.

    Frames whose checksums are stored (`Trajectory.store_checksums`) are compared with them, unless `stored` is False.

    Parameters
    ----------
    paths : path or list of paths
    topology : path, optional
        Its number of atoms is compared. If it has bonds, the check looks for molecules that are broken at the faces of
        the cell; they become notes, not problems.
    coordinates : bool
        Whether to read coordinates, to find NaN, jumps, corrupt frames and broken molecules; else frame headers only.
    quick : bool
        Check the first frame, the last, and 16 between instead of all frames. All headers are still checked.
    select, index_file, group : as `Trajectory.select`
        Look for broken molecules only among those that contain one of these atoms; by default among all.
    bonds : None, "guess", a file, or (n_bonds, 2) pairs of atoms
        As in `kinema.transforms.whole`, for topologies without bonds.
    jump : float
        A step between frames is a jump if the root-mean-square displacement of the atoms (nearest periodic image)
        exceeds the file's median by more than this factor.
    format, particles, external, units, dt, time_offset, t0, stored, node_cache : as `kinema.open`
        With `dt`, times within a file are computed from it, and the times in the file are not judged.
    workers, memory, progress : as in `Trajectory.blocks` and `run`

    Returns
    -------
    CheckReport

    Raises
    ------
    FileNotFound, FileAccessError, UnsupportedFormatError, ArgumentError
        If a file cannot be checked at all. Truncated and corrupt files are problems, not errors.

    Examples
    --------
    >>> report = kn.check("md.xtc")
    >>> report.problems
    ()
    """
    if not jump > 1:
        raise ArgumentError(f"jump must be above 1 times the usual step, found {jump:g}")
    names = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not names:
        raise ArgumentError("there is no file to check; give at least one")
    stated = {
        "format": format,
        "particles": particles,
        "external": external,
        "units": units,
        "dt": dt,
        "stored": stored,
        "node_cache": node_cache,
    }
    shift = {"time_offset": time_offset, "t0": t0}
    if not coordinates and (quick or bonds is not None or (select, index_file, group) != (None, None, None)):
        raise ArgumentError("quick, select, group and bonds are about coordinates, which coordinates=False leaves out")
    molecules = _Molecules(topology is not None, select, index_file, group, bonds)
    judged = _Judged(topology, coordinates, quick, molecules, jump, workers, memory, progress)
    # notes of opening about truncation and gaps are reported as problems instead
    with collected():
        for name in names:
            shift = judged.add(name, stated, shift)
        judged.compare_parts(stated | shift)
    emit(dict.fromkeys(judged.notes))
    return judged.report(names)


@dataclass(frozen=True)
class _Molecules:
    """The molecules among which broken ones are searched for."""

    has_topology: bool
    select: AtomChoice
    index_file: str | os.PathLike[str] | None
    group: str | None
    bonds: Any

    def search(self, part: Trajectory) -> MoleculeSearch | str | None:
        """The search for a file; a note if its bonds are unknown, None for a file that says nothing about bonds."""
        selection = None
        if (self.select, self.index_file, self.group) != (None, None, None):
            selection = part.select(self.select, index_file=self.index_file, group=self.group)
        table = None if part.topology is None else part.atoms
        stated = None if table is None else table.get("bonds")
        if self.bonds is None and (stated is None or not len(stated)):
            return _missing_bonds_note(part) if self.has_topology or selection is not None else None
        bonds = bonds_of(part, self.bonds)
        if self.bonds is None and not bonds.known:
            return _missing_bonds_note(part)
        return MoleculeSearch(part.n_atoms, bonds, selection, all_atoms=True)


def _missing_bonds_note(part: Trajectory) -> str:
    return (
        f"{part.topology_name or part.paths[0]} does not have the bonds of all molecules: broken ones were not looked "
        "for; bonds='guess' (--bonds guess) finds bonds by distances, bonds=FILE (--bonds FILE) takes them of another "
        "topology"
    )


@dataclass
class _Judged:
    """Findings about the files so far, and the settings of the check."""

    topology: str | os.PathLike[str] | None
    coordinates: bool
    quick: bool
    molecules: _Molecules
    jump: float
    workers: int | None
    memory: int | str | None
    progress: ProgressChoice
    problems: list[Problem] = made_with(default_factory=list)
    parts: list[Trajectory] = made_with(default_factory=list)
    notes: list[str] = made_with(default_factory=list)
    broken: dict[str, BrokenMolecules] = made_with(default_factory=dict)

    def add(self, name: str, stated: Mapping[str, Any], shift: dict[str, Any]) -> dict[str, Any]:
        """Opens and judges a file; returns the time shift of the next file."""
        try:
            # stored knowledge of the frames may be wrong too: the frames are found again and stored
            part = open(name, self.topology, index="rebuild" if stated["stored"] else "auto", **stated, **shift)
            part.scan(workers=self.workers, progress=self.progress, skip_damaged=True)
        except (CorruptFileError, TruncatedFileError, UnsupportedFormatError) as error:
            # a file of a known format is refused because of one of its frames: atom counts differ
            if isinstance(error, UnsupportedFormatError) and error.frame is None:
                raise
            self.problems.append(Problem(kind_of(error), name, error.frame, str(error)))
            self._add_checksums(name, None, stated)
            return shift
        if not self.parts and shift["t0"] is not None:
            # `t0` is the time of the very first frame; the other files are shifted as the first file is
            shift = {"time_offset": part.core.time_shift(), "t0": None}
        self.parts.append(part)
        self.notes += [f"{facts.path}: {warning}" for facts in part.parts for warning in facts.warnings]
        if part.core.hdf5:
            # it imports h5py
            from kinema.storage.hdf5.trust.other_files import note_drawn_in

            self.notes += note_drawn_in(name, stated["external"], stored=stated["stored"])
        self.problems += header_problems(part, decoded=self.coordinates)
        self.problems += _atom_counts(part, self.parts[0], self.topology)
        if self.coordinates and len(part):
            self._add_coordinates(part, stated)
        else:
            self.problems += damaged_headers(part)
        self._add_checksums(name, part.parts[0].file_frames, stated)
        self.notes += part.core.frame_notes()
        return shift

    def _add_checksums(self, name: str, n_frames: int | None, stated: Mapping[str, Any]) -> None:
        """Compares the bytes of frames with their checksums, if checksums are stored and may be used."""
        if not stated["stored"]:
            return
        # uses threads and hashes
        from kinema.files.check.checksums import compare_checksums

        problems, notes = compare_checksums(
            name,
            n_frames,
            headers_only=not self.coordinates,
            quick=self.quick,
            node_cache=stated["node_cache"],
            workers=self.workers,
            progress=self.progress,
        )
        self.problems += problems
        self.notes += notes

    def _add_coordinates(self, part: Trajectory, stated: Mapping[str, Any]) -> None:
        """Judges the decoded data of a file: all frames, or a sample."""
        path, n_frames = part.paths[0], len(part)
        search = None
        if part.n_atoms == self.parts[0].n_atoms and not _other_atoms(part, given=self.topology is not None):
            search = self.molecules.search(part)
        if isinstance(search, str):
            self.notes.append(search)
            search = None
        chosen = FrameSelection(range(n_frames))
        if self.quick and len(some := sampled_frames(n_frames)) < n_frames:
            chosen = FrameSelection(np.array(some, np.uint64))
            self.notes.append(f"{path}: coordinates of {len(some)} of {n_frames:,} frames were looked at")
        problems = [*_coordinates(part, chosen, search, self)]
        damaged = {problem.frame for problem in problems if problem.kind in ("corrupt", "truncated")}
        self.problems += [*problems, *_other_vectors(part, chosen, damaged, stated, self)]
        found = None if search is None else search.found
        if found is not None:
            self.broken[path] = found
            self.notes.append(f"{path}: {found}")

    def compare_parts(self, opened: Mapping[str, Any]) -> None:
        """Judges the transitions between files, if they can be parts of one trajectory."""
        if len(self.parts) > 1 and len({part.n_atoms for part in self.parts}) == 1:
            self.problems += problems_between_parts(
                open([part.paths[0] for part in self.parts], **opened), self.workers
            )

    def report(self, names: Sequence[str]) -> CheckReport:
        """All findings."""
        return CheckReport(
            paths=tuple(names),
            n_frames=sum(len(part) for part in self.parts),
            n_atoms=self.parts[0].n_atoms if self.parts else 0,
            problems=tuple(self.problems),
            notes=tuple(dict.fromkeys(self.notes)),
            broken=self.broken,
        )


def _other_atoms(part: Trajectory, *, given: bool) -> bool:
    """Whether the topology has other atoms, or comes from a damaged frame of the file: both are separate problems."""
    try:
        _ = part.topology
    except ArgumentError:
        return True
    except CorruptFileError:
        if given:
            raise
        return True
    return False


def _atom_counts(part: Trajectory, first: Trajectory, topology: object) -> Iterator[Problem]:
    path = part.paths[0]
    if part.n_atoms != first.n_atoms:
        message = f"has {part.n_atoms} atoms, but {first.paths[0]} has {first.n_atoms}"
        yield Problem("atoms", path, None, message)
    if topology is not None:
        try:
            _ = part.topology
        except ArgumentError as error:
            yield Problem("atoms", path, None, str(error))


def _coordinates(
    part: Trajectory, chosen: FrameSelection, search: MoleculeSearch | None, judged: _Judged
) -> Iterator[Problem]:
    """Finds coordinates that are not numbers, unusual motion, and frames that cannot be decoded.

    The numbers of these frames are kept for runs that leave them out. A frame without positions (TRR) is not a
    problem: it gets a note. `search` is given all frames that are decoded and finite.
    """
    workers, memory = judged.workers, judged.memory
    path = part.paths[0]
    verdicts = Verdicts(part.core)
    motion = Motion(part)
    damaged: list[DamagedFrame] = []
    not_finite: list[int] = []
    absent: list[int] = []
    todo = chosen
    with reporting(judged.progress, os.path.basename(path), len(part)) as report:
        while len(todo):
            done = 0
            try:
                for block in part.blocks(memory=memory or _DEFAULT_MEMORY, workers=workers, frames=todo):
                    assert block.positions is not None, "positions are what blocks read by default"
                    positions, cells, frames = block.positions, block.cells, block.frames
                    periodic, there = block.periodic, block.present["positions"]
                    if not there.all():
                        absent += frames[~there].tolist()
                        positions, cells, frames, periodic = (
                            values[there] for values in (positions, cells, frames, periodic)
                        )
                    not_finite += [int(frames[row]) for row in not_finite_rows(positions)]
                    if search is not None:
                        search.add(positions, cells, periodic, frames)
                    yield from _not_finite(path, positions, cells, frames)
                    motion.add(positions, cells, periodic, frames, absent)
                    done += len(block.frames)
                    if report is not None:
                        report(int(block.frames[-1]) + 1, len(part))
                break
            except (CorruptFileError, TruncatedFileError) as error:
                # an error names one frame; the frames after the last good block are decoded one by one
                limit = 0 if memory is None else parse_memory(memory)
                found = decode_frames(part.core, todo[done:], workers=workers, memory=limit, stored=False)
                if not found.damaged:
                    yield Problem(kind_of(error), path, error.frame, str(error))
                    return
                damaged += found.damaged
                todo = FrameSelection(range(0)) if len(found.damaged) == len(todo) - done else found.readable()
    if absent:
        judged.notes.append(
            f"{path}: {len(absent):,} of {len(chosen):,} frames have no positions, the first is frame {absent[0]}; "
            "analyses need frames= or step= that choose others"
        )
    yield from (Problem(kind_of(one.error), path, one.number, str(one)) for one in damaged)
    yield from (Problem("jump", path, frame, message) for frame, message in jumps(motion.steps, judged.jump))
    keep_verdicts(verdicts, part.core, DecodedFrames(chosen, tuple(damaged), tuple(not_finite)))


def _other_vectors(
    part: Trajectory, chosen: FrameSelection, known: set[int | None], stated: Mapping[str, Any], judged: _Judged
) -> Iterator[Problem]:
    """Frames whose velocities or forces cannot be decoded, except those that are known to be damaged.

    The result is not kept for later runs, because most of them read positions only.
    """
    (path,) = part.paths
    others = tuple(name for name in VECTOR_FIELDS if name != "positions" and name in part.fields)
    left = [number for number in chosen.numbers().tolist() if number not in known]
    if not others or not left:
        return
    core = part.core
    if core.hdf5:
        # a vector field without a row for some frames is not damaged
        again = open(path, **stated, absent="nan")
        again.scan(workers=judged.workers)
        core = again.core
    found = decode_frames(
        core,
        FrameSelection(np.array(left, np.uint64)),
        fields=others,
        workers=judged.workers,
        memory=0 if judged.memory is None else parse_memory(judged.memory),
        progress=judged.progress,
        stored=False,
    )
    yield from (Problem(kind_of(one.error), path, one.number, str(one)) for one in found.damaged)


def _not_finite(
    path: str, positions: NDArray[Any], cells: NDArray[Any], frames: NDArray[np.uint64]
) -> Iterator[Problem]:
    for i in not_finite_rows(positions):
        bad = np.flatnonzero(~np.isfinite(positions[i]).all(axis=1))
        message = f"coordinates of {bad.size} atoms are not finite, the first is atom {bad[0] + 1} (counted from 1)"
        yield Problem("nan", path, int(frames[i]), message)
    for i in np.flatnonzero(~np.isfinite(cells).all(axis=(1, 2))):
        yield Problem("nan", path, int(frames[i]), "cell is not finite")
