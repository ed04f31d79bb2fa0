"""Output files: written under a temporary name beside their own, synced and renamed when whole.

This is the only place that names temporary files of outputs: `NAME.part-HOST-BOOT-PID.EXT` for `NAME.EXT`.

- HOST and PID belong to the process that writes; PID.2, PID.3, ... are used if a name is taken.
- BOOT is eight hexadecimal digits, which differ for each boot of the machine and each process namespace. With a `k`
  (keep) before BOOT, a later run never removes the file: it holds frames of a `kinema.Writer`, or rows that a
  checkpoint needs. The file gets the `k` when it has them (`protect`). Files without `k` can be made again.

The name tells a later run what to do with a file. If its process is visibly alive, a second run with the same output is
an error. If its process ran on this host since its boot and is gone, the file is removed. All other files are noted.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shutil
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from kinema.base.errors import ArgumentError, Error, FileAccessError, from_os, os_errors
from kinema.base.frozen_dataclass import dataclass
from kinema.base.notes import collected, emit_once
from kinema.storage.output_checks import check_target, is_stream, open_temporary, others_may_move

# most bytes of NAME and EXT; file systems allow 255 for the whole name
_LONGEST_NAME = 180
_HOST_LENGTH = 32
# a process that began this many seconds after the last change of a file has not written it
_CLOCK_SLACK = 5.0
# longest random wait, in seconds, if two runs begin at the same moment
_BACK_OFF = 0.02

# temporary files and folders that this process writes; after a fork the child does not own its parent's
_open: set[str] = set()
# files reserved before a run until `write_whole` writes them, by the name of the output
_reserved: dict[str, OutputFile] = {}


class OutputFile:
    """A file under a temporary name in the folder of `path`, until `commit` gives it its final name.

    The file is removed in all other cases (an error, Ctrl-C, the object is forgotten, the interpreter ends), except
    after `keep`; only a killed process leaves it. Its mode follows the umask, as for any new file. As a context manager
    it commits at the end of the block, and removes the file if the block raises.

    `protected_name`: the value of `temporary` after `protect`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        alone: bool = False,
        resumed: str | None = None,
    ) -> None:
        """Creates the empty file, and removes or notes files that earlier runs have left.

        `alone`: raise ArgumentError if another run, visibly alive, writes the same output. Use this before anything is
            computed.
        `resumed`: a temporary file that this run continues: it is not noted.

        Raises ArgumentError, FileNotFound, FileAccessError, FileIOError.
        """
        self.path = os.fspath(path)
        remove_leftovers(self.path, but=resumed)
        number = _created(self.path, _create_file, alone=alone)
        self.temporary = _temporary_name(self.path, number)
        self.protected_name = _temporary_name(self.path, number, protected=True)
        self._absolute = os.path.abspath(self.temporary)
        self._discard = weakref.finalize(self, _remove, self._absolute, os.getpid())

    def commit(self) -> None:
        """Syncs and renames the file, which all writers have closed; removes it if that fails."""
        try:
            publish(self.temporary, self.path)
        except BaseException:
            self.discard()
            raise
        self.keep()
        self.end()

    def protect(self) -> None:
        """Gives the file a temporary name under which no later run removes it if this process is killed.

        Raises FileNotFound, FileAccessError or FileIOError.
        """
        name = self.protected_name
        with os_errors("cannot write", self.temporary):
            os.rename(self.temporary, name)
        _open.add(os.path.abspath(name))
        _open.discard(self._absolute)
        self._discard.detach()
        self.temporary, self._absolute = name, os.path.abspath(name)
        self._discard = weakref.finalize(self, _remove, self._absolute, os.getpid())

    def keep(self) -> None:
        """Leaves the file under its temporary name while this process continues or ends, until `commit` or `end`."""
        self._discard.detach()

    def end(self) -> None:
        """Ends the writing: nobody writes the file any more."""
        _open.discard(self._absolute)

    def discard(self) -> None:
        """Removes the file; does nothing after `commit` or `keep`, or at a second call."""
        self._discard()

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.commit()
            return
        self.discard()
        if isinstance(error, OSError) and not isinstance(error, Error):
            raise from_os("cannot write", error, path=self.path) from None


def write_whole(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Calls `write(file)` for a file that appears as `path` when it is whole; leaves nothing if `write` raises.

    Streams (`is_stream`) are written into. Raises FileNotFound, FileAccessError or FileIOError instead of OSError.
    """
    name = os.fspath(path)
    if is_stream(name):
        _write_stream(name, write)
        return
    reserved = _reserved.pop(os.path.abspath(name), None)
    with reserved or OutputFile(name) as output, open_temporary(output.temporary, "wb") as file:
        write(file)


def write_index(path: str, data: bytes) -> str | None:
    """Writes an index, or other data kept about a file, never into a stream. Returns a note, because it runs in
    threads."""
    with collected() as notes, OutputFile(path) as output, open_temporary(output.temporary, "wb") as file:
        file.write(data)
    return "; ".join(notes) or None


def reserve(path: str | os.PathLike[str]) -> None:
    """Makes the temporary file that `write_whole` will write: from now on other runs see that `path` is being written.

    The file is removed at the end of the `reservations` block. Raises ArgumentError if another run writes `path`, and
    the errors of `check_target`. Does nothing for streams.
    """
    name = os.fspath(path)
    if is_stream(name):
        return
    check_target(name)
    _reserved[os.path.abspath(name)] = OutputFile(name, alone=True)


@contextmanager
def reservations() -> Iterator[None]:
    """Context at whose end files are removed that were reserved in it and not written."""
    before = set(_reserved)
    try:
        yield
    finally:
        for name in set(_reserved) - before:
            _reserved.pop(name).discard()


def sync(place: str) -> None:
    """Writes a file, or the entries of a folder, to the disk (fsync). Raises OSError."""
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def publish(temporary: str, path: str) -> None:
    """Syncs a finished file and renames it to `path`. Raises FileNotFound, FileAccessError or FileIOError."""
    with os_errors("cannot write", path):
        sync(temporary)
        os.replace(temporary, path)


def lock_alone(handle: int, path: str) -> None:
    """Locks a growing open file until `handle` is closed; raises FileAccessError if another writer has locked it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileAccessError("cannot append: another program has it open for writing", at=path) from None
    except OSError:
        # file systems without locks: there the user must ensure that only one program writes at a time
        return


@contextmanager
def temporary_folder(path: str | os.PathLike[str], *, alone: bool = True) -> Iterator[str]:
    """Context with a private folder under a temporary name beside `path`, removed with its content after the block.

    Raises ArgumentError if another run writes `path`; without `alone` each run has its own folder.
    """
    remove_leftovers(path)
    name = _temporary_name(os.fspath(path), _created(os.fspath(path), _create_folder, alone=alone))
    try:
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)
        _open.discard(os.path.abspath(name))


@contextmanager
def folder_of_results(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Context with a folder, which is made if it does not exist. If it was made and is still empty at the end of the
    block, it is removed."""
    place = Path(path)
    is_new = not place.exists()
    with os_errors("cannot write", str(place)):
        place.mkdir(parents=True, exist_ok=True)
    try:
        yield place
    finally:
        if is_new:
            # a folder with results stays
            with suppress(OSError):
                place.rmdir()


@contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[str]:
    """Context with a folder under a temporary name, which is synced and becomes `path` at the end of the block, or is
    removed if the block raises. An existing folder is moved aside, and removed when the new one has its name.

    Raises ArgumentError if another run writes `path`; FileNotFound, FileAccessError and FileIOError.
    """
    name = os.path.normpath(os.fspath(path))
    with temporary_folder(name) as temporary:
        yield temporary
        with os_errors("cannot write", name):
            for folder, _, files in os.walk(temporary):
                for place in [*(os.path.join(folder, file) for file in files), folder]:
                    sync(place)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o777 & ~mask)
            if os.path.isdir(name):
                with temporary_folder(name, alone=False) as aside:
                    os.rename(name, os.path.join(aside, "replaced"))
                    os.rename(temporary, name)
            else:
                os.rename(temporary, name)


def remove_leftovers(path: str | os.PathLike[str], *, but: str | None = None) -> None:
    """Removes temporary files of `path` whose processes were killed on this host since its boot, and which can be made
    again; notes all others that no living process of this host writes, except `but`.

    A folder is only noted if others may rename files beside it: they could have given its name to a folder of the
    user's."""
    name = os.fspath(path)
    known = None if but is None else os.path.abspath(but)
    for found in _temporaries(name):
        if found.path == known:
            continue
        movable = os.path.isdir(found.path) and others_may_move(found.path)
        if found.is_disposable and not movable:
            _remove_any(found.path)
        elif not found.is_alive:
            _note(found, name)


def remove_written_with(other: str, path: str) -> None:
    """Removes temporary files of the output `path` that the writer of the temporary file `other` has left.

    Files of a process that is visibly alive stay: `other` is a name that a checkpoint gives.
    """
    writer = re.search(r"\.part-([\w.-]+)-k?([0-9a-f]{8})-(\d+)", os.path.basename(other), re.ASCII)
    for found in _temporaries(path):
        if writer and writer.groups() == (found.host, found.boot, str(found.pid)) and not found.is_alive:
            _remove_any(found.path)


def is_temporary_of(found: str, path: str) -> bool:
    """Whether a file exists, and is a temporary file of the output `path`."""
    return os.path.abspath(found) in {one.path for one in _temporaries(path)}


@dataclass(frozen=True)
class _Temporary:
    """A temporary file of an output, described by its name."""

    path: str
    host: str
    kept: bool
    boot: str
    pid: int

    @property
    def is_near(self) -> bool:
        """Whether its process, if it exists, is visible from here."""
        return (self.host, self.boot) == machine() and self.boot != _UNKNOWN_BOOT

    @property
    def is_alive(self) -> bool:
        """Whether the process that writes it is visible. A process with the same number that began later is not it."""
        if not self.is_near:
            return False
        if self.pid == os.getpid():
            return self.path in _open
        began = _start_of(self.pid)
        with suppress(OSError):
            return began is not None and began < os.stat(self.path).st_mtime + _CLOCK_SLACK
        return False

    @property
    def is_disposable(self) -> bool:
        """Whether certainly nobody writes it, and a command can make it again."""
        if self.kept or not self.is_near:
            return False
        return self.path not in _open if self.pid == os.getpid() else _start_of(self.pid) is None


_UNKNOWN_BOOT = "0" * 8


@cache
def machine() -> tuple[str, str]:
    """HOST and BOOT of this process. Containers may share their host's name but have their own processes."""
    host = re.sub(r"[^\w.-]", "_", os.uname().nodename, flags=re.ASCII)[:_HOST_LENGTH] or "host"
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            identity = file.read() + os.readlink("/proc/self/ns/pid").encode()
    except OSError:
        return host, _UNKNOWN_BOOT
    from hashlib import blake2b

    return host, blake2b(identity, digest_size=4).hexdigest()


def _start_of(pid: int) -> float | None:
    """Start of a process of this host, in seconds since 1970; None if it does not exist or has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass  # another user's process
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # the name of the program, in brackets, may hold anything
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/uptime", "rb") as file:
            uptime = float(file.read().split()[0])
    except OSError:
        return 0.0  # it exists, but shows nothing else
    if fields[0] in (b"Z", b"X"):
        return None
    return time.time() - uptime + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _stem_and_suffix(path: str) -> tuple[str, str]:
    """NAME and EXT of an output; cuts a name that is too long for file systems."""
    stem, suffix = os.path.splitext(os.path.basename(path))
    if len(os.fsencode(stem + suffix)) <= _LONGEST_NAME:
        return stem, suffix
    from hashlib import blake2b

    digest = blake2b(os.fsencode(stem + suffix), digest_size=8).hexdigest()
    suffix = suffix if len(os.fsencode(suffix)) < 20 else ""
    return os.fsdecode(os.fsencode(stem)[:100]) + digest, suffix


def _temporary_name(path: str, number: int, *, protected: bool = False) -> str:
    stem, suffix = _stem_and_suffix(path)
    host, boot = machine()
    count = f".{number}" if number > 1 else ""
    name = f"{stem}.part-{host}-{'k' if protected else ''}{boot}-{os.getpid()}{count}{suffix}"
    return os.path.join(os.path.dirname(path), name)


def _temporaries(path: str) -> list[_Temporary]:
    """All temporary files of an output, in the order of their names."""
    stem, suffix = _stem_and_suffix(path)
    begin = f"{stem}.part-"
    pattern = re.compile(rf"([\w.-]+)-(k?)([0-9a-f]{{8}})-(\d+)(?:\.\d+)?{re.escape(suffix)}", re.ASCII)
    folder = os.path.dirname(os.path.abspath(path))
    found = []
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            match = pattern.fullmatch(name, len(begin)) if name.startswith(begin) else None
            if match:
                host, kept, boot, pid = match.groups()
                found.append(_Temporary(os.path.join(folder, name), host, bool(kept), boot, int(pid)))
    return found


def _created(path: str, create: Callable[[str], None], *, alone: bool) -> int:
    """The number of a temporary name of `path`, under which `create` has made a new file or folder."""
    while True:
        if alone:
            _refuse_second(path)
        number = _created_anywhere(path, create)
        own = os.path.abspath(_temporary_name(path, number))
        if not alone or not any(found.is_alive and found.path != own for found in _temporaries(path)):
            return number
        # another run came between the two checks: a run that sees the other withdraws, and comes second if it must
        _remove(own, os.getpid())
        from random import uniform

        time.sleep(uniform(0, _BACK_OFF))


def _created_anywhere(path: str, create: Callable[[str], None]) -> int:
    for number in itertools.count(1):
        name = _temporary_name(path, number)
        if os.path.lexists(_temporary_name(path, number, protected=True)):
            continue
        try:
            create(name)
        except FileExistsError:
            continue
        except OSError as error:
            raise from_os("cannot write", error, path=path) from None
        _open.add(os.path.abspath(name))
        return number
    raise AssertionError  # there is always another number


def _refuse_second(path: str) -> None:
    for found in _temporaries(path):
        if found.is_alive:
            who = "this process" if found.pid == os.getpid() else f"process {found.pid}"
            raise ArgumentError(
                f"is being written by {who}, as {os.path.basename(found.path)} shows; give every run an output "
                "of its own",
                at=path,
            )


def _note(found: _Temporary, path: str) -> None:
    """Notes a file that another run has left, or may be writing."""
    if found.kept:
        what = "holds what a run has left that was ended; it can be read as it is, and is never removed by a later run"
    else:
        what = f"was left by process {found.pid} on {found.host}, or is being written by it; remove it if it is not"
    emit_once([f"{found.path}: {what} (it is not yet {os.path.basename(path)})"])


def _create_file(name: str) -> None:
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))


def _create_folder(name: str) -> None:
    os.mkdir(name, 0o700)


def _remove(name: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that was forked
        _open.discard(name)
        _remove_any(name)


def _remove_any(name: str) -> None:
    with suppress(FileNotFoundError):
        if os.path.isdir(name) and not os.path.islink(name):
            shutil.rmtree(name, ignore_errors=True)
        else:
            os.unlink(name)


def _write_stream(name: str, write: Callable[[IO[bytes]], object]) -> None:
    with os_errors("cannot write", name):
        if name in ("-", "/dev/stdout"):
            sys.stdout.flush()
            # not closed here: the stream belongs to the process
            write(sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        with open(name, "wb") as file:
            write(file)
