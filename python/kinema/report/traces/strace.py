"""Logs of strace as trace files: system calls on files become the POSIX events that Kinema and DFTracer write.

The log is from `strace -f -y -s 0 --absolute-timestamps=format:unix,precision:ns --syscall-times=ns`: each line begins
with the number of the thread, and each descriptor is followed by its path.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from kinema.base.errors import CorruptFileError
from kinema.base.input_files import open_regular
from kinema.report.traces.writing import TraceWriter

# C's names of the calls, as in Kinema and DFTracer, by the kernel's names
_NAMES = {
    "open": "open64", "openat": "open64", "openat2": "open64", "creat": "open64", "close": "close",
    "read": "read", "pread64": "pread64", "readv": "readv", "preadv": "preadv64", "preadv2": "preadv64v2",
    "write": "write", "pwrite64": "pwrite64", "writev": "writev", "pwritev": "pwritev64", "pwritev2": "pwritev64v2",
    "lseek": "lseek64", "stat": "stat", "lstat": "lstat", "fstat": "fstat", "newfstatat": "stat", "statx": "stat",
    "access": "access", "faccessat": "access", "faccessat2": "access", "getdents64": "getdents64",
    "readlink": "readlink", "readlinkat": "readlink", "fsync": "fsync", "fdatasync": "fdatasync",
    "sync_file_range": "sync_file_range", "msync": "msync", "ftruncate": "ftruncate64", "truncate": "truncate64",
    "fallocate": "fallocate", "fadvise64": "posix_fadvise", "rename": "rename", "renameat": "rename",
    "renameat2": "rename", "unlink": "unlink", "unlinkat": "unlink", "mkdir": "mkdir", "mkdirat": "mkdir",
    "rmdir": "rmdir", "flock": "flock", "mmap": "mmap", "copy_file_range": "copy_file_range",
    "sendfile": "sendfile",
}  # fmt: skip
_TRANSFERS = {name for name in _NAMES if ("read" in name and "link" not in name) or "write" in name} | {
    "copy_file_range", "sendfile",
}  # fmt: skip
# index of the argument with the file offset: the last one, or the last before flags
_AT_PLACES = {"pread64": -1, "pwrite64": -1, "preadv": -1, "pwritev": -1, "preadv2": -2, "pwritev2": -2}
_STARTS = ("clone", "clone3", "fork", "vfork")
OPTIONS = (
    "-f", "-y", "-s", "0", "--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns", "--seccomp-bpf",
    "-e", "trace=" + ",".join(f"?{name}" for name in (*_NAMES, *_STARTS, "execve")),
    # no lines about signals
    "-e", "signal=none",
)  # fmt: skip

_LINE = re.compile(r"(\d+) +(\d+)\.(\d{9}) (.*)")
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>")
# the call, its arguments, its result, and its duration
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+|\?)(.*?)(?: <(\d+)\.(\d{9})>)?", re.DOTALL)
_DESCRIPTOR = re.compile(r"(?:^|[(, ])(?:-?\d+|AT_FDCWD)<((?:[^<>\\]|\\.)*)>")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f", b"b": b"\b", b"a": b"\a"}
# paths that are not files of a file system; files in memory, such as a node cache's, do count
_NO_FILES = re.compile(r"/(dev(?!/shm/)|proc|sys)(/|$)")


@dataclass(eq=False)
class Imported:
    """The contents of a log.

    `left_out`: calls left out, by reason: not on a file, on a file not asked for, or not ended.
    """

    events: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass
class _SystemCall:
    thread: int
    start: int
    name: str
    arguments: str
    result: str
    after: str
    duration: int


def import_log(
    log: str, out: IO[bytes], *, host: str, command: str, data: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> Imported:
    """Writes the calls of a log on files as a trace in Chrome's dialect.

    `host`, `command`: where it ran, and what.
    `data`: folders and files: only calls on these, and on what is in them, are kept.
    `without`: calls on these are left out.

    Raises CorruptFileError for a line that does not belong to such a log; the last line may be cut.
    """
    # a thread may be seen before the call that made it has ended, so the log is read twice
    processes = _processes_of(log)
    writer = TraceWriter(out, host, command, "strace")
    keep = _Kept(data, without)
    left_out: Counter[str] = Counter()
    for call in _calls(log, left_out):
        if call.name in _NAMES:
            _write_call(call, processes.get(call.thread, call.thread), writer, keep, left_out)
    writer.finish()
    return Imported(writer.events, left_out)


def _write_call(call: _SystemCall, process: int, writer: TraceWriter, keep: _Kept, left_out: Counter[str]) -> None:
    path = _path_of(call)
    why = keep.reason_against(path)
    if path is None or why is not None:
        left_out[why or ""] += 1
        return
    failed = call.result == "?" or call.result.startswith("-")
    args: dict[str, Any] = {"fhash": writer.hash_of(path, process)}
    if call.name in _TRANSFERS or call.name == "lseek":
        args["ret"] = -1 if failed else int(call.result)
    elif failed:
        args["ret"] = -1
    if failed and call.after.strip():
        args["error"] = call.after.split()[0]
    place = _AT_PLACES.get(call.name)
    if place is not None:
        word = call.arguments.split(", ")[place]
        if word.isdigit():
            args["offset"] = int(word)
    writer.add("POSIX", _name_of(call), process, call.thread, call.start, call.duration, args)


def _name_of(call: _SystemCall) -> str:
    if call.name in ("newfstatat", "statx") and '""' in call.arguments:
        return "fstat"
    if call.name in ("open", "openat") and "O_DIRECTORY" in call.arguments:
        return "opendir"
    return _NAMES[call.name]


def _path_of(call: _SystemCall) -> str | None:
    """The file that a call works on; None for a call without a file, such as a mapping of memory."""
    if call.name in ("open", "openat", "openat2", "creat"):
        # the path that the kernel found; for a failed call, the path asked for
        opened = re.match(r"<((?:[^<>\\]|\\.)*)>", call.after)
        if opened:
            return _unescaped(opened[1])
    descriptor, named = _DESCRIPTOR.search(call.arguments), _QUOTED.search(call.arguments)
    if call.name in _TRANSFERS or named is None or not named[1]:
        return None if descriptor is None else _unescaped(descriptor[1])
    path = _unescaped(named[1])
    # beside a folder's descriptor
    return path if descriptor is None else os.path.normpath(os.path.join(_unescaped(descriptor[1]), path))


def _unescaped(text: str) -> str:
    """A path as strace prints it, in C's escapes."""
    data = text.encode("utf-8", "surrogateescape")

    def replaced(found: re.Match[bytes]) -> bytes:
        one = found[1]
        return bytes([int(one, 8) & 255]) if one[:1].isdigit() else _LETTERS.get(one, one)

    return os.fsdecode(_ESCAPE.sub(replaced, data))


class _Kept:
    """The choice of files to keep."""

    def __init__(self, data: tuple[str, ...], without: tuple[str, ...]) -> None:
        self._data = tuple(os.path.realpath(one) for one in data)
        self._without = tuple(os.path.realpath(one) for one in without)

    def reason_against(self, path: str | None) -> str | None:
        """Why calls on a path are left out, in words; None if they are kept."""
        if path is None or not path.startswith("/") or _NO_FILES.match(path):
            return "on pipes, sockets, devices, memory, /proc and /sys"
        if _is_in(path, self._without):
            return "on the trace itself"
        if self._data and not _is_in(path, self._data):
            return "on files that are not asked for"
        return None


def _is_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in folders)


def _processes_of(log: str) -> dict[int, int]:
    """The process of each thread that is not the first of its own."""
    parents: dict[int, int] = {}
    for call in _calls(log, Counter()):
        if call.name in _STARTS and "CLONE_THREAD" in call.arguments and call.result.isdigit():
            parents[int(call.result)] = call.thread
    found = {}
    for thread in parents:
        first = thread
        while first in parents:
            first = parents[first]
        found[thread] = first
    return found


def _calls(log: str, left_out: Counter[str]) -> Iterator[_SystemCall]:
    """The calls of a log in the order of their ends; a call in two lines begins at the time of the first."""
    begun: dict[int, tuple[int, str]] = {}
    for text in _lines(log):
        thread, start, rest = text
        if rest.endswith(_UNFINISHED):
            begun[thread] = start, rest.removesuffix(_UNFINISHED)
            continue
        resumed = _RESUMED.match(rest)
        if resumed:
            if thread not in begun:
                left_out["that began before the recording"] += 1
                continue
            start, front = begun.pop(thread)
            rest = front + rest[resumed.end() :]
        call = _CALL.fullmatch(rest)
        # else a line about the end of a process, or its signals
        if call is not None:
            name, arguments, result, after, seconds, part = call.groups()
            if seconds is None:
                left_out["that did not return"] += name in _NAMES
                continue
            yield _SystemCall(thread, start, name, arguments, result, after, int(seconds) * 1_000_000_000 + int(part))
    left_out["that did not return"] += sum(one.partition("(")[0] in _NAMES for _, one in begun.values())


def _lines(log: str) -> Iterator[tuple[int, int, str]]:
    """Thread, time in ns, and rest of each line."""
    with open_regular(log, "log of strace") as file:
        for number, data in enumerate(file, 1):
            line = _LINE.fullmatch(data.rstrip(b"\n").decode("utf-8", "surrogateescape"))
            if line is None:
                # the last line of a log whose writer was killed
                if not data.endswith(b"\n") and number > 1:
                    return
                # strace writes "PID +++ exited with 0 +++", also with a time
                raise CorruptFileError(
                    f"line {number}: is none of a log of strace, expected a thread, a time and a call", at=log
                )
            yield int(line[1]), int(line[2]) * 1_000_000_000 + int(line[3]), line[4]
