"""The papers' benchmark case: 98 real frames of adenylate kinase, repeated to a long XTC and DCD trajectory; shorter
trajectories of the same frames in the other formats.

`repeat` repeats the frames, `kinema.convert` makes the other formats. This module measures nothing.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinema.base.errors import ArgumentError, FileNotFound, MissingPackageError
from kinema.base.notes import collected
from kinema.demo.repeat import repeat_dcd, repeat_xtc, repeated_size
from kinema.files.convert import convert
from kinema.storage.output_file import write_whole
from kinema.trajectory.opening import open as open_trajectory

SELECTION = "protein and name CA"
_GROUP = "C-alpha"
# the part of a disk's free space that the demo may fill
_SHARE_OF_DISK = 0.6

# formats beside XTC and DCD: name, suffix, most frames (enough for a steady rate), options; the dialect is
# MDAnalysis', and text is 12 times as large
_OTHERS: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("TRR", "trr", 9_800, {}),
    ("NetCDF", "nc", 9_800, {}),
    ("H5MD", "h5md", 9_800, {"dialect": "mdanalysis"}),
    ("DL_POLY HISTORY", "history", 980, {"format": "history"}),
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class LongTrajectory:
    """A measured file."""

    format: str
    path: Path
    n_frames: int


@dataclass(frozen=True)
class Case:
    """Files of the benchmark.

    `topology`, `source`: the real PSF and DCD of 98 frames from MDAnalysisTests.
    `xtc`, `dcd`: the long trajectories.
    `index_file`, `group`: the C-alpha atoms as an index file, for runs without a topology.
    `n_frames`: number of frames of XTC and DCD.
    `others`: the first frames in other formats.
    """

    topology: Path
    source: Path
    xtc: Path
    dcd: Path
    index_file: Path
    group: str
    n_frames: int
    others: tuple[LongTrajectory, ...]

    @property
    def trajectories(self) -> tuple[LongTrajectory, ...]:
        """All measured files."""
        long = (LongTrajectory(path.suffix[1:].upper(), path, self.n_frames) for path in (self.xtc, self.dcd))
        return (*long, *self.others)


def make_case(
    folder: Path, frames: int = 100_000, progress: Progress | None = None, *, overwrite: bool = False
) -> Case:
    """Makes the case in `folder`, or reuses the files of an earlier call.

    `folder`: made if it does not exist.
    `frames`: largest number of frames; whole repetitions of the 98 frames are written, fewer if the disk is small.
    `progress`: called with bytes written and bytes in all.
    `overwrite`: replace long trajectories of another number of frames.

    Raises FileNotFound without MDAnalysisTests; ArgumentError for fewer than 98 frames, a disk without space for 98,
    and long trajectories of another number of frames.
    """
    topology, source = real_files()
    folder.mkdir(parents=True, exist_ok=True)
    short_xtc = folder / "adk_98_frames.xtc"
    index_file = folder / "c-alpha.ndx"
    if not (short_xtc.exists() and index_file.exists()):
        _write_short_files(topology, source, short_xtc, index_file)
    targets = {name: folder / f"adk_long.{name}" for name in ("xtc", "dcd")}
    there = sum(path.stat().st_size for path in targets.values() if path.exists())
    sources = {"xtc": short_xtc, "dcd": source}
    size_of_one, short = 0, 0
    for path in sources.values():
        size, short = repeated_size(path, 1)
        size_of_one += size
    repeats = _repeats(folder, frames, short, size_of_one, there)
    sizes = {name: repeated_size(path, repeats)[0] for name, path in sources.items()}
    for name, path in targets.items():
        if path.exists() and path.stat().st_size != sizes[name] and not overwrite:
            raise ArgumentError(
                f"{path}: does not have the {repeats * short:,} frames of this call; name another folder, or "
                "overwrite=True replaces it",
                path=str(path),
            )
    total, done = sum(sizes.values()), 0
    for name, repeat in (("xtc", repeat_xtc), ("dcd", repeat_dcd)):
        if not (targets[name].exists() and targets[name].stat().st_size == sizes[name]):
            before = done
            report = None if progress is None else lambda n, before=before: progress(before + n, total)
            repeat(sources[name], targets[name], repeats, report)
        done += sizes[name]
    n_frames = repeats * short
    others = _other_formats(targets["dcd"], topology, n_frames)
    return Case(topology, source, targets["xtc"], targets["dcd"], index_file, _GROUP, n_frames, others)


def _other_formats(source: Path, topology: Path, n_frames: int) -> tuple[LongTrajectory, ...]:
    """The first frames of the long DCD in other formats, beside it; existing files are reused as they are."""
    others = []
    for name, suffix, most, options in _OTHERS:
        frames = min(n_frames, most)
        path = source.with_name(f"adk_{frames}_frames.{suffix}")
        if not path.exists():
            with collected():  # of times and cells that DCD files do not have
                convert(source, path, topology=topology, stop=frames, verify=False, **options)
        others.append(LongTrajectory(name, path, frames))
    return tuple(others)


def real_files() -> tuple[Path, Path]:
    """The PSF and DCD in MDAnalysisTests, which is not imported: that would take seconds."""
    found = importlib.util.find_spec("MDAnalysisTests")
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError(
            "the demo's real trajectory is in MDAnalysisTests; install it with: pip install MDAnalysisTests"
        )
    folder = Path(found.submodule_search_locations[0]) / "data"
    topology, source = folder / "adk.psf", folder / "adk_dims.dcd"
    for path in (topology, source):
        if not path.exists():
            raise FileNotFound(f"{path}: no such file; install MDAnalysisTests again", path=str(path))
    return topology, source


def _repeats(folder: Path, frames: int, short: int, size: int, there: int) -> int:
    """How often the short trajectory, of `short` frames and `size` bytes in both formats, is repeated."""
    if frames < short:
        raise ArgumentError(f"the demo repeats {short} frames, expected at least as many, found --frames {frames}")
    space = shutil.disk_usage(folder).free * _SHARE_OF_DISK + there
    repeats = min(frames // short, int(space // size))
    if repeats < 1:
        raise ArgumentError(f"{folder}: no space for {size >> 20} MiB; name another folder with --folder")
    return repeats


def _write_short_files(topology: Path, source: Path, xtc: Path, index_file: Path) -> None:
    """The 98 frames as XTC, unless they are there, and the C-alpha atoms as an index file."""
    with collected():  # of a count in the header and a missing time step, known
        trajectory = open_trajectory(source, topology, stored=False)
        if not xtc.exists():
            convert(trajectory, xtc)
        atoms = trajectory.select(SELECTION).indices + 1
    lines = [f"[ {_GROUP} ]"]
    lines += [" ".join(map(str, atoms[i : i + 15])) for i in range(0, len(atoms), 15)]
    text = "\n".join(lines) + "\n"
    write_whole(index_file, lambda file: file.write(text.encode("ascii")))
