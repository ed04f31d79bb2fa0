"""`record`: runs any command under strace and writes a trace of its I/O, beside the events of Kinema's own commands.

The command keeps its standard streams and receives Ctrl-C; its exit code is passed on.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kinema.base.errors import ArgumentError, Error, FileIOError, MissingPackageError, os_errors
from kinema.base.printable import counted
from kinema.report.traces.lines import SUFFIXES
from kinema.report.traces.strace import OPTIONS, Imported, import_log
from kinema.storage.output_file import write_whole

_INSTALL = (
    "install it with: apt install strace (Debian, Ubuntu), dnf install strace (Fedora, RHEL), or conda install strace"
)
# signals to this process that are meant for the command; a terminal's keys send the first two
_OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON = (*_OF_TERMINALS, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# ms
_WAKE = 100


@dataclass(frozen=True)
class RecordedCommand:
    """A recorded command.

    `code`: the command's exit code; 128 and the number of a signal that ended it.
    """

    folder: str
    path: str
    code: int
    events: int
    notes: tuple[str, ...]


def record(
    command: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    data: Sequence[str | os.PathLike[str]] = (),
    overwrite: bool = False,
) -> RecordedCommand:
    """Runs a command under strace and writes its trace to `folder` (made if missing) as `strace-HOST-PID.pfw`.

    `data` are folders and files; then only calls on these, and on files in them, are kept. KINEMA_TRACE is set to the
    folder, so that Kinema's commands add their own events. After the recording, `overwrite` removes an older trace from
    the folder.

    Raises MissingPackageError without strace; ArgumentError for a command that does not exist and for a folder that has
    a trace; FileIOError if strace may not trace processes.
    """
    name = os.fspath(folder)
    if not command:
        raise ArgumentError("no command is named; it follows --: kinema trace -- COMMAND ARGUMENTS")
    strace = shutil.which("strace")
    if strace is None:
        raise MissingPackageError(f"kinema trace needs strace, which is not installed; {_INSTALL}")
    if shutil.which(command[0]) is None:
        raise ArgumentError(f"{command[0]}: is not a command that can be run, expected one in PATH or a path")
    before = _prepare(name, overwrite=overwrite)
    log = os.path.join(name, f"strace-{os.getpid()}.log")
    words = [strace, *OPTIONS, "-o", log, "--", *command]
    code = _run(words, {**os.environ, "KINEMA_TRACE": os.path.abspath(name)}, log)
    first = _first_thread(log)
    if first is None:
        with suppress(FileNotFoundError):
            os.remove(log)
        raise FileIOError(f"strace could not run {command[0]}, as it says above; the system may not allow it to trace")
    for there, inode in before.items():
        # not a file that a process of the command has replaced
        if os.stat(there).st_ino == inode:
            os.remove(there)
    host = socket.gethostname()
    path = os.path.join(name, f"strace-{host}-{first}.pfw")
    kept = {"data": tuple(os.fspath(one) for one in data), "without": (name,)}
    done: list[Imported] = []
    try:
        write_whole(path, lambda out: done.append(import_log(log, out, host=host, command=shlex.join(command), **kept)))
    except Error as error:
        error.add_note(f"the log of strace is {log}")
        raise
    os.remove(log)
    imported = done[0]
    notes = tuple(f"{counted(n, 'call')} {why} left out" for why, n in imported.left_out.items() if n)
    return RecordedCommand(name, path, code, imported.events, notes)


def _prepare(folder: str, *, overwrite: bool) -> dict[str, int]:
    """Makes the folder. Returns the trace files in it, with their inodes.

    Without `overwrite` ArgumentError if there are any: this trace would be summed up with them.
    """
    with os_errors("cannot make the folder of the trace", folder):
        os.makedirs(folder, exist_ok=True)
        there = {one.path: one.inode() for one in os.scandir(folder) if one.name.endswith(SUFFIXES)}
    if there and not overwrite:
        first = os.path.basename(next(iter(there)))
        what = f"{folder}: has a trace already ({first}); give another folder, or overwrite=True replaces it"
        raise ArgumentError(what, path=folder)
    return there


def _run(words: list[str], environment: dict[str, str], log: str) -> int:
    """Runs the command and returns its exit code. Passes signals on to it, except those from a terminal's keys."""
    child = os.posix_spawn(words[0], words, environment)

    def pass_on(number: int, _frame: Any) -> None:
        if number in _OF_TERMINALS and _is_in_the_foreground():
            return
        first = _first_thread(log)
        with suppress(ProcessLookupError):
            os.kill(child if first is None else first, number)

    before = {}
    for number in _PASSED_ON if threading.current_thread() is threading.main_thread() else ():
        # the command also ignores the signals that this process ignores, as background jobs do
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, pass_on)
    ended = os.pidfd_open(child)
    try:
        waiting = select.poll()
        waiting.register(ended, select.POLLIN)
        # a handler runs only when this thread is awake, and the signal may wake another thread
        while not waiting.poll(_WAKE):
            pass
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(ended)
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _is_in_the_foreground() -> bool:
    """Whether Ctrl-C in a terminal is a signal to this process, and then to the command as well."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _first_thread(log: str) -> int | None:
    """The process of the command: strace logs its start first, once it is under way."""
    try:
        with open(log, "rb") as file:
            line = file.readline(1 << 16)
    except FileNotFoundError:
        return None
    number = line.partition(b" ")[0]
    return int(number) if number.isdigit() and b" execve(" in line and b"= 0" in line else None
