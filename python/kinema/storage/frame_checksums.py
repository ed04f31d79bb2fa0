"""Checksums of frames: a hash of the bytes of each frame of a file, stored by `kinema index --checksums`.

They are beside the file, in `.NAME.kinema-checksums`, or in the cache folder if nothing can be written there. They are
a record of `kinema.storage.stored_records` with three columns: offset, length and BLAKE2b-64 of each frame's bytes.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError, Error, FileNotFound
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import read_regular
from kinema.base.printable import printable
from kinema.base.progress import ProgressChoice, reporting
from kinema.base.resources import worker_count
from kinema.storage.output_file import write_index
from kinema.storage.stored_records import DAMAGE, Record, RecordFolder, decoded_record, encoded_record

_KIND = "checksums"
# version of the hashed content and the hash: it changes with either
_FACTS = {"of": "bytes of frames", "hash": "BLAKE2b-64", "version": 1}
_DIGEST = 8
# most bytes of a record, with 24 a frame; most bytes of all records in the cache folder
_MOST, _MOST_OF_ALL = 1 << 30, 4 << 30
# bytes that a worker reads at a time: whole frames, or a piece of a longer frame
_PIECE = 4 << 20
_FRAME_NAMES = ("offsets", "lengths", "sums")


@dataclass(frozen=True, eq=False)
class FrameChecksums:
    """Checksums of the frames of a file, from the first frame on.

    `offsets`, `lengths`, `sums`: (frames,) uint64.
    `identity`: identity of the file when the checksums were stored.
    `modified`, `made`: the file's time of modification and the time of storing, in nanoseconds since 1970.
    """

    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint64]
    sums: NDArray[np.uint64]
    identity: _core.FileIdentity
    modified: int
    made: int

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def ends(self) -> NDArray[np.uint64]:
        """Offset of the byte after each frame."""
        return self.offsets + self.lengths

    def are_of(self, path: str, n_equal: int, n_compared: int) -> bool:
        """Whether the checksums belong to the trajectory in a file, given how many of its frames have the same bytes.

        A file of several frames that has been written since counts as another file if most of its frames differ: then
        nothing is damaged.
        """
        if n_compared < 2 or os.stat(path).st_mtime_ns == self.modified:
            return n_compared > 0
        return 2 * n_equal >= n_compared


@dataclass(frozen=True)
class StoredChecksums:
    """Outcome of storing checksums: their path, number of frames, number of frames added now, and notes."""

    path: str
    n_frames: int
    n_added: int
    notes: tuple[str, ...] = ()


def load_checksums(path: str) -> tuple[FrameChecksums | None, str]:
    """The last stored checksums of a file, or None; and the reason why stored ones cannot be used, or "".

    The caller must check whether they belong to the file in its current state.
    """
    found, _, why_not = _load(path)
    return found, why_not


def store_checksums(
    core: _core.Trajectory, part: int, *, workers: int | None = None, progress: ProgressChoice = False
) -> StoredChecksums:
    """Stores checksums of all whole frames of a part, which has been scanned.

    Checksums stored earlier for the unchanged beginning of the file stay. Raises ArgumentError if the trajectory was
    opened to store nothing, and for formats whose frames are not one run of bytes each; CorruptFileError if a frame
    differs from its stored checksum, unless the trajectory was opened with index="rebuild", and if the file changes
    meanwhile.
    """
    info = core.parts()[part]
    _check_kind(core, info)
    path = info["path"]
    identity = _core.FileIdentity.of(path)
    modified = os.stat(path).st_mtime_ns
    offsets, lengths = core.extents(part)
    known, place, why_not = (None, "", "") if core.index == "rebuild" else _load(path)
    notes = [f"{why_not}; they are made again"] if why_not else []
    state = "changed" if known is None else known.identity.state_of(path)
    if known is not None and state == "unchanged" and len(known) == len(offsets):
        return StoredChecksums(place, len(known), 0)
    kept = known.sums if known is not None and state != "changed" and _same_places(known, offsets, lengths) else None
    n_kept = 0 if kept is None else len(kept)
    sums = checksums_of(
        path,
        offsets[n_kept:],
        lengths[n_kept:],
        node_cache=core.recipe()["node_cache"],
        workers=workers,
        progress=progress,
        title="making checksums of",
    )
    if kept is not None:
        sums = np.concatenate((kept, sums))
    elif known is not None:
        notes += _compared(path, known, offsets, lengths, sums)
    if identity.state_of(path) != "unchanged" or not _is_scanned(core, part, identity):
        raise CorruptFileError(
            "the file was changed while its checksums were made; make them when nobody writes it", at=path
        )
    made = FrameChecksums(offsets, lengths, sums, identity, modified, time.time_ns())
    place, noted = _save(path, made)
    notes += [noted] if noted else []
    return StoredChecksums(place, len(sums), len(sums) - n_kept, tuple(notes))


def checksums_of(
    path: str,
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    *,
    node_cache: _core.NodeCache | None = None,
    workers: int | None = None,
    progress: ProgressChoice = False,
    title: str,
) -> NDArray[np.uint64]:
    """BLAKE2b-64 of each of these byte runs of a file, in ascending order. Raises as reading does."""
    # importing it takes longer than everything else here
    from hashlib import blake2b

    pool = _core.FilePool(1, node_cache=node_cache)
    sums = np.empty(len(offsets), np.uint64)

    def read(start: int, length: int) -> memoryview:
        out = np.empty(length, np.uint8)
        _core.Rows([(path, 1, (start, length))], length, pool).read(np.zeros(1, np.int64), out, 1)
        return out.data

    def add(first: int, stop: int) -> int:
        """Hashes some adjacent frames; returns their number of bytes."""
        start, end = int(offsets[first]), int(offsets[stop - 1] + lengths[stop - 1])
        if end - start > _PIECE:
            whole = blake2b(digest_size=_DIGEST)
            for at in range(start, end, _PIECE):
                whole.update(read(at, min(_PIECE, end - at)))
            digests = [whole.digest()]
        else:
            data = read(start, end - start)
            cuts = [(int(offsets[i]) - start, int(lengths[i])) for i in range(first, stop)]
            digests = [blake2b(data[at : at + length], digest_size=_DIGEST).digest() for at, length in cuts]
        sums[first:stop] = np.frombuffer(b"".join(digests), "<u8")
        return end - start

    n_workers, total, done = worker_count(workers), int(lengths.sum()), 0
    runs = _runs(offsets, lengths)
    described = f"{title} {os.path.basename(path)}"
    with reporting(progress, described, total, "bytes") as report, ThreadPoolExecutor(n_workers) as threads:
        while some := list(itertools.islice(runs, 4 * n_workers)):
            done += sum(threads.map(add, *zip(*some, strict=True)))
            if report is not None:
                report(done, total)
    return sums


def _runs(offsets: NDArray[np.uint64], lengths: NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
    """Yields (first, stop) of frames that are read together: adjacent frames, or one longer frame."""
    starts, ends = offsets.tolist(), (offsets + lengths).tolist()
    first = 0
    for frame in range(1, len(starts) + 1):
        if frame == len(starts) or starts[frame] != ends[frame - 1] or ends[frame] - starts[first] > _PIECE:
            yield first, frame
            first = frame


def _check_kind(core: _core.Trajectory, info: _core.PartInfo) -> None:
    """Raises ArgumentError if no checksums can be stored."""
    path = info["path"]
    if not core.stores:
        raise ArgumentError(f"{path}: checksums are not stored for a trajectory that is opened with stored=False")
    if info["hdf5"]:
        raise ArgumentError(
            "checksums are of frames that are one run of bytes each, and HDF5 stores values in chunks; "
            "`kinema repack --checksum` (kn.repack(checksum=True)) gives each chunk a Fletcher-32 checksum, which all "
            "readers compare",
            at=path,
        )
    if info["format"] not in {one["name"] for one in _core.formats()}:
        raise ArgumentError(
            f"checksums are of frames that are one run of bytes each, and {info['format']}, which reads this "
            "file, does not say where frames lie; convert it (`kinema convert`) to XTC, TRR, DCD or NetCDF first",
            at=path,
        )


def _same_places(known: FrameChecksums, offsets: NDArray[np.uint64], lengths: NDArray[np.uint64]) -> bool:
    n = len(known)
    return (
        n <= len(offsets) and np.array_equal(known.offsets, offsets[:n]) and np.array_equal(known.lengths, lengths[:n])
    )


def _is_scanned(core: _core.Trajectory, part: int, identity: _core.FileIdentity) -> bool:
    """Whether the file is the one in which the scan found the frames."""
    return core.identity(part, 0).is_unchanged(_core.FileIdentity.of(core.parts()[part]["path"], 0))


def _compared(
    path: str,
    known: FrameChecksums,
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    sums: NDArray[np.uint64],
) -> list[str]:
    """Notes on replaced checksums of a changed file; raises CorruptFileError if frames of the file are damaged."""
    n = min(len(known), len(sums))
    equal = (known.offsets[:n] == offsets[:n]) & (known.lengths[:n] == lengths[:n]) & (known.sums[:n] == sums[:n])
    n_equal = int(equal.sum())
    if n_equal == len(known):
        return []
    if known.are_of(path, n_equal, len(known)):
        frame = int(np.argmin(equal)) if n_equal < n else n
        offset = int(known.offsets[frame])
        raise CorruptFileError(
            f"frame {frame}, byte {offset}: the bytes of the frame are not those whose checksum was stored; "
            "`kinema check` lists all such frames, `kinema index --checksums --rebuild` stores the checksums of the "
            "file as it is",
            at=path,
            frame=frame,
            offset=offset,
        )
    return [f"the checksums that were stored before were of another file of this name ({len(known):,} frames)"]


def _path_beside(path: str) -> str:
    folder, name = os.path.split(os.path.realpath(path))
    return os.path.join(folder, f".{name}.kinema-checksums")


def _cache_folder() -> RecordFolder:
    return RecordFolder(_KIND, "auto", most=_MOST, most_of_all=_MOST_OF_ALL)


def _load(path: str) -> tuple[FrameChecksums | None, str, str]:
    """As `load_checksums`, and the path of the checksums."""
    found: list[tuple[FrameChecksums, str]] = []
    reasons: list[str] = []
    place = _path_beside(path)
    try:
        record = decoded_record(read_regular(place, "checksums of frames", _MOST), None, _FACTS)
        found.append((_understood(record), place))
    except (FileNotFound, FileNotFoundError):
        pass
    except DAMAGE as error:
        reasons.append(f"the checksums in {place} cannot be used: {error}")
    folder = _cache_folder()
    record, why_not = folder.load(os.fsencode(os.path.realpath(path)), None, _FACTS)
    if why_not:
        reasons.append(f"the checksums of {path} in the cache folder cannot be used: {why_not}")
    elif record is not None:
        try:
            found.append((_understood(record), "the cache folder"))
        except DAMAGE as error:
            reasons.append(f"the checksums of {path} in the cache folder cannot be used: {error}")
    if found:
        newest, place = max(found, key=lambda one: one[0].made)
        return newest, place, ""
    return None, "", printable("; ".join(reasons))


def _understood(record: Record | None) -> FrameChecksums:
    """The checksums in a record; raises ValueError and others of `DAMAGE` if it does not hold checksums."""
    if record is None or record.identity is None:
        raise ValueError("another version of Kinema stored them")
    offsets, lengths, sums = (record.arrays[name].astype(np.uint64) for name in _FRAME_NAMES)
    modified, made = record.values["modified"], record.values["made"]
    if type(modified) is not int or type(made) is not int or not len(offsets) == len(lengths) == len(sums):
        raise ValueError("their columns do not fit each other")
    # bytes from others: no run may be empty, overlap another, or reach beyond the file, which bounds later reads
    size = np.uint64(record.identity.size)
    if (offsets > size).any() or (lengths > size).any() or (lengths == 0).any():
        raise ValueError("they name bytes beyond the file")
    ends = offsets + lengths
    if (ends > size).any() or (ends[:-1] > offsets[1:]).any():
        raise ValueError("they name bytes beyond the file, or twice")
    return FrameChecksums(offsets, lengths, sums, record.identity, modified, made)


def _save(path: str, made: FrameChecksums) -> tuple[str, str | None]:
    """Stores checksums beside the file, or in the cache folder; returns the path and a note. Raises FileIOError."""
    columns: Sequence[NDArray[np.uint64]] = (made.offsets, made.lengths, made.sums)
    record = Record({"modified": made.modified, "made": made.made}, dict(zip(_FRAME_NAMES, columns, strict=True)))
    data = encoded_record(record, made.identity, _FACTS)
    if len(data) > _MOST:
        raise ArgumentError(
            f"{path}: checksums of {len(made):,} frames take {len(data):,} bytes, expected at most {_MOST:,}"
        )
    place = _path_beside(path)
    try:
        return place, write_index(place, data)
    except (OSError, Error) as error:
        why_not = str(error)
    folder = _cache_folder()
    if not folder.stores:
        raise ArgumentError(f"checksums can be stored nowhere: {why_not}; there is no cache folder", at=path)
    failed = folder.store(os.fsencode(os.path.realpath(path)), made.identity, _FACTS, record)
    if failed:
        raise ArgumentError(f"checksums can be stored nowhere: {why_not}; {failed}", at=path)
    return "the cache folder", None
