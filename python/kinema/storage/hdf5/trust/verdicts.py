"""Verdicts on HDF5 files: results of the walk through the structure, made once for each state of a file.

The walking process (`walk`) is started at the first file without a verdict, and ends after some time without requests.
Verdicts are kept in this process and in the user's cache folder, never beside the data: the sender of a file must not
send its verdict. A file that has changed, for example by growing, is walked again.
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

_FAULTS = {
    "time": "takes more than {seconds:.0f} s of CPU time",
    "memory": "takes more than {megabytes} MB of memory",
    "wall": "does not come to an end",
}
# limits of a walk: the limit for small files, and the addition for each byte
_SECONDS, _BYTES_A_SECOND, _MOST_SECONDS = 1.0, 1 << 18, 600.0
_MEMORY, _MOST_MEMORY = 96 << 20, 1 << 30
# seconds for a walk that is not computing, but waits for a disk
_WALL = 120.0
# version of the checks of the walk
_VERSION = 8
_MOST_KNOWN = 1 << 14
# a setting of glibc; another C library silently continues without it
_CHECKED_MALLOC = "libc_malloc_debug.so.0"
_FOLDER_BYTES, _LOOK_EVERY = 64 << 20, 256


def _is_readable(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read within `seconds`; descriptors may be beyond the limit of `select`."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(1000 * seconds))


@dataclass(frozen=True)
class Named:
    """A file that another file names."""

    kind: str
    """"link", "virtual", "storage" (raw bytes of a data set) or "user-defined" (a link, which names no file)."""
    file: str
    at: str
    """The first object that names it."""


@dataclass(frozen=True)
class StructureVerdict:
    """Verdict on a file whose structure can be read."""

    names: tuple[Named, ...]


Status = tuple[int, int, int, int, int]


@dataclass
class Known:
    """A verdict, or an error message, on a file in a certain state."""

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
    """The verdict on a file in its current state.

    `stored`: whether verdicts of the cache folder are used and stored. Raises CorruptFileError if the structure cannot
    be read within bounds, and OSError if the file does not exist.
    """
    name = os.path.realpath(path)
    status = status_of(name)
    known = _known.get(name)
    # the same file may have different device numbers on different nodes
    if known is not None and known.status[1:] != status[1:]:
        known = None
    if known is None or (stored and not known.stored):
        known = _judged(name, status, known, stored)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[name] = known
    if isinstance(known.verdict, str):
        raise CorruptFileError(f"{known.verdict}", at=path, format="H5MD")
    return known.verdict


@dataclass(frozen=True)
class KnownStructures:
    """Verdicts of one process, by real names of files, for the others of its run: only one walks and stores."""

    verdicts: dict[str, Known]

    def remember(self) -> None:
        """Adds the verdicts to those of this process, which has received them."""
        for name, one in self.verdicts.items():
            _known.setdefault(name, replace(one, stored=True))


def verdicts_known(paths: Iterable[str]) -> KnownStructures:
    """The verdicts of this process on files."""
    names = map(os.path.realpath, paths)
    return KnownStructures({name: _known[name] for name in names if name in _known})


def _judged(name: str, status: Status, known: Known | None, stored: bool) -> Known:
    """The verdict from the cache folder, or from a walk, whose verdict is then stored."""
    records = RecordFolder(
        "structures", "auto" if stored else "memory", most_of_all=_FOLDER_BYTES, look_every=_LOOK_EVERY
    )
    identity = None
    if stored:
        with suppress(Error):  # the code that opens the file reports the error
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
        # a verdict that cannot be stored is made again
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
            raise InternalError(f"the walk through its structure ended with code {answer['code']}", at=name)
        which = signal.Signals(-answer["code"]).name
        return f"HDF5 structure is damaged: libhdf5 crashes on it ({which}), in a process that looks at it beforehand"
    if fault in _FAULTS:
        said = _FAULTS[fault].format(seconds=seconds, megabytes=memory >> 20)
        return f"HDF5 structure is damaged: reading it {said}, for a file of {size} bytes"
    return f"HDF5 structure is damaged: {fault}"


class _Walker:
    """This process's handle of the walking process; one request at a time."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        if not sys.executable:
            raise ArgumentError("HDF5 files are looked at by a Python interpreter, and this program has none to name")
        # needed only for a file without a verdict
        import subprocess

        # one thread; freed memory is overwritten, and the bytes after it are checked: this reveals use after free, and
        # use beyond the end
        preloaded = " ".join(filter(None, (os.environ.get("LD_PRELOAD"), _CHECKED_MALLOC)))
        environment = {
            **os.environ,
            **{"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            **{"MALLOC_PERTURB_": "165", "MALLOC_CHECK_": "3", "LD_PRELOAD": preloaded},
        }
        paths = [str(path) for path in sys.path]
        code = f"import sys, runpy; sys.path[:] = {paths!r}; runpy.run_path({walk.__file__!r}, run_name='__main__')"
        # only the parent acts on signals of a job
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
        # a process that has ended for lack of requests must not stay as a zombie
        threading.Thread(target=self._process.wait, name="kinema-walk-ended", daemon=True).start()

    def runs(self) -> bool:
        """Whether the walking process runs and belongs to this process."""
        return self.owner == os.getpid() and self.close.alive and self._process.poll() is None

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a request; None if the process has ended."""
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
            # the late answer would be taken for the answer to the next request
            self.close()
            raise
        if not answer.endswith(b"\n"):
            self.close()
            return None
        found: dict[str, Any] = json.loads(answer)
        return found


_walkers: list[_Walker] = []


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """The answer of the walking process, which is started if it does not run."""
    with _lock:
        for _ in range(2):  # a process that has waited for long may just have ended
            if not (_walkers and _walkers[0].runs()):
                _walkers[:] = [_Walker()]
            answer = _walkers[0].ask(request)
            if answer is not None:
                return answer
    raise InternalError(f"{request['path']}: the process that looks at the structure of HDF5 files has ended")


def end_walks() -> None:
    """Ends the walking process; the next file without a verdict starts another."""
    with _lock:
        for walker in _walkers:
            walker.close()
        _walkers.clear()


def _renew_lock() -> None:
    """Replaces the lock in a forked child: another thread may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """Ends the walking process, if called in the process that started it."""
    if os.getpid() != owner:
        return
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.kill()
    process.wait()
