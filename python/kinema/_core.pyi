"""The Rust half of Kinema: files to frames, kernels, threads.

Private: the public names are in `kinema`. Lengths in angstrom, times in ps, sizes in bytes, durations in seconds.
Every function releases the GIL while it works and checks signals (Ctrl-C) about every 0.1 s.
"""

import builtins
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from kinema.model.selection.frames import FrameSelection

__version__: str

# why the trace that KINEMA_TRACE asks for could not begin when this module was imported
TRACE_ERROR: str | None

class TraceStatus(TypedDict):
    folder: str | None  # None: no trace is recorded
    compress: bool
    path: str | None  # the file of this process, once there is one
    events: int  # in the file
    lost: int  # that could not be written
    failure: str | None  # why

def trace_start(folder: str, compress: bool = False) -> None:
    """Begins to record events of this process; an error if the folder cannot be written, or if a trace is being recorded."""

def trace_stop() -> TraceStatus: ...
def trace_flush() -> TraceStatus:
    """Writes all that was recorded so far."""

def trace_enabled() -> bool: ...
def trace_epoch_ns() -> int:
    """The time now by the clock of events: nanoseconds since the Unix epoch."""

def trace_describe(label: str, value: str) -> None:
    """Writes a label and a value that describe the process to the front of its file."""

def trace_event(
    name: str,
    category: str,
    start_ns: int,
    ns: int,
    path: str | PathLike[str] | None = None,
    **arguments: float | str | None,
) -> None:
    """Records an event that has ended: `start_ns` since the Unix epoch, and its duration `ns`."""

class Span:
    """A `with` block that is an event."""

    def __init__(
        self, name: str, category: str, path: str | PathLike[str] | None = None, **arguments: float | str | None
    ) -> None: ...
    def __enter__(self) -> Span: ...
    def __exit__(self, *_raised: object) -> None: ...

# values of arguments, in the order in which they are listed to users
OVERLAP_VALUES: tuple[str, ...]
ON_TRUNCATED_VALUES: tuple[str, ...]
INDEX_VALUES: tuple[str, ...]
ACCESS_VALUES: tuple[str, ...]
DTYPE_VALUES: tuple[str, ...]
FIELD_VALUES: tuple[str, ...]
# lowest and highest level of each compression, None if it has no levels
COMPRESSION_LEVELS: dict[str, tuple[int, int] | None]

# called from the thread that started the work, about ten times a second: done, total
Progress = Callable[[int, int], None]

class FormatInfo(TypedDict):
    name: str
    extensions: list[str]
    file_names: list[str]  # that files have without an ending
    description: str
    reads: bool
    writes: bool
    encodes: bool  # whether `Encoder` makes such files
    places_atoms: bool  # whether each atom has a fixed place in a record: `AtomRecords`
    fields: list[str]
    length_unit: str
    time_unit: str
    reference: str

def formats() -> list[FormatInfo]: ...
def format_of(head: bytes) -> str | None:
    """Name of the format of a file that begins with these bytes, of which 2,056 are looked at."""

def made_file(seed: int, n_atoms: int, n_frames: int, kept: int) -> bytes:
    """The file that stands for positions that each process makes in its memory when it opens the file.

    Frame `i` is frame `i % kept`, of which all positions follow from the seed and the number. ArgumentError unless there
    are atoms and frames, of which some are kept."""

def zstd_head(encoded: bytes, most: int) -> bytes:
    """Decodes at most `most` bytes from the first bytes of a zstd frame. CorruptFileError if they do not begin one."""

def cpu_features() -> list[str]:
    """Names of the instruction sets that the hot loops use on this machine ("avx2", "bmi2", "fma")."""

def cache_folder() -> str | None:
    """Kinema's folder in the user's cache folder; it may not exist. None if the environment names none."""

def file_checksum(path: str) -> tuple[int, int]:
    """Size of a file in bytes, and the XXH3-64 of its content."""

def check_node_folder(path: str, fuse: bool) -> None:
    """Checks a folder for a node cache. ArgumentError if the folder is not the user's own, if others may write it, or if
    it is on a file system of other machines; FUSE counts as such a file system unless `fuse`."""

def fetch_published(
    host: str,
    port: int,
    key: bytes,
    name: bytes,
    size: int,
    checksum: int,
    target: str,
    *,
    step: float,
    timeout: float,
    progress: Progress | None = None,
) -> None:
    """Fetches a published file from a `PeerServer` into an empty file, and compares size and XXH3-64.

    `step`: seconds for each step; `timeout`: for all. Errors of the peer have no path: FileIOError, FileNotFound (it has
    no such file), CorruptFileError (other bytes), FileAccessError (other key). Errors of `target` have its path.
    """

class PeerServer:
    """Serves the files `folder/ID/NAME`, and blocks of a cache, to whoever proves the key of 32 bytes; threads and
    memory are bounded."""

    @property
    def address(self) -> tuple[str, int]: ...
    def __init__(
        self,
        folder: str,
        key: bytes,
        host: str,
        port: int = 0,
        *,
        cache: NodeCache | None = None,
        clients: int = 32,
        strangers: int = 32,
        step: float = 10.0,
        idle: float = 30.0,
    ) -> None: ...
    def counts(self) -> dict[str, int]: ...
    def close(self) -> None: ...
    def abandon(self) -> None:
        """To be called in a forked child, which has none of the threads."""

class DcdHeader(TypedDict):
    data: bytes  # all bytes before the first frame
    byte_order: str  # "<" | ">"
    marker_bytes: int  # of a record length: 4 | 8
    kind: str  # "CORD" | "VELD"
    control: list[int]  # the 20 integers of the first record
    control_offset: int  # byte at which they begin
    n_atoms: int
    n_fixed: int  # atoms that only the first frame holds
    has_cell: bool
    first_step: int
    stride: int  # steps between frames, at least 1
    claimed_frames: int  # as the header says
    n_frames: int  # complete frames in the file
    first_frame_bytes: int
    frame_bytes: int  # of every later frame
    leftover_bytes: int  # of an incomplete frame at the end

def dcd_header(path: str) -> DcdHeader:
    """The header of a DCD file and the sizes of its frames, for code that copies frames byte for byte.

    Raises errors with path and byte: FileNotFound, TruncatedFileError, CorruptFileError, UnsupportedFormatError.
    """

class NetcdfHeader(TypedDict):
    data: bytes  # all bytes before the first frame
    first_frame: int  # where it begins
    count_bytes: int  # of the number of records, which stands at byte 4: 4 | 8
    stride: int  # bytes from frame to frame; 0 of a restart, whose one frame is not a record
    frame_bytes: int  # of a frame without what only separates it from the next

def netcdf_header(path: str) -> NetcdfHeader:
    """The header of an AMBER NetCDF file in a classic format, for code that copies frames byte for byte.

    Raises errors with path and byte: FileNotFound, TruncatedFileError, CorruptFileError, UnsupportedFormatError.
    """

class HistoryHeader(TypedDict):
    data: bytes  # all bytes before the first frame
    record_bytes: int
    frame_records: int
    frames_at: tuple[int, int]  # columns of the second record that count frames; [start, stop)
    records_at: tuple[int, int]

def history_header(path: str) -> HistoryHeader:
    """The head of a DL_POLY HISTORY file with records of one width, for code that copies frames byte for byte.

    Raises errors with path and byte: FileNotFound, CorruptFileError, UnsupportedFormatError.
    """

class DlpolyAtoms(TypedDict):
    names: list[str]
    masses: list[float] | None
    charges: list[float] | None

def dlpoly_atoms(path: str) -> DlpolyAtoms:
    """Names, masses and charges of the atoms of a DL_POLY HISTORY (its first frame) or CONFIG file."""

def has_dlpoly_atoms(path: str) -> bool:
    """Whether a file is one of these by its first bytes."""

# names, masses and charges of atoms, and whether they are those that the records of the source have
AtomLabels = tuple[list[str] | None, list[float] | None, list[float] | None, bool]
def cells_of_lengths(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cells (n, 3, 3), row vectors, of lengths and angles in degrees (n, 6), as NetCDF has them: edges of
    length 0 are zero, their angles count as 90; NaN for those of no cell."""

def first_cell_not_kept(
    given: NDArray[np.float64], found: NDArray[np.float64], share: float
) -> tuple[int, str] | None:
    """The first of the cells (n, 3, 3) that a file does not hold, if it is read as that of `found`, and what is wrong."""

def mirrored_by_lengths(cells: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the cells (n, 3, 3) lengths and angles would mirror (n,): left-handed ones that are not right-angled."""

def lengths_of_cells(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lengths and angles in degrees (n, 6) of cells (n, 3, 3); angles of edges without a length are 90."""

class PartInfo(TypedDict):
    path: str
    format: str
    hdf5: bool  # whether it is stored in HDF5
    variant: str
    remarks: list[str]
    warnings: list[str]
    assumptions: list[str]  # of what the file does not say, and the user has not stated
    size: int  # bytes
    fields: list[str]
    wide_fields: list[str]  # vectors that float32 does not hold exactly
    extras: list[str]  # what frames have besides fields: "lambda"
    # units of length, velocity, force and time in angstrom, angstrom/ps, kJ/(mol angstrom), ps
    scales: tuple[float, float, float, float]
    file_frames: int  # complete frames in the file
    kept: tuple[int, int]  # the file's frames that belong to the trajectory, [start, stop)
    first_frame: int  # number of the first kept frame in the trajectory
    first_step: int | None  # of the file's first and last frame, from the index
    last_step: int | None
    first_time: float | None  # ps
    last_time: float | None
    fingerprint: str  # of the content (`FileIdentity.fingerprint`), hex
    index: str  # "arithmetic" | "structure" (HDF5) | "stored" | "extended" | "built"
    index_path: str | None
    index_note: str | None  # why a stored index or its atom checkpoints were not used, or why it could not be stored
    atom_checkpoints: int | None  # atoms between the atom checkpoints of each frame; None without
    truncation: str | None  # set when on_truncated="drop" dropped an incomplete last frame
    damaged: list[tuple[int, int, int]]  # frames that stand for damaged bytes, see `scan`: number, first and last byte

class FileIdentity:
    """The state of a file at one moment: inode, size, times of modification and of change, and samples of its content.

    Everything stored of a file keeps its identity, to find out later whether the file is unchanged. If inode, size and both
    times agree, nothing was changed. If inode and size agree and a time does not, this very file was touched, and the samples
    may miss the change. If the inode differs (a copy), size and samples decide."""

    @staticmethod
    def of(path: str, places: int = 16) -> FileIdentity:
        """The identity of a file now. `places` pieces of 4 KiB are hashed, and both ends; 0: nothing is read. FileNotFound, ..."""
    @staticmethod
    def from_bytes(data: bytes) -> FileIdentity:
        """ArgumentError for other bytes than those of `to_bytes`."""
    def to_bytes(self) -> bytes: ...
    @property
    def size(self) -> int:
        """Bytes of the file."""
    @property
    def fingerprint(self) -> str:
        """The content in 16 hexadecimal digits, the same for a copy; with other `places` another."""
    def is_unchanged(self, now: FileIdentity) -> bool:
        """Whether inode, size and times say that nothing was changed up to `now`."""
    def state_of(self, path: str) -> Literal["unchanged", "grown", "changed"]:
        """Compares the file of that name with this identity. Unchanged: its status is the same. Grown: up to the old end, its
        content is the same wherever it was sampled. Else changed. FileNotFound, ..."""
    def difference(self, now: FileIdentity) -> str | None:
        """Why the file has changed, or may have changed, in words; None if it has not. Both identities have equal `places`."""

class Gap(TypedDict):
    part: int  # the part that begins after the gap
    frame: int  # its first frame in the trajectory
    time_before: float | None
    time_after: float | None
    step_before: int | None
    step_after: int | None

class Trajectory:
    """Files as one trajectory. The constructor reads the header of the first file only."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        format: str | None = None,
        overlap: str = "last",  # "last" | "first" | "all"
        on_truncated: str = "drop",  # "drop" | "error"
        absent: str = "error",  # "error" | "nan" | "hold": vectors of frames that lack them
        index: str = "auto",  # "auto" (load, extend, build and store) | "memory" (never stored) | "rebuild"
        max_open_files: int = 64,
        units: Mapping[str, float] | None = None,  # factors to angstrom, ps, ...: "length", "time", "velocity", "force"
        dt: float | None = None,  # ps between frames of a file, in place of its times
        time_offset: float | None = None,  # ps, added to all times
        first_time: float | None = None,  # ps, of the first frame; all times are shifted
        describe: Callable[[str], Any] | None = None,  # path of an HDF5 file -> kinema.formats.h5md.H5mdDescription; picklable
        external: Callable[[str], Any] | None = None,  # path of a file of no known format -> the same, or None; picklable
        write_index: Callable[[str, bytes], str | None] | None = None,  # whole or not at all; gives a note; None: not stored
        snapshot: NDArray[np.uint8] | None = None,  # of another process (`snapshot`), with the same other arguments
        record_reads: bool = False,
        pool: FilePool | None = None,  # files that are open, shared with others
        catalogue: str | None = None,  # that the snapshot is kept in, for errors
        node_cache: NodeCache | None = None,  # what files are read through; not with a pool, which has its own
        growing: bool = False,  # the files are being written: what may still be filled is not damage; nothing is stored
        settled: bool = False,  # they stand still: few zeros at the end of a frame are numbers, nobody waits for their times
        previous: Trajectory | None = None,  # of some of the files as they were: their frames are known; growing
        transforms: Sequence[Transform] = (),  # what is done to each frame that is read
    ) -> None: ...
    def with_transforms(self, transforms: Sequence[Transform]) -> Trajectory:
        """The same opened files with these transforms, in place of those that it has."""
    @property
    def transforms(self) -> tuple[Transform, ...]: ...
    def is_same(self, other: Trajectory) -> bool:
        """Whether both give the same frames: of the same opened files, with the same transforms."""
    def unindexed(self) -> list[tuple[int, int, int]]:
        """The parts that must be scanned, as no stored index fits: number, first byte, byte after the last."""
    def scan_range(self, part: int, start: int, stop: int, progress: Progress | None = None) -> bytes:
        """The index of the frames that start in a byte range of a part, for `add_scanned_ranges` in another process.
        progress: bytes."""
    def add_scanned_ranges(self, part: int, indices: Sequence[bytes]) -> None:
        """Adds the indices of ascending byte ranges of a part; the next `scan` uses them and scans what is missing."""
    def snapshot(self) -> NDArray[np.uint8]:
        """Headers, identities and indices of all files after a scan, (bytes,): with it other processes open the
        same trajectory without touching a file. Each file is verified when it is first read there."""
    def verify(self) -> None:
        """Compares all files of a snapshot with their identities now; Corrupt or Truncated if one has changed."""
    def locate(self, frame: int) -> tuple[str, int, int, int]:
        """Where a frame is: path, its number in that file, offset and length in bytes (of HDF5: its first chunk's).
        Scans if that has not been done; InvalidArgument for a frame that is not there."""
    def take_opens(self) -> list[str]:
        """The files opened since the last call, if record_reads was asked for; without the files that `describe` opens."""
    def take_reads(self) -> list[tuple[str, int, int]]:
        """Path, offset and length of every read since the last call, if record_reads was asked for."""
    @property
    def n_atoms(self) -> int: ...
    @property
    def format(self) -> str:
        """Format of the first part."""
    @property
    def may_lack_fields(self) -> bool:
        """Whether frames may lack fields of the file (TRR)."""

    @property
    def hdf5(self) -> bool:
        """Whether the first part is stored in HDF5."""
    @property
    def fields(self) -> list[str]:
        """Fields of the first part."""
    @property
    def stores(self) -> bool:
        """Whether anything is stored of the files."""
    @property
    def paths(self) -> list[str]: ...
    def recipe(self) -> dict[str, Any]:
        """The arguments with which another process opens the same trajectory."""
    def scan(self, workers: int = 0, progress: Progress | None = None, skip_damaged: bool = False) -> None:
        """Find all frames of all parts and join the parts; does nothing when that is done. progress: bytes.

        skip_damaged: bytes where no frame header can be found become one frame, which cannot be decoded, and are listed
        in `damaged` of `parts`; else they are a CorruptFileError."""
    @property
    def index(self) -> str:
        """As the constructor was given it."""
    @property
    def scanned(self) -> bool: ...
    @property
    def n_frames(self) -> int:
        """Scans if that has not been done."""
    def parts(self) -> list[PartInfo]: ...
    def extents(self, part: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Byte offsets and lengths of the complete frames of a part in its file. In HDF5 files a frame's bytes need not
        lie side by side: there they only tell files apart."""
    def identity(self, part: int, places: int = 16) -> FileIdentity:
        """The identity of a part: inode, size and times when it was scanned, content sampled at `places` now. Scans if needed."""
    def gaps(self) -> list[Gap]: ...
    def frame_faults(self) -> list[FrameFault]:
        """Faults of frames that were read, for another process that has opened the same files."""
    def add_frame_faults(self, faults: Sequence[FrameFault]) -> None:
        """Adds the faults that `frame_faults` returns in another process."""
    def frame_notes(self, *, new: bool = False) -> list[str]:
        """Faults of frames that were read, in words; `new`: only faults that no earlier call with `new` has returned."""
    def compare_frames(self, frames: NDArray[np.uint64]) -> None:
        """Compares stored steps and times of these frames with their headers; CorruptFileError if they differ."""
    def time_shift(self) -> float:
        """The time that time_offset or first_time add to all times, ps; 0 without them. Scans if that has not been done."""
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames from the index, ps; None if the format's index has none."""
    def time(self, frame: int) -> float | None:
        """Time of a frame from the index, ps; None if the format's index has none."""
    def steps(self) -> NDArray[np.int64] | None: ...
    def read(
        self,
        frames: FrameSelection,
        *,
        atoms: NDArray[np.uint32] | None = None,  # any order, repetitions allowed; None: all
        fields: Sequence[str] = ("positions",),
        dtype: str = "float32",  # "float32" | "float64"
        out: NDArray[Any] | None = None,  # C-contiguous (frames, atoms, 3) of dtype, for the first of the 3-vector fields
        workers: int = 0,
        memory: int = 0,  # bytes of working memory besides the result; 0: default
        native: bool = False,  # the file's own units, unscaled
        scales: tuple[float, float, float, float] | None = None,  # units of the arrays, as those of `PartInfo`
        mark_absent: bool = False,  # rows of frames that lack a vector are NaN, not an error, whatever `absent`
        timings: list[RunTimings] | None = None,  # the timings of this call are appended
    ) -> dict[str, NDArray[Any]]:
        """Arrays by field name: positions/velocities/forces (frames, atoms, 3), and always "cells" (frames, 3, 3)
        float64, "periodic" (frames, 3) bool, of their edges, "steps" (frames,) int64, "times" (frames,) float64, "frames"
        (frames,) uint64; and "present" (frames,) of a bool for each of these vectors and "cells": rows of frames that
        lack a vector are NaN."""

class NodeCache:
    """Blocks of files, kept in a folder of this node for all its processes. limit, block: bytes. verify: "never", "first", "always".
    source_rate: bytes a second that all files give together, for tests and benchmarks. fuse: whether root may be on FUSE."""

    def __init__(
        self,
        root: str | PathLike[str],
        limit: int,
        block: int = 16777216,
        verify: str = "first",
        source_rate: int | None = None,
        fuse: bool = False,
    ) -> None: ...
    @property
    def root(self) -> str: ...
    @property
    def limit(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def verify(self) -> str: ...
    @property
    def source_rate(self) -> int | None: ...
    @property
    def fuse(self) -> bool: ...
    @property
    def last_error(self) -> str | None:
        """Why a block could not be stored or was damaged, of the last time in this process."""
    def counts(self) -> dict[str, int]:
        """Counts of this process by this object: hits, misses (reads of blocks), prefetched (blocks), bytes_read (given to
        readers), bytes_hit, bytes_source (from the files, for blocks and past them), bytes_identity (from the files, to know their state),
        bytes_direct (of bytes_source: given without being stored), bytes_saved, waited, refetched, corrupt, evicted,
        source_reads (calls), errors (blocks that could not be stored)."""
    def set_nodes(self, own: str, nodes: Sequence[tuple[str, str, int]], key: bytes, step: float) -> None:
        """Has the homes of blocks among nodes (name, host, port) asked before the source; `own` is this one."""
    def set_transfer(self, transfer: Any) -> None:
        """Has an object asked for blocks before the source: `fetch(name)` gives the pieces of a block and their checksum,
        or None; then `stored(name, (path, length, checksum) or None)` says what came of it. None: nobody is asked."""
    def stat(self) -> dict[str, Any]:
        """Facts of the folder: blocks, bytes on the disk, files [(path, blocks, bytes)], temporary (files being written)."""
    def verify_all(self, progress: Progress | None = None) -> list[tuple[str, int, str]]:
        """Compare all checksums; damaged blocks (path, offset in the file, reason) are removed. progress: bytes."""
    def clear(self, paths: Sequence[str | PathLike[str]] | None = None) -> tuple[int, int]:
        """Remove all blocks, or those of some files: how many, and their bytes on the disk."""
    def fill(
        self, paths: Sequence[str | PathLike[str]], threads: int, progress: Progress | None = None
    ) -> dict[str, int]:
        """Fetch whole files: files, blocks, bytes, fetched_blocks, fetched_bytes, not_stored (blocks). progress: bytes.
        Files that do not fit into the limit together are an ArgumentError."""
    def prefetch(self, reads: Sequence[tuple[str | PathLike[str], int, int]], ahead: int) -> Prefetch:
        """Fetch in advance what is read in this order (path, offset, length), up to `ahead` bytes before the position, in
        one process of all that give the same reads, in a thread."""
    def open(self, path: str | PathLike[str]) -> CachedFile: ...

class Prefetch:
    """Ends when it is given up. A forked child may call `position`; its parent fetches."""

    def position(self, reads: int) -> None:
        """Reports that the first `reads` reads of the list are done, in whatever process; the greatest number counts."""
    @property
    def failure(self) -> str | None:
        """The last error, in words; a reader of the file gets the error too."""
    def stop(self) -> None: ...

def take_node_cache_troubles() -> list[str]:
    """Troubles of all caches since the last call: damaged blocks, blocks that are not stored, and why."""

def node_cache_counts() -> dict[str, int]:
    """Counts of this process by all objects, freed ones included, as `NodeCache.counts`."""

class CachedFile:
    """A file that is read through a NodeCache."""

    @property
    def size(self) -> int: ...
    @property
    def path(self) -> str: ...
    def read_at(self, offset: int, length: int) -> bytes:
        """Fewer bytes than asked for at the end of the file."""
    def readinto_at(self, offset: int, buffer: Any) -> int: ...

class Throttle:
    """A limit of `rate` bytes a second for all processes that name the file `state`, which is made if needed. Bytes that would
    have passed in 0.1 s while nobody used it pass at once."""

    def __init__(self, rate: int, state: str) -> None: ...
    def reserve(self, n_bytes: int) -> float:
        """Seconds for which the caller is to sleep: then as many bytes have passed."""

class FilePool:
    """Open files that trajectories and archives share: at most `most` between reads, the one unused for longest is closed first.
    If a file that is opened again is another file, or shorter, CorruptFileError is raised."""

    def __init__(
        self,
        most: int,
        record_reads: bool = False,
        node_cache: NodeCache | None = None,
        source_rate: tuple[int, str] | None = None,
    ) -> None:
        """node_cache: files are read through it; recorded are then the reads of the files themselves. source_rate: bytes a
        second that all files give together, and a file by which processes share that, for measurements."""
    @property
    def n_open(self) -> int: ...
    def take_reads(self) -> list[tuple[str, int, int]]:
        """Path, offset and length of every read since the last call, if record_reads was asked for."""
    def take_opens(self) -> list[str]:
        """The files opened since the last call, if record_reads was asked for."""

class UnchangedFiles:
    """Files of a data set, as they were when it was made: `statuses` is (files, 9), a row of `file_status` of each."""

    def __init__(self, paths: list[str], statuses: NDArray[np.uint64], pool: FilePool) -> None: ...
    def check(self, files: NDArray[np.int64]) -> None:
        """To be called after these files were read, by number: CorruptFileError for one that has changed since."""

def file_status(path: str) -> list[int]:
    """The state of a file now, in nine numbers: inode, size, times, mode, owner, links. If the file was changed within the
    last 20 ms, waits, so that any later change gives other numbers."""

class RowsRead(TypedDict):
    useful: int  # bytes of the rows, each once
    read: int  # bytes asked of the files
    decoded: int  # bytes of the chunks that are decoded, and of what is read as it is
    reads: int  # calls to the system
    chunks: int  # that are decoded

class Moments(TypedDict):
    count: int  # rows
    mean: NDArray[np.float64]  # (columns,)
    squares: NDArray[np.float64]  # sums of squared deviations from the mean
    least: NDArray[np.float64]  # infinity without rows
    largest: NDArray[np.float64]

def column_moments(values: NDArray[np.uint8], columns: int, dtype: str) -> Moments:
    """Moments of the columns of rows, given as bytes: float32, float64 or integers of this machine's byte order."""

def group_moments(
    vectors: NDArray[np.float32] | NDArray[np.float64], groups: NDArray[np.uint8], n_groups: int
) -> list[Moments]:
    """Moments of three columns for each group: `vectors` (3 rows,), `groups` (rows,). ArgumentError for other groups."""

def extended_xyz(
    begins: NDArray[np.int64],  # (frames + 1,) where the atoms of each begin
    species: NDArray[np.uint8],  # (atoms of all,) numbers of `symbols`
    symbols: Sequence[str],
    cells: NDArray[np.float64],  # (9 frames,); zeros: none
    properties: str,
    vectors: Sequence[NDArray[Any]],  # (3 atoms of all,) each
    keys: Sequence[tuple[str, NDArray[Any], int]],  # name, (frames * width,) values, width
    workers: int = 0,
) -> list[bytes]:
    """Frames as text of extended XYZ, in pieces; float32, float64 and int64, the shortest decimals of their type."""

class Rows:
    """Rows of equal size, of any type, in many files, which are opened when they are read; numbered through all files."""

    def __init__(
        self,
        files: Sequence[tuple[str, int, Any]],  # path, rows, and (offset, stride) or a StoredDataset of three dimensions
        row_bytes: int,
        pool: FilePool,
    ) -> None: ...
    def __len__(self) -> int: ...
    def read(self, ids: NDArray[np.int64], out: NDArray[np.uint8], workers: int = 0) -> RowsRead:
        """Rows in any order, repetitions allowed, into `out`, (len(ids) * row_bytes,). Sorted, neighbours are read together,
        and a compressed chunk is decoded once. OutOfRangeError; CorruptFileError, TruncatedFileError and FileIOError with
        path."""
    def moments(
        self,
        ids: NDArray[np.int64],
        dtype: str,
        coupled: int = 1,
        workers: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Moments:
        """Moments of the columns of these rows, ascending, each once, while they are read: the same bits for any number of
        workers. `dtype`: of the numbers, in this machine's byte order; `coupled`: rows that are decoded together."""
    def plan(self, ids: NDArray[np.int64]) -> RowsRead:
        """The bytes, reads and chunks that `read` on one thread would read. Nothing is read."""

def _pread_rows(
    path: str,
    offset: int,
    row_bytes: int,
    ids: NDArray[np.int64],
    out: NDArray[np.uint8],
    node_cache: NodeCache | None = None,
) -> None:
    """The same rows of one file by a plain loop of positional reads in the order of `ids`. For measurements alone."""

def read_frames(
    trajectories: Sequence[Trajectory],
    which: NDArray[np.int64],  # (n,) number of each sample's trajectory
    frames: NDArray[np.int64],  # (n,) its frame there
    *,
    atoms: Sequence[NDArray[np.uint32] | None],  # of each trajectory
    fields: Sequence[str],
    dtype: str,  # "float32" | "float64"
    out: Sequence[NDArray[Any]],  # of each field, 1 dimension: the values of all samples, one after the other
    workers: int = 0,
) -> dict[str, NDArray[Any]]:
    """Frames of several trajectories, sorted by their place in the files, on threads that all share. Gives "cells" (n, 3, 3)
    float64, "steps" (n,) int64 and "times" (n,) float64. Raises as `Trajectory.read`."""

def plan_frames(
    trajectory: Trajectory, frames: FrameSelection, *, atoms: NDArray[np.uint32] | None, fields: Sequence[str]
) -> tuple[int, int, int]:
    """The cost of a read of these frames: bytes read, frames that are decoded together, frames that are decoded. Nothing is read."""

def store_atom_checkpoints(
    trajectory: Trajectory, every: int = 4096, workers: int = 0, progress: Progress | None = None
) -> list[tuple[str, int, str | None] | None]:
    """Makes and stores checkpoints of every `every`-th atom of all frames of all files, in the user's cache folder;
    trajectories that are opened later start decoding there. Path, number of checkpoints and note of each file; None for one
    that has no use for them (other formats than XTC, few atoms). Scans if that has not been done. progress: bytes."""

class Written(TypedDict):
    bytes: int  # of the file
    workers: int
    wall: float
    phases: dict[str, float]  # seconds of all workers: open, io, decode, encode, write, wait
    index: WrittenIndex | None  # of formats whose frames differ in size

class WrittenIndex:
    """The frame index of a file, known from having written it."""

    def store(self, path: str, write: Callable[[str, bytes], str | None]) -> tuple[str, str | None]:
        """Stores it beside the file, which has its final name, or in the user's cache folder. Returns where, and what is to be
        noted. `write` as of `Trajectory`."""

class Commits:
    """The committed part of a file that `Encoder.write` is writing."""

    def __init__(self) -> None: ...
    def committed(self) -> tuple[int, int]:
        """The number of whole frames at the front of the file, and the byte after them; on the disk after a sync that begins now."""
    def head(self) -> int:
        """Bytes before the first frame, which are written again with the number of frames."""

class Encoder:
    """Frames of a trajectory as a file of a format; cells of three frames are read now."""

    def __init__(
        self,
        trajectory: Trajectory,
        frames: FrameSelection,
        format: str,
        *,
        steps: NDArray[np.int64],  # one a frame
        times: NDArray[np.float64],  # ps; nan if there is none
        atoms: NDArray[np.uint32] | None = None,
        fields: Sequence[str] | None = None,  # what the format usually holds
        precision: float | None = None,  # numbers to one unit of length
        dtype: str | None = None,  # "float32" | "float64", of TRR
        title: str | None = None,  # by default that of a source of the same format
        labels: AtomLabels | None = None,
    ) -> None: ...
    @property
    def format(self) -> str: ...
    @property
    def fields(self) -> list[str]: ...
    @property
    def losses(self) -> list[str]:
        """Values of the source that the file will not hold, or not exactly."""
    @property
    def largest_rounding(self) -> float:
        """The most by which vectors are rounded besides to float32, angstrom."""

    def write(
        self,
        path: str,
        name: str,
        *,
        workers: int = 0,
        memory: int = 0,
        progress: Progress | None = None,
        commits: Commits | None = None,
        resumed: tuple[int, int] | None = None,
    ) -> Written:
        """Writes all frames into an existing file; messages call it `name`. With `resumed`, the frames and bytes that an
        earlier call has committed, it continues after them."""

    @property
    def record_bytes(self) -> int | None:
        """Bytes of each record, if all records have the same size."""

    def least_memory(self) -> int:
        """The smallest limit, in bytes, with which one worker encodes."""

    @property
    def most_bytes(self) -> int:
        """Bytes of the largest record."""

    def pieces(self, first: int, bytes: int, number: int) -> list[tuple[int, int]]:
        """Runs of positions (first, after the last) from `first` on, whose records have `bytes` at most, or of one
        frame; `number` runs if there are enough frames, or more."""

    def begin(
        self, path: str, name: str, *, commits: Commits, resumed: tuple[int, int] | None = None
    ) -> FileOfRuns:
        """Begins an existing file, whose records any processes then write; as `write`."""

    def write_run(
        self, path: str, name: str, start: int, stop: int, *, workers: int = 1, memory: int = 0, sync: bool = False
    ) -> dict[str, float]:
        """Writes the records of positions `start` to `stop` where they belong in the file, in a format whose records have
        one size; neither head nor count. Returns seconds of phases. `sync`: they are on the storage then."""

    def encode_run(self, name: str, start: int, stop: int, *, workers: int = 1, memory: int = 0) -> EncodedRun:
        """The records of positions `start` to `stop` as bytes; messages call the file `name`."""

RunIndex = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.float64]]

class EncodedRun(TypedDict):
    bytes: NDArray[np.uint8]
    phases: dict[str, float]  # seconds, as of `Written`
    index: RunIndex | None  # lengths, steps and times (in the unit of the file), if frames differ in size

class FileOfRuns:
    """A file whose records several processes write, begun by `Encoder.begin`."""

    def add(self, start: int, stop: int, n_bytes: int, index: RunIndex | None = None) -> None:
        """A run is in the file; in formats whose frames differ in size runs are added in their order, with their index."""

    def finish(self) -> tuple[int, WrittenIndex | None]:
        """When all runs are in it and on the storage of whoever wrote them: syncs it, writes the count of frames, and syncs
        that. Returns its bytes, and its index if frames differ in size."""

class RecordFile:
    """A file of records (XTC, DCD) that frames are added to, in their order; messages call it `name`."""

    def __init__(
        self,
        path: str,  # empty
        name: str,
        format: str,
        n_atoms: int,
        *,
        fields: Sequence[str] | None = None,
        precision: float | None = None,
        dtype: str | None = None,
        title: str | None = None,
        labels: AtomLabels | None = None,
        workers: int = 0,
    ) -> None: ...
    @staticmethod
    def resume(
        trajectory: Trajectory,
        path: str,
        *,
        n_frames: int | None = None,
        fields: Sequence[str] | None = None,
        precision: float | None = None,
        dtype: str | None = None,
        title: str | None = None,
        labels: AtomLabels | None = None,
        workers: int = 0,
    ) -> RecordFile:
        """Continues after the first `n_frames` (1 or more), or the last whole frame, of the one file of a trajectory. The
        bytes after it are cut off; before that, the header gets the count of the frames that stay and is synced."""

    @staticmethod
    def encoded(
        format: str,
        n_atoms: int,
        frame: int,
        vectors: Sequence[NDArray[Any] | None],  # positions, velocities, forces: (atoms, 3), angstrom and ps
        cell: NDArray[np.float64],  # (3, 3)
        step: int,
        time: float,  # ps; nan if there is none
        *,
        fields: Sequence[str] | None = None,
        precision: float | None = None,
    ) -> tuple[bytes, list[str], list[str]]:
        """The record of a frame alone, in a format whose records follow each other; the losses of all frames, and the
        losses of this frame's step, time and cell."""

    @property
    def fields(self) -> list[str] | None:
        """The fields of all frames; None before the first frame."""
    @property
    def n_frames(self) -> int:
        """Frames taken, including the frames that the file had."""
    @property
    def n_written(self) -> int: ...
    @property
    def n_flushed(self) -> int: ...
    @property
    def losses(self) -> list[str]: ...
    @property
    def has_ended(self) -> bool:
        """No frame is taken any more."""
    @property
    def has_failed(self) -> bool:
        """Nothing can be committed any more."""

    def add(
        self,
        vectors: Sequence[NDArray[Any] | None],  # positions, velocities, forces: (frames, atoms, 3), angstrom and ps
        cells: NDArray[np.float64],  # (frames, 3, 3)
        steps: NDArray[np.int64],
        times: NDArray[np.float64],  # ps; nan if there is none
    ) -> None: ...
    def flush(self) -> None:
        """Adds and commits all frames; after a frame that cannot be encoded those before it."""
    def commit(self) -> None:
        """Commits the frames that are written."""
    def finish_notes(self) -> None:
        """No frame follows: `losses` is whole."""
    def store_index(self, path: str, write_index: Callable[[str, bytes], str | None]) -> str | None:
        """Stores the index of the file, which is at `path` now, as a scan would; returns what is to be noted."""

class FrameLayout:
    """A record without its atoms. Pieces and planes of all atoms are the whole record, and none lies over another."""

    @property
    def bytes(self) -> int:
        """Size of the whole record."""
    @property
    def pieces(self) -> list[tuple[int, builtins.bytes]]:
        """Bytes that belong to no atom, each with their place in the record."""
    @property
    def planes(self) -> list[tuple[int, int]]:
        """Place of the first atom in the record, and bytes of an atom: atom `i` lies at place + i * bytes."""

class AtomRecords:
    """Records of one file, of which a process has some of the atoms.

    For formats whose atoms have fixed places in a record (`FormatInfo.places_atoms`), else UnsupportedFormatError. It
    writes nothing. The order is that of `RecordFile`: `time_by` with the first frame, `head`, the first record; before
    the second record `time_by` with both frames, whose bytes are written into the head that is there, beside `marker`.
    """

    def __init__(
        self,
        format: str,
        n_atoms: int,
        *,
        fields: Sequence[str],  # that all frames have
        cell: NDArray[np.float64] | None = None,  # (3, 3) of the first frame: files without cells hold none later
        wide: Sequence[str] | None = None,  # fields whose values are float64, for `losses`
        title: str | None = None,
        dtype: str | None = None,  # "float32" or "float64", of formats that have either
        # distinct names, masses (Da) and charges (e), given with `codes`: which of them each atom is, (n_atoms,)
        kinds: tuple[list[str] | None, list[float] | None, list[float] | None] | None = None,
        codes: NDArray[np.uint32] | None = None,
    ) -> None: ...
    @staticmethod
    def resume(
        trajectory: Trajectory,
        *,
        n_frames: int | None = None,
        fields: Sequence[str] | None = None,
        wide: Sequence[str] | None = None,
        title: str | None = None,
        dtype: str | None = None,
        kinds: tuple[list[str] | None, list[float] | None, list[float] | None] | None = None,
        codes: NDArray[np.uint32] | None = None,
    ) -> AtomRecords | None:
        """Continues after the first `n_frames` (1 or more), or the last whole frame, of the one file of a trajectory; None
        if it has no whole frame. It only reads: see `cut`.

        Fields, cells, names, masses and charges, and spacing of times are the file's: ArgumentError if `fields` are
        others, UnsupportedFormatError for layouts that are read but not written. With `kinds` and `codes`, as another
        rank got them, those in the file are not read."""

    def cut(self, path: str) -> None:
        """Cuts off the bytes after the frames that stay, in the file that `resume` continues: the count in the header
        is corrected and synced first. One rank calls it, when all have called `resume`; on a new file it does nothing."""

    @property
    def n_atoms(self) -> int: ...
    @property
    def n_frames(self) -> int:
        """Frames of the file that stay; 0 for a new file. The next frame has this number."""
    @property
    def end(self) -> int:
        """The byte after these frames, where the next record begins; for a new file the length of `head`."""
    @property
    def first(self) -> list[tuple[int, float]]:
        """Step and time (ps) of the first two of these frames. If there is one, `time_by` needs it beside the second frame."""
    @property
    def kinds(self) -> tuple[list[str] | None, list[float] | None, list[float] | None] | None:
        """Names, masses and charges of a HISTORY file, one a kind."""
    @property
    def codes(self) -> NDArray[np.uint32] | None:
        """The kind of each atom of a HISTORY file."""
    @property
    def format(self) -> str: ...
    @property
    def fields(self) -> list[str]: ...
    @property
    def losses(self) -> list[str]: ...
    @property
    def head(self) -> bytes:
        """The bytes before the first record."""
    @property
    def widths(self) -> list[int]:
        """Bytes of an atom in each plane."""

    def time_by(self, steps: Sequence[int], times: Sequence[float]) -> tuple[int, bytes] | None:
        """Takes steps and times (ps) of the first one or two frames. Returns the place and the bytes to rewrite in the head."""
    def marker(self, committed: int) -> tuple[int, bytes] | None:
        """The place and the bytes to write when `committed` records are in the file and synced."""
    def stamp_losses(self, frame: int, step: int, time: float, cell: NDArray[np.float64]) -> list[str]:
        """Losses of step, time (ps) and cell (angstrom) of a frame."""
    def frame(self, frame: int, step: int, time: float, cell: NDArray[np.float64]) -> FrameLayout:
        """The record of a frame without its atoms: time in ps, nan if there is none; cell (3, 3) in angstrom, zeros
        if there is none."""
    def encode(
        self,
        values: Sequence[NDArray[Any] | None],  # positions, velocities, forces: (atoms, 3) float32 or float64
        start: int,
        stop: int,
        ids: NDArray[np.uint32] | None,  # (atoms,), the number of each; None: first_id + row
        first_id: int,
        out: Sequence[NDArray[np.uint8]],  # one a plane, (stop - start) * width bytes
    ) -> None:
        """Encodes atoms start to stop of the arrays, in angstrom and ps, in the order in which they are given."""

def partition_atoms(
    ids: NDArray[np.uint32] | NDArray[np.int64] | NDArray[np.int32] | NDArray[np.uint64],  # (atoms,), in any order
    bounds: Sequence[int],  # from 0 to the number of all atoms: range i is bounds[i] to bounds[i + 1]
    sorted: NDArray[np.uint32],  # (atoms,)
    order: NDArray[np.uint32],  # (atoms,)
) -> tuple[NDArray[np.uint64], bool]:
    """Sorts rows by the ranges that their atoms lie in, stably: the ids into `sorted`, the rows into `order`. Returns the
    number of rows of each range, and whether they were in order already (`order` is left as it is).

    ArgumentError with row and id for a number that is not an atom's."""

def order_atoms(
    ids: NDArray[np.uint32],  # (atoms,)
    rows: NDArray[np.uint32] | int,  # (atoms,), or the first of rows that follow each other
    first: int,
    n: int,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32] | None]:
    """The rows in the order of their atoms, and the places of these in a range of n atoms from `first` on; no places if
    each of the range is there. ArgumentError for atoms of other ranges, and for one that is there twice."""

def place_atoms(
    values: NDArray[Any],  # (atoms, 3), float32 or float64
    rows: NDArray[np.uint32] | None,
    places: NDArray[np.uint32] | None,
    out: NDArray[Any],  # (n, 3) of the same type; its rows may lie apart from each other
) -> None:
    """Puts row rows[i] of the values into row places[i] of `out`; into row i without places. Without rows: row i of the
    values."""

def scatter_atoms(
    ids: NDArray[np.uint32],  # (rows,), all of the range
    first: int,  # of the range
    values: Sequence[NDArray[Any]],  # (rows, 3) each, float32 or float64
    out: Sequence[NDArray[Any]],  # (atoms of the range, 3) each, of the types of values
    seen: NDArray[np.uint8],  # (atoms of the range,): 0 before the first call for a frame, then kept
) -> tuple[int, int | None, int, int | None]:
    """Puts row `i` of `values` into the row of atom `ids[i]` of the range. Returns how many rows are of an atom that had
    been there before, the first such row, how many atoms of the range are still missing, and the id of the first.

    ArgumentError, before anything is put, for atoms of other ranges."""

class Kernel:
    """An analysis kernel of `kernels()`; it is pickled as the call that made it.

    Atoms, uint32, are in any order, in which references, float64 (n, 3), weights, float64 (n,), and results per atom are as
    well. `InvalidArgument` for an argument that does not fit, or that the kernel does not know.

    - "rmsd": atoms, reference, weights=None, groups=[(atoms, reference, weights)], fit="superpose", "center" or "none".
      Results: time (n,), values (n, 1 + len(groups)).
    - "rmsf": atoms. Results: rmsf (n_selected,), mean_positions (n_selected, 3).
    - "rgyr": atoms, masses=None, axes=False. Results: time (n,), values (n, 1), with axes (n, 4).
    - "average": atoms. Results: mean_positions (n_selected, 3).
    - "jumps": atoms=None (all), ascending; stations, ascending frame numbers, uint32 (n,). Results: stations (n, n_selected, 3),
      longest (1,), longest_frame (1,).
    - "displacements": atoms=None (all), ascending; stations, ascending frame numbers, uint32 (n,). Results: stations
      (n, n_selected, 3), longest (1,), longest_frame (1,).
    - "rotations": atoms, reference, weights=None. Results: rotations (frames, 3, 3).
    - "python": a kernel written in Python, which sees `fields` of `atoms` in their order, and cells: `adapter` has empty,
      accumulate, merge, finish, to_bytes, from_bytes (kinema.analysis.custom). An exception propagates to the caller of the run.
    """

    def __init__(self, name: str, n_atoms: int, **arguments: Any) -> None: ...

    @property
    def id(self) -> str:
        """Name and version of the partial: "rmsd/1"."""
    def __reduce__(self) -> tuple[Any, tuple[str, str, dict[str, Any]]]:
        """`restore` and its arguments: class, name, arguments by name."""
    def empty(self) -> Partial: ...
    def from_bytes(self, data: bytes) -> Partial: ...

class Transform:
    """A change of each frame before anything else sees the frame; pickled as the call that made it."""

    def __init__(self, name: str, n_atoms: int, *, label: str | None = None, **arguments: Any) -> None:
        """`label`: the call in words, for provenance; by default the name.

        superpose: atoms (n,) uint32, reference (n, 3) float64, weights (n,) float64 or None, mode "rot+trans" or "trans";
        or in its place rotations (3 * stations, 3) float64 of every `every`th frame.
        displacement: atoms, stations (stations * n, 3) float64 of every `every`th frame.
        centers: members (m,) uint32, sizes (groups, 1) uint32, weights (m,) float64 or None.
        """
    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str:
        """Name and version: "superpose/1"."""
    @property
    def label(self) -> str: ...
    @property
    def arguments(self) -> dict[str, Any]: ...
    @property
    def identity(self) -> bytes:
        """Bytes that only the same transform with the same arguments has."""
    @property
    def looks_back(self) -> bool:
        """Whether it must have seen other frames before one."""
    def __reduce__(self) -> tuple[Any, tuple[str, str, dict[str, Any]]]: ...

class FrameTransforms:
    """Transforms for frames that are in memory already; any number of threads may call it."""

    def __init__(self, transforms: Sequence[Transform], n_atoms: int) -> None:
        """ArgumentError for one that looks back."""
    def apply(
        self,
        frame: int,
        positions: NDArray[np.float32],
        velocities: NDArray[np.float32] | None,
        forces: NDArray[np.float32] | None,
        cell: NDArray[np.float64],
        periodic: tuple[bool, bool, bool],
        step: int,
        time: float,
    ) -> NDArray[np.float64]:
        """Changes these arrays, (n_atoms, 3), and gives the cell, (3, 3), as the transforms have left it."""

def first_atoms_of_molecules(n_atoms: int, bonds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """For each atom the first atom of its molecule, of (n_bonds, 2) pairs."""

class ChangingGroup:
    """A group of atoms that changes with the frame, given as nested tuples that each begin with a word:

    - ("atoms", indices), ("and", a, b), ("or", a, b), ("not", a);
    - ("near", of, inner, outer), ("sphere", of, inner, outer), ("point", xyz, cutoff);
    - ("cylinder", of, inner, outer, zmin, zmax);
    - ("coordinate", axis, absolute, operator, value, tolerance), ("same coordinate", of, axis);
    - ("share", of, labels), uint32 one an atom; ("bonded", of, bonds), uint32 (n, 2).

    `inner` may be None. Kernels take it as the argument `group`.
    """

    def __init__(self, n_atoms: int, expression: tuple[Any, ...]) -> None: ...
    @property
    def candidates(self) -> NDArray[np.uint32]:
        """The atoms that can be in the group."""
    @property
    def atoms(self) -> NDArray[np.uint32]:
        """The atoms whose positions `members` takes."""
    def members(
        self, positions: NDArray[np.float32], cells: NDArray[np.float64], periodic: NDArray[np.bool_]
    ) -> list[NDArray[np.uint32]]:
        """The members in each frame, from positions of `atoms`, (frames, atoms, 3), and cells with their periodic edges."""

class BrokenCounter:
    """Counts molecules that are broken at the faces of the cell."""

    def __init__(self, n_atoms: int, bonds: NDArray[np.uint32]) -> None: ...
    def count(
        self, positions: NDArray[np.float32], cells: NDArray[np.float64], periodic: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """The number of broken molecules in each frame; the edges `periodic`, (frames, 3), of its cell repeat.
        -1 in frames without a cell."""

def gromos_clusters(pairs: NDArray[np.uint32], n: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Clusters of `n` things by the method of Daura and others, from (pairs, 2) neighbours, each pair once: the cluster
    of each thing, (n,), and the thing with most neighbours of each cluster, the largest cluster first."""

def sums_within_clusters(condensed: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each thing, (n,), the sum of its distances from those with the same label; 0 for labels below 0."""

def near_pairs(
    first: NDArray[np.float32],
    second: NDArray[np.float32] | None,
    cell: NDArray[np.float64],
    periodic: tuple[bool, bool, bool],
    cutoff: float,
) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """Pairs of an atom of `first` and one of `second`, (n, 3), at most `cutoff` apart: (m, 2) numbers, ascending, and
    (m,) distances. Without `second` pairs of two of `first`, each once. Nearest images in a cell, (3, 3), whose edges
    `periodic` repeat."""

def pair_distances(
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    cell: NDArray[np.float64],
    periodic: tuple[bool, bool, bool],
) -> NDArray[np.float64]:
    """The distance of each atom of `first` from the same one of `second`, (n, 3), as kernels of given pairs compute it.
    Nearest images in a cell, (3, 3), whose edges `periodic` repeat."""

def nearest_images(
    vectors: NDArray[np.float64], cell: NDArray[np.float64], periodic: tuple[bool, bool, bool]
) -> NDArray[np.float64]:
    """The shortest image of each vector, (n, 3), in a cell, (3, 3), whose edges `periodic` repeat."""

class Partial:
    """The values that a kernel has gathered from some leaves."""

    @property
    def id(self) -> str: ...
    def to_bytes(self) -> bytes: ...
    def merge(self, later: Partial) -> None:
        """Adds `later`, which is used up."""
    def finish(self) -> dict[str, NDArray[Any]]:
        """The results; the partial is used up."""

class Plan:
    """The frames and atoms to read, in units of work: a few kilobytes, the only thing that runners send."""

    def __init__(
        self,
        trajectory: Trajectory,
        frames: FrameSelection,
        jobs: Sequence[tuple[Kernel, Sequence[Transform]]],
        *,
        memory: int = 0,
        workers: int = 0,
        access: str = "direct",
        pieces: int = 0,
    ) -> None:
        """`access`: "direct", "frame", "subset", "in-memory"; the last loads all leaves in `pieces`, 0: one a worker."""
    @property
    def domain(self) -> str:
        """The dimension that is divided into leaves: "frames"."""
    @property
    def n_frames(self) -> int: ...
    @property
    def n_leaves(self) -> int: ...
    @property
    def leaf_frames(self) -> int: ...
    @property
    def workers(self) -> int:
        """Threads that the memory limit and the number of leaves allow."""
    @property
    def memory(self) -> int:
        """Working memory in bytes that the run keeps to."""
    def leaf(self, leaf: int) -> tuple[int, int]:
        """The selected frames of a leaf, as positions in the selection: start, stop."""
    def partition(self, trajectory: Trajectory) -> Partition:
        """The cost of task boundaries between leaves of this plan of the trajectory."""
    def explain(self, redecoded_frames: int | None = None) -> str:
        """The plan in words. `redecoded_frames`: frames that a runner's tasks decode a second time; by default the threads'."""

class Partition:
    """Partition of leaves into tasks: the cost of a task boundary before each leaf.

    `costs`: none, or for each leaf the frames that are decoded a second time if a task begins with it;
    `file_starts`: leaves with which files begin.
    """

    def __init__(
        self, n_leaves: int = 0, leaf_frames: int = 1, costs: Sequence[int] = (), file_starts: Sequence[int] = ()
    ) -> None: ...
    @property
    def is_uniform(self) -> bool:
        """Whether all boundaries are equally good."""
    @property
    def has_costs(self) -> bool:
        """Whether some boundaries make frames be decoded a second time."""
    @property
    def file_starts(self) -> list[int]: ...
    def cost(self, leaf: int) -> int:
        """Frames that are decoded a second time if a task begins with this leaf."""
    def share_boundary(self, wanted: int, share: int) -> int:
        """The best boundary near leaf `wanted` between two contiguous shares of `share` leaves."""
    def task_end(
        self,
        leaves: tuple[int, int],
        *,
        share: int,
        most: int | None = None,
        fair: int,
        left: int,
        threads: int = 1,
    ) -> int:
        """The end of the first task of some leaves (start, stop), which should have `share` of them.

        `most`: leaves that it may have; `fair`: leaves of the whole run for each worker; `left`: leaves still to be
        assigned, for each worker; `threads`: that run the task.
        """

class WorkerTimings(TypedDict):
    worker: int
    open: float
    io: float
    decode: float
    compute: float
    wait: float
    total: float  # wall time of the worker
    cpu: float  # CPU time of its thread
    frames: int
    blocks: int
    bytes_read: int
    reads: int

# number of the part, fault, first frame of the part's file with it
FrameFault = tuple[int, str, int]

class RunTimings(TypedDict):
    wall: float
    workers: list[WorkerTimings]
    # one row a block: worker, leaf, frames, start, io, decode, compute
    blocks: NDArray[np.float64]
    # of `run_leaves` alone
    faults: NotRequired[list[FrameFault]]

# level and index in the merge tree, and a partial for each job
Node = tuple[int, int, list[Partial]]

def run_leaves(
    trajectory: Trajectory,
    plan: Plan,
    jobs: Sequence[tuple[Kernel, Sequence[Transform]]],
    start: int,
    stop: int,
    *,
    progress: Progress | None = None,  # frames of these leaves
) -> tuple[list[Node], RunTimings]:
    """Maps the leaves start..stop on the threads of this process; the nodes complete another MergeTree."""

# result arrays of a kernel by name
KernelResults = dict[str, Any]

class MergeTree:
    """The fixed tree on which the partials of a plan's leaves are merged, wherever they were gathered.

    With `rows`, a function, every node that comes in is finished at once: rows(first leaf, results of each kernel) is
    called, from any thread, and the tree keeps empty partials in its place. Without it, rows of lists in the tree may
    take `memory` bytes together (0: any); beyond, adding raises MemoryLimitError.
    """

    def __init__(
        self,
        n_leaves: int,
        kernels: Sequence[Kernel],
        rows: Callable[[int, list[KernelResults]], None] | None = None,
        memory: int = 0,
    ) -> None: ...
    def insert_all(self, nodes: Sequence[Node]) -> None:
        """Adds the nodes of a piece of work and merges upwards; the partials are used up. `serialize` has all of them, or
        none."""
    def restore(self, level: int, index: int, partials: Sequence[Partial]) -> None:
        """Adds a node of an earlier run, whose rows were emitted then."""
    def serialize(self, emit: Callable[[int, int, list[bytes]], None]) -> None:
        """Calls emit(level, index, partials as bytes) for all nodes, while other threads continue to insert."""
    def take_nodes(self) -> list[Node]:
        """The nodes that could not be merged further: the root alone once every leaf is in. The tree is used up."""

def run_into(
    trajectory: Trajectory,
    plan: Plan,
    jobs: Sequence[tuple[Kernel, Sequence[Transform]]],
    tree: MergeTree,
    leaves: Sequence[tuple[int, int]],
    *,
    progress: Progress | None = None,  # frames of these leaves
) -> RunTimings:
    """Maps ranges of leaves on the threads of this process; each is in the tree as soon as it is done, also when an
    error ends the others."""

def restore(kind: str, name: str, arguments: dict[str, Any]) -> Any:
    """Makes a kernel or a transform again; pickle calls it."""

def kernels() -> list[dict[str, str]]:
    """"name" and "version" of all kernels."""

def kernel_examples(name: str, n_atoms: int, reference: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Arguments that show all that a kernel can do, for tests; `reference` (n_atoms, 3), angstrom."""

# HDF5 filters in the order of writing: (filter id, client values as stored)
Filters = Sequence[tuple[int, Sequence[int]]]

def encode_chunks(
    array: NDArray[Any], chunk_shape: Sequence[int], filters: Filters, workers: int
) -> list[tuple[tuple[int, ...], bytes]]:
    """All chunks of an array as HDF5 stores them: (offset in elements, bytes after all filters), in row-major order.

    `array` is contiguous in C order and has a dtype of fixed size; the bytes are taken as they are. Chunks that stick
    out of it are padded with zeros. `workers` threads, 0 for as many as the process may use. Each chunk's filter mask
    is 0: `dataset.id.write_direct_chunk(offset, bytes)`. The `filters` are those of `dataset.id.get_create_plist()`, or of
    `creation_filters`.

    Raises InvalidArgument if array, chunks or parameters do not fit, Unsupported for a filter that is not written.
    """

def creation_filters(name: str, level: int | None, element_size: int) -> list[tuple[int, tuple[int, ...]]]:
    """The filters of "none", "gzip", "zstd", "lz4", "bitshuffle", "bitshuffle-lz4" or "bitshuffle-zstd", as stored.

    "gzip" (levels 0 to 9, default 4), "zstd" (1 to 22, 3) and "lz4" have shuffle before them. `element_size` in bytes.
    For `dcpl.set_filter` with hdf5plugin imported, bitshuffle's first three values are left out: its plugin adds them.

    Raises InvalidArgument for another name or level.
    """

def undecodable(filters: Filters, element_size: int, chunk_bytes: int) -> str | None:
    """Why chunks with these filters cannot be decoded here, in words; None if they can."""

def filter_name(id: int) -> str | None:
    """The name of an HDF5 filter id, if it is registered."""

def start_writeback(descriptor: int, offset: int = 0, length: int = 0) -> None:
    """Has the kernel begin to write bytes of an open file to the storage (Linux; on other systems nothing). Without a
    length all bytes from the offset on."""

def read_series(path: str, stored: Any) -> bytes:
    """The numbers of a `StoredDataset` of one dimension, in the bytes that the file at `path` has for them.

    Raises FileIOError and its kin, CorruptFileError if a filter contradicts the bytes.
    """

def _decode_chunk(
    chunk: bytes, mask: int, filters: Filters, element_size: int, chunk_bytes: int, repeats: int = 1
) -> bytes:
    """One stored chunk, decoded; `mask` bit i: filter i was skipped. For tests and measurements (`repeats`) alone."""

def _encode_xtc_frame(
    positions: NDArray[np.float32],
    cell: Sequence[Sequence[float]],
    step: int,
    time: float,
    precision: float,
    long: bool = False,
) -> bytes:
    """One XTC frame of positions (atoms x 3, nm) and a cell (row vectors, nm). For tests alone.

    Raises InvalidArgument for a coordinate that cannot be stored at this precision.
    """

def _reencode_xtc_frame(frame: bytes, n_atoms: int, atoms: Sequence[int] | None = None) -> bytes | None:
    """One XTC frame with some of its atoms (ascending), their integers unchanged; None for plain floats. For tests alone.

    Raises CorruptFileError and its kin if it is not a frame of `n_atoms` atoms.
    """
