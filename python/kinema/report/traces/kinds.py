"""Kinds of events: application-level I/O, POSIX I/O, computing, waiting; and the POSIX calls that read or write.

Names and categories are as Kinema writes them; for DFTracer's own files, as in its preset `dlio`.
"""

from __future__ import annotations

from typing import Literal

__all__ = [
    "APPLICATION",
    "BATCH",
    "COMPUTE",
    "KINDS",
    "OPENING",
    "OPERATIONS",
    "OTHER",
    "POSIX",
    "TRANSFERS",
    "WAIT",
    "Operation",
    "kind_of",
    "operation_of",
]

APPLICATION, POSIX, COMPUTE, WAIT, BATCH, OTHER = "application", "posix", "compute", "wait", "batch", "other"
KINDS = (APPLICATION, POSIX, COMPUTE, WAIT, BATCH, OTHER)
Operation = Literal["read", "write", "copy", "metadata", "sync", "map", ""]
OPERATIONS: tuple[Operation, ...] = ("read", "write", "copy", "metadata", "sync", "map")
TRANSFERS = ("read", "write", "copy")

_POSIX_CATEGORIES = {"posix", "stdio"}
# of Kinema's own events: by category, and by category and name
_OWN = {"reader": APPLICATION, "cache": APPLICATION, "decode": COMPUTE, "compute": COMPUTE, "wait": WAIT}
_OWN_NAMES = {
    ("writer", "write"): APPLICATION,
    ("writer", "commit"): APPLICATION,
    ("writer", "encode"): COMPUTE,
    ("pipeline", "train.step"): COMPUTE,
    ("dataloader", "fetch.iter"): BATCH,
}
# of other programs
_FOREIGN = {
    "reader": APPLICATION,
    "data": APPLICATION,
    "data_loader": APPLICATION,
    "dataloader": APPLICATION,
    "checkpoint": APPLICATION,
    "compute": COMPUTE,
}
_READS = {"read", "pread", "pread64", "readv", "preadv", "preadv64", "preadv2", "preadv64v2", "fread", "fgets", "fgetc"}
_WRITES = {
    "write", "pwrite", "pwrite64", "writev", "pwritev", "pwritev64", "pwritev2", "pwritev64v2", "fwrite", "fputs",
    "fputc", "fprintf", "vfprintf",
}  # fmt: skip
_COPIES = {"copy_file_range", "sendfile", "sendfile64", "splice"}
# calls and events that open a file, or a trajectory
OPENING = (
    "open", "open64", "openat", "openat64", "openat2", "creat", "creat64", "fopen", "fopen64", "header",
)  # fmt: skip
_SYNCS = {"fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range", "fflush"}
_MAPS = {"mmap", "mmap64", "munmap"}


def kind_of(category: str, name: str, *, own: bool) -> str:
    """One of `KINDS`; `own`: of a process that Kinema has traced, whose category `dataloader` is a wait for a batch."""
    if category.lower() in _POSIX_CATEGORIES:
        return POSIX
    if own:
        return _OWN_NAMES.get((category, name)) or _OWN.get(category, OTHER)
    return APPLICATION if "preprocess" in name else _FOREIGN.get(category, OTHER)


def operation_of(kind: str, category: str, name: str) -> Operation:
    """The operation of a call: every POSIX call has one, application-level calls only if they read or write."""
    if kind == APPLICATION:
        if category == "writer":
            return "write"
        return "read" if category == "reader" and "read" in name else ""
    if kind != POSIX:
        return ""
    if name in _READS:
        return "read"
    if name in _WRITES:
        return "write"
    if name in _COPIES:
        return "copy"
    if name in _SYNCS:
        return "sync"
    return "map" if name in _MAPS else "metadata"
