"""Comparison of frames' bytes with the checksums that `kinema index --checksums` has stored."""

from __future__ import annotations

import os

import numpy as np

from kinema.base.progress import ProgressChoice
from kinema.cache.node_cache import NodeCacheChoice, node_cache_of
from kinema.files.check.problems import Problem
from kinema.storage.frame_checksums import FrameChecksums, checksums_of, load_checksums
from kinema.trajectory.broken_molecules import sampled_frames

_REMEDY = "`kinema index --checksums --rebuild` stores checksums of the current file"


def compare_checksums(
    path: str,
    n_frames: int | None,
    *,
    headers_only: bool,
    quick: bool,
    node_cache: NodeCacheChoice = None,
    workers: int | None,
    progress: ProgressChoice,
) -> tuple[list[Problem], list[str]]:
    """Problems of the frames that differ from their stored checksums, and notes; both empty without checksums.

    Frames are read at their stored offsets, so damage that hides frames from a scan is found too. `n_frames` is the
    number of frames in the file now, None if unknown. With `quick`, the first frame, the last and 16 between are
    compared.
    """
    known, why_not = load_checksums(path)
    if why_not:
        return [], [f"{why_not}; no frame was compared, `kinema index --checksums` replaces them"]
    if known is None or not len(known):
        return [], []
    if headers_only:
        return [], [f"{path}: checksums are stored, and were not compared: frame headers alone were read"]
    there = known.ends <= np.uint64(os.path.getsize(path))
    chosen = np.flatnonzero(there)
    if quick:
        chosen = chosen[np.isin(chosen, sampled_frames(len(known)))]
    cache = None if node_cache is None else node_cache_of(node_cache)
    sums = checksums_of(
        path,
        known.offsets[chosen],
        known.lengths[chosen],
        node_cache=None if cache is None else cache.core,
        workers=workers,
        progress=progress,
        title="comparing checksums of",
    )
    equal = sums == known.sums[chosen]
    if not known.are_of(path, int(equal.sum()), len(chosen)):
        what = f"{path}: the stored checksums are of another file and were not used; {_REMEDY}"
        return [], [what]
    problems = [_differs(path, known, int(frame)) for frame in chosen[~equal]]
    if not there.all():
        problems.append(_ends_early(path, known, int(np.argmin(there))))
    return problems, _notes(path, known, n_frames, written=bool(problems))


def _differs(path: str, known: FrameChecksums, frame: int) -> Problem:
    first, end = int(known.offsets[frame]), int(known.ends[frame])
    message = f"its bytes, {first} to {end - 1}, are not those whose checksum was stored"
    return Problem("checksum", path, frame, message)


def _ends_early(path: str, known: FrameChecksums, frame: int) -> Problem:
    message = (
        f"the file ends before byte {int(known.ends[frame])}, where the frame ended when checksums of {len(known):,} "
        "frames were stored"
    )
    return Problem("checksum", path, frame, message)


def _notes(path: str, known: FrameChecksums, n_frames: int | None, *, written: bool) -> list[str]:
    notes = []
    if written and os.stat(path).st_mtime_ns != known.modified:
        notes.append(f"{path}: the file was written after its checksums were stored; if that was meant, {_REMEDY}")
    if n_frames is not None and n_frames > len(known):
        notes.append(
            f"{path}: frames {len(known)} to {n_frames - 1} were not compared: they were written after the checksums "
            "of the others were stored; `kinema index --checksums` adds theirs"
        )
    return notes
