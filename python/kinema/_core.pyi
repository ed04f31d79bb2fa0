"""The Rust half of Kinema: files to frames, kernels, threads.

Private: the public names are in `kinema`. Lengths in angstrom, times in ps, sizes in bytes, durations in seconds.
Every function releases the GIL while it works and heeds signals (Ctrl-C) within about 0.1 s.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

__version__: str

# (start, step, count), or explicit frame numbers (uint64) in any order
Frames = tuple[int, int, int] | NDArray[np.uint64]
# called from the thread that started the work, about ten times a second: done, total
Progress = Callable[[int, int], None]

class FormatInfo(TypedDict):
    name: str
    extensions: list[str]
    description: str
    reads: bool
    writes: bool
    fields: list[str]
    length_unit: str
    time_unit: str
    reference: str

def formats() -> list[FormatInfo]: ...
def cpu_features() -> list[str]:
    """Names of the instruction sets that the hot loops use on this machine ("avx2", "bmi2", "fma")."""

class PartInfo(TypedDict):
    path: str
    format: str
    variant: str
    remarks: list[str]
    warnings: list[str]
    size: int  # bytes
    fields: list[str]
    file_frames: int  # complete frames in the file
    kept: tuple[int, int]  # the file's frames that belong to the trajectory, [start, stop)
    first_frame: int  # number of the first kept frame in the trajectory
    first_step: int | None  # of the file's first and last frame, from the index
    last_step: int | None
    first_time: float | None  # ps
    last_time: float | None
    fingerprint: str  # hex
    index: str  # "arithmetic" | "structure" (HDF5) | "stored" | "extended" | "built"
    index_path: str | None
    index_note: str | None  # why a stored index was not used, or why it could not be stored
    truncation: str | None  # set when on_truncated="drop" dropped an incomplete last frame

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
        on_truncated: str = "error",  # "error" | "drop"
        index: str = "auto",  # "auto" (load, extend, build and store) | "memory" (never stored) | "rebuild"
        max_open_files: int = 64,
        index_folder: str | None = None,  # where indices are stored, instead of beside the files
        describe: Callable[[str], Any] | None = None,  # path of an HDF5 file -> kinema.h5md.H5mdDescription; picklable
        known: NDArray[np.uint8] | None = None,  # what `pack` gave in another process, for the same other arguments
        record_reads: bool = False,
    ) -> None: ...
    def unindexed(self) -> list[tuple[int, int, int]]:
        """The parts whose frames a scan must search, as no stored index fits: number, first byte, byte after the last."""
    def scan_range(self, part: int, start: int, stop: int, progress: Progress | None = None) -> bytes:
        """The frames of a part that start in a byte range, for `add_ranges` in another process. progress: bytes."""
    def add_ranges(self, part: int, found: Sequence[bytes]) -> None:
        """What was found in ascending byte ranges of a part; the next `scan` uses it, and walks again what is missing."""
    def pack(self) -> NDArray[np.uint8]:
        """What is known of all files after a scan, (bytes,): with it other processes open the same trajectory without
        touching a file. Each part is checked against its fingerprint when it is first read there."""
    def locate(self, frame: int) -> tuple[str, int, int, int]:
        """Where a frame is: path, its number in that file, offset and length in bytes (of HDF5: its first chunk's).
        Scans if that has not been done; InvalidArgument for a frame that is not there."""
    def take_opens(self) -> list[str]:
        """The files opened since the last call, where record_reads was asked for; those of `describe` are not among them."""
    def take_reads(self) -> list[tuple[str, int, int]]:
        """Path, offset and length of every read since the last call, where record_reads was asked for."""
    @property
    def n_atoms(self) -> int: ...
    @property
    def format(self) -> str:
        """Format of the first part."""
    @property
    def fields(self) -> list[str]:
        """Fields of the first part."""
    @property
    def paths(self) -> list[str]: ...
    def recipe(self) -> dict[str, Any]:
        """The arguments with which another process opens the same trajectory."""
    def store_indices(self, folder: str) -> None:
        """Stores the indices of all parts that have one, for processes that open the same files with index_folder."""
    def scan(self, workers: int = 0, progress: Progress | None = None) -> None:
        """Find all frames of all parts and join the parts; does nothing when that is done. progress: bytes."""
    @property
    def scanned(self) -> bool: ...
    @property
    def n_frames(self) -> int:
        """Scans if that has not been done."""
    def parts(self) -> list[PartInfo]: ...
    def extents(self, part: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Byte offsets and lengths of the complete frames of a part in its file. In HDF5 files a frame's bytes need not
        lie side by side: there they only tell files apart."""
    def gaps(self) -> list[Gap]: ...
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames from the index, ps; None where the format's index has none."""
    def steps(self) -> NDArray[np.int64] | None: ...
    def read(
        self,
        frames: Frames,
        *,
        atoms: NDArray[np.uint32] | None = None,  # any order, repetitions allowed; None: all
        fields: Sequence[str] = ("positions",),
        dtype: str = "float32",  # "float32" | "float64"
        out: NDArray[Any] | None = None,  # C-contiguous (frames, atoms, 3) of dtype, for the first of the 3-vector fields
        workers: int = 0,
        memory: int = 0,  # bytes of working memory besides the result; 0: default
        native: bool = False,  # the file's own units, unscaled
    ) -> dict[str, NDArray[Any]]:
        """Arrays by field name: positions/velocities/forces (frames, atoms, 3), and always "cells" (frames, 3, 3)
        float32, "steps" (frames,) int64, "times" (frames,) float64, "frames" (frames,) uint64."""

class Kernel:
    """An analysis kernel; it is pickled as the call that made it. `atoms` are strictly ascending; references are float64 (n, 3); weights float64 (n,)."""

    @staticmethod
    def rmsd(
        n_atoms: int,
        atoms: NDArray[np.uint32],
        reference: NDArray[np.float64],
        weights: NDArray[np.float64] | None = None,
        groups: Sequence[tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.float64] | None]] = (),
        superposition: bool = True,
    ) -> Kernel:
        """Results: time (n,), values (n, 1 + len(groups))."""
    @staticmethod
    def rmsf(n_atoms: int, atoms: NDArray[np.uint32]) -> Kernel:
        """Results: rmsf (n_selected,), mean_positions (n_selected, 3)."""
    @staticmethod
    def rgyr(n_atoms: int, atoms: NDArray[np.uint32], masses: NDArray[np.float64] | None = None, axes: bool = False) -> Kernel:
        """Results: time (n,), values (n, 1), with axes (n, 4)."""
    @staticmethod
    def average(n_atoms: int, atoms: NDArray[np.uint32]) -> Kernel:
        """Results: mean_positions (n_selected, 3)."""
    @staticmethod
    def python(n_atoms: int, atoms: NDArray[np.uint32], adapter: Any) -> Kernel:
        """A kernel written in Python: `adapter` has empty, accumulate, merge, finish, pack, unpack
        (kinema.analysis.custom). What it raises is raised where the run was started."""
    @property
    def id(self) -> str:
        """Name and version of the partial: "rmsd/1"."""
    def __reduce__(self) -> tuple[Any, tuple[str, str, tuple[Any, ...]]]:
        """`restore`, and what it is to be called with: class, static method, its arguments."""
    def empty(self) -> Partial: ...
    def from_bytes(self, data: bytes) -> Partial: ...

class Transform:
    @staticmethod
    def superpose(
        n_atoms: int,
        atoms: NDArray[np.uint32],
        reference: NDArray[np.float64],
        weights: NDArray[np.float64] | None = None,
    ) -> Transform:
        """Superposes every frame on the reference; the rotation moves all atoms that the kernel looks at."""
    def __reduce__(self) -> tuple[Any, tuple[str, str, tuple[Any, ...]]]: ...

class Partial:
    """What a kernel has gathered from some leaves."""

    @property
    def id(self) -> str: ...
    def to_bytes(self) -> bytes: ...
    def merge(self, later: Partial) -> None:
        """Adds `later`, which is used up."""
    def finish(self) -> dict[str, NDArray[np.float64]]:
        """The results; the partial is used up."""

class Plan:
    """What to read, in which units of work: a few kilobytes, the only thing that runners hand out."""

    def __init__(
        self,
        trajectory: Trajectory,
        frames: Frames,
        jobs: Sequence[tuple[Kernel, Sequence[Transform]]],
        *,
        memory: int = 0,
        workers: int = 0,
        access: str = "direct",
        pieces: int = 0,
    ) -> None:
        """`access`: "direct", "frame", "subset", "in-memory"; the last loads all leaves in `pieces`, 0: one a worker."""
    @property
    def n_frames(self) -> int: ...
    @property
    def n_leaves(self) -> int: ...
    @property
    def leaf_frames(self) -> int: ...
    @property
    def workers(self) -> int:
        """Threads that the memory limit and the number of leaves leave."""
    @property
    def fingerprints(self) -> list[str]:
        """Of the parts, hexadecimal."""
    def leaf(self, leaf: int) -> tuple[int, int]:
        """The selected frames of a leaf, as positions in the selection: start, stop."""
    def cuts(self, trajectory: Trajectory) -> Cuts:
        """What it costs to cut between leaves of this plan of the trajectory."""
    def explain(self, decoded_twice: int | None = None) -> str:
        """In words. `decoded_twice`: frames that a runner's hand-out has decoded twice; by default the threads'."""

class Cuts:
    """Where work is divided: what it costs to cut before each leaf.

    `costs`: none, or for each leaf how many frames are decoded twice where it is cut off from the one before;
    `starts`: leaves with which files begin.
    """

    def __init__(
        self, n_leaves: int = 0, leaf_frames: int = 1, costs: Sequence[int] = (), starts: Sequence[int] = ()
    ) -> None: ...
    @property
    def are_alike(self) -> bool:
        """Whether no cut is better than another."""
    @property
    def cost_something(self) -> bool:
        """Whether some cuts make frames be decoded twice."""
    @property
    def starts(self) -> list[int]: ...
    def cost(self, leaf: int) -> int:
        """Frames that are decoded twice where work is cut before this leaf."""
    def between_shares(self, wanted: int, share: int) -> int:
        """The best place near leaf `wanted` to cut a contiguous share of so many leaves from the next."""
    def end_of_piece(
        self,
        leaves: tuple[int, int],
        *,
        share: int,
        most: int | None = None,
        fair: int,
        left: int,
        threads: int = 1,
    ) -> int:
        """Where the first piece of some leaves (start, stop) ends, which should have `share` of them.

        `most`: leaves that it has at the most; `fair`: leaves that each worker gets of all, `left`: that each would get
        of those that are left; `threads`: that run it together.
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

class RunTimings(TypedDict):
    wall: float
    workers: list[WorkerTimings]
    # one row a block: worker, leaf, frames, start, io, decode, compute
    blocks: NDArray[np.float64]

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
    """Maps the leaves start..stop on the threads of this process; the nodes complete a MergeTree elsewhere."""

# results of a kernel by name
Found = dict[str, Any]

class MergeTree:
    """The fixed tree on which the partials of a plan's leaves are merged, wherever they were gathered.

    With `rows`, a function, every node that comes in is finished at once: rows(first leaf, results of each kernel) is
    called, from any thread, and the tree keeps empty partials in its place.
    """

    def __init__(
        self, n_leaves: int, kernels: Sequence[Kernel], rows: Callable[[int, list[Found]], None] | None = None
    ) -> None: ...
    def insert(self, level: int, index: int, partials: Sequence[Partial]) -> None:
        """Adds a node and merges upwards; the partials are used up."""
    def restore(self, level: int, index: int, partials: Sequence[Partial]) -> None:
        """Adds a node of an earlier run, whose rows were handed out then."""
    def pack(self, show: Callable[[int, int, list[bytes]], None]) -> None:
        """Calls show(level, index, partials as bytes) for all that was gathered, while others go on inserting."""
    def take_nodes(self) -> list[Node]:
        """What could not be merged further: the root alone once every leaf is in. The tree is used up."""

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

def restore(kind: str, name: str, arguments: tuple[Any, ...]) -> Any:
    """What pickle calls for kernels and transforms."""

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

    Raises InvalidArgument where array, chunks or parameters do not fit, Unsupported for a filter that is not written.
    """

def creation_filters(name: str, level: int | None, element_size: int) -> list[tuple[int, tuple[int, ...]]]:
    """The filters of "none", "gzip", "zstd", "lz4", "bitshuffle", "bitshuffle-lz4" or "bitshuffle-zstd", as stored.

    "gzip" (levels 0 to 9, default 4), "zstd" (1 to 22, 3) and "lz4" have shuffle before them. `element_size` in bytes.
    For `dcpl.set_filter` with hdf5plugin imported, bitshuffle's first three values are left out: its plugin adds them.

    Raises InvalidArgument for another name or level.
    """

def undecodable(filters: Filters, element_size: int, chunk_bytes: int) -> str | None:
    """Why chunks with these filters cannot be decoded here, in words; None where they can."""

def filter_name(id: int) -> str | None:
    """The name of an HDF5 filter id, where it is registered."""

def _decode_chunk(
    chunk: bytes, mask: int, filters: Filters, element_size: int, chunk_bytes: int, repeats: int = 1
) -> bytes:
    """One stored chunk, decoded; `mask` bit i: filter i was skipped. For tests and measurements (`repeats`) alone."""
