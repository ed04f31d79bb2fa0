"""Verdicts on HDF5 files: what the walk through the structure says, made once for a file in one state.

The process that walks (`walk`) is started at the first file without a verdict, and ends when it is not asked any more.
Verdicts are kept in this process and in the user's cache folder, never beside the data: whoever sends a file must not
send its verdict. A file that has changed, as one that grows, is walked anew.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import h5py

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError, Error, InternalError
from kinema.storage.hdf5.trust import walk
from kinema.storage.stored_records import Record, RecordFolder

if TYPE_CHECKING:
    import subprocess

__all__ = [
    "Known",
    "KnownStructures",
    "Named",
    "Status",
    "StructureVerdict",
    "end_walks",
    "status_of",
    "verdict_on",
    "verdicts_known",
]

_FAULTS = {
    "time": "takes more than {seconds:.0f} s of CPU time",
    "memory": "takes more than {megabytes} MB of memory",
    "wall": "does not come to an end",
}
# of a walk: what small files may take, and more for each byte
_SECONDS, _BYTES_A_SECOND, _MOST_SECONDS = 1.0, 1 << 18, 600.0
_MEMORY, _MOST_MEMORY = 96 << 20, 1 << 30
# seconds; a walk that is not at work, but waits for a disk
_WALL = 120.0
# of what the walk looks at
_VERSION = 8
_MOST_KNOWN = 1 << 14
# of glibc; another C library says that it is not there, to nobody, and goes on without
_CHECKED_MALLOC = "libc_malloc_debug.so.0"
_FOLDER_BYTES, _LOOK_EVERY = 64 << 20, 256


def _is_readable(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read, or will be in time; descriptors may be beyond what `select` takes."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(1000 * seconds))


@dataclass(frozen=True)
class Named:
    """A file that another one names."""

    kind: str
    """"link", "virtual", "storage" (raw bytes of a data set) or "user-defined" (a link, which names no file)."""
    file: str
    at: str
    """The first object that names it."""


@dataclass(frozen=True)
class StructureVerdict:
    """What a walk says of a file whose structure can be read."""

    names: tuple[Named, ...]


Status = tuple[int, int, int, int, int]


@dataclass
class Known:
    """A verdict, or the message of the error, of a file in this state."""

    status: Status
    verdict: StructureVerdict | str
    stored: bool


_known: dict[str, Known] = {}
_lock = threading.Lock()


def status_of(path: str | int) -> Status:
    """Device, inode, size, times of a file, by its name or descriptor."""
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def verdict_on(path: str, *, stored: bool = True) -> StructureVerdict:
    """The verdict on a file as it is now; CorruptFileError where its structure cannot be read in bounds.

    `stored`: whether verdicts of the cache folder are used and stored. OSError for a file that is not there.
    """
    name = os.path.realpath(path)
    status = status_of(name)
    known = _known.get(name)
    # of the same file devices have other numbers on other nodes
    if known is not None and known.status[1:] != status[1:]:
        known = None
    if known is None or (stored and not known.stored):
        known = _judged(name, status, known, stored)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[name] = known
    if isinstance(known.verdict, str):
        raise CorruptFileError(f"{path}: {known.verdict}", path=path, format="H5MD")
    return known.verdict


@dataclass(frozen=True)
class KnownStructures:
    """Verdicts of one process, by the real names of files, that others of its run take over: one walks, and stores."""

    verdicts: dict[str, Known]

    def remember(self) -> None:
        """Takes them over, in the process that they were sent to."""
        for name, one in self.verdicts.items():
            _known.setdefault(name, replace(one, stored=True))


def verdicts_known(paths: Iterable[str]) -> KnownStructures:
    """The verdicts of this process on files."""
    names = map(os.path.realpath, paths)
    return KnownStructures({name: _known[name] for name in names if name in _known})


def _judged(name: str, status: Status, known: Known | None, stored: bool) -> Known:
    """By the record in the cache folder, or by a walk, whose verdict is stored."""
    records = RecordFolder(
        "structures", "auto" if stored else "memory", most_of_all=_FOLDER_BYTES, look_every=_LOOK_EVERY
    )
    identity = None
    if stored:
        with suppress(Error):  # whoever opens the file says what is wrong
            identity = _core.FileIdentity.of(name, places=0)
    facts = {"library": h5py.version.hdf5_version, "version": _core.__version__, "walk": _VERSION}
    if identity is not None and known is None:
        record, _ = records.load(os.fsencode(name), identity, facts)
        if record is not None:
            with suppress(KeyError, TypeError, ValueError):
                return Known(status, _parse_record(record), True)
    verdict = _walked(name, status[2]) if known is None else known.verdict
    if identity is not None and status_of(name) == status:
        values: dict[str, Any] = (
            {"fault": verdict}
            if isinstance(verdict, str)
            else {"names": [[one.kind, one.file, one.at] for one in verdict.names]}
        )
        # one that cannot be stored is made again
        records.store(os.fsencode(name), identity, facts, Record(values))
    return Known(status, verdict, stored)


def _parse_record(record: Record) -> StructureVerdict | str:
    values = record.values
    if "fault" in values:
        return str(values["fault"])
    return StructureVerdict(tuple(Named(str(kind), str(file), str(at)) for kind, file, at in values["names"]))


def _walked(name: str, size: int) -> StructureVerdict | str:
    seconds = min(_SECONDS + size / _BYTES_A_SECOND, _MOST_SECONDS)
    memory = _MEMORY + min(size, _MOST_MEMORY)
    answer = _ask({"path": name, "seconds": seconds, "memory": memory, "wall": _WALL + 2 * seconds})
    fault = answer.get("fault")
    if fault is None:
        return StructureVerdict(tuple(Named(kind, file, at) for kind, file, at in answer.get("names", [])))
    if fault == "crash":
        if answer["code"] > 0:
            raise InternalError(f"{name}: the walk through its structure ended with code {answer['code']}", path=name)
        which = signal.Signals(-answer["code"]).name
        return f"HDF5 structure is damaged: libhdf5 crashes on it ({which}), in a process that looks at it beforehand"
    if fault in _FAULTS:
        said = _FAULTS[fault].format(seconds=seconds, megabytes=memory >> 20)
        return f"HDF5 structure is damaged: reading it {said}, for a file of {size} bytes"
    return f"HDF5 structure is damaged: {fault}"


class _Walker:
    """The process that walks, as this one uses it; one request at a time."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        if not sys.executable:
            raise ArgumentError("HDF5 files are looked at by a Python interpreter, and this program has none to name")
        # needed for a file without a verdict alone
        import subprocess

        # one thread; memory that is freed is overwritten, and what is behind it checked: use after that is seen, and
        # use beyond it
        preloaded = " ".join(filter(None, (os.environ.get("LD_PRELOAD"), _CHECKED_MALLOC)))
        environment = {
            **os.environ,
            **{"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            **{"MALLOC_PERTURB_": "165", "MALLOC_CHECK_": "3", "LD_PRELOAD": preloaded},
        }
        paths = [str(path) for path in sys.path]
        code = f"import sys, runpy; sys.path[:] = {paths!r}; runpy.run_path({walk.__file__!r}, run_name='__main__')"
        # signals of a job are the parent's to act on
        blocked = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=environment,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.close = weakref.finalize(self, _end, self._process, self.owner)
        # one that has ended because nothing was asked is no zombie
        threading.Thread(target=self._process.wait, name="kinema-walk-ended", daemon=True).start()

    def runs(self) -> bool:
        """Whether it can be asked by this process."""
        return self.owner == os.getpid() and self.close.alive and self._process.poll() is None

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None where the process has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        answer = b""
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            end = time.monotonic() + request["wall"] + 60.0
            while not answer.endswith(b"\n"):
                left = max(0.0, end - time.monotonic())
                block = b""
                if _is_readable(self._process.stdout.fileno(), left):
                    block = self._process.stdout.read(1 << 16) or b""
                if not block:
                    break
                answer += block
        except BrokenPipeError:
            answer = b""
        except BaseException:
            # the answer would be taken for that of the next request
            self.close()
            raise
        if not answer.endswith(b"\n"):
            self.close()
            return None
        found: dict[str, Any] = json.loads(answer)
        return found


_walkers: list[_Walker] = []


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """The answer of the process that walks; it is started where it does not run."""
    with _lock:
        for _ in range(2):  # one that waited for long may just have ended
            if not (_walkers and _walkers[0].runs()):
                _walkers[:] = [_Walker()]
            answer = _walkers[0].ask(request)
            if answer is not None:
                return answer
    raise InternalError(f"{request['path']}: the process that looks at the structure of HDF5 files has ended")


def end_walks() -> None:
    """Ends the process that walks; the next file without a verdict starts another."""
    with _lock:
        for walker in _walkers:
            walker.close()
        _walkers.clear()


def _renew_lock() -> None:
    """The lock may have been another thread's."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """Ends the process, in the one that started it."""
    if os.getpid() != owner:
        return
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.kill()
    process.wait()
