"""The worker processes of the `processes` runner as their parent sees them: started, told, waited for, ended.

It knows neither leaves nor functions: what a round hands out is the runner's business, what a process does is in
`worker`.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from types import TracebackType
from typing import Self

from kinema.errors import Error, InternalError, WorkerError, from_os
from kinema.runners.gathering import Leaves, in_words
from kinema.runners.interpreter import start_interpreter
from kinema.runners.tally import Tally
from kinema.runners.worker import Account, Begin, Message, Ready

__all__ = ["Member", "Shift", "Team"]

# seconds until a killed process is given up: it may hang in a call to a file server that does not answer
_PATIENCE = 10.0

# numbers of pieces that a worker holds, the last one not included, in words
Naming = Callable[[Leaves], str]


class Member:
    """One worker process, and what it has been given in this round."""

    def __init__(self, folder: str, number: int, threads: int) -> None:
        self.connection, other_end = Pipe()
        with other_end:
            descriptor = other_end.fileno()
            call = f"from kinema.runners.worker import main; main({descriptor}, {folder!r}, {os.getpid()})"
            self.process = start_interpreter(call, descriptor, "a worker process")
        self._work: Naming = in_words
        self._folder = ""
        self.prepare(number, threads)

    def prepare(self, number: int, threads: int) -> None:
        """Makes it the worker of this number in the next round, with nothing to its account."""
        self.number = number
        self.tally = Tally(number, threads)
        self.pieces: deque[Leaves] = deque()  # handed out and not done
        self.running = 0  # frames done of the first of them
        self.frames = 0  # of the pieces that are done

    def begin(self, folder: str, work: Naming) -> None:
        """Has it take what it needs out of a folder; `work` names what it is given then, in errors."""
        self._work = work
        self._folder = folder
        self._send(Begin(folder))

    def takes_part(self, ready: Ready) -> bool:
        """Whether it is ready for this round, and not for one that was over before it was."""
        if ready.folder != self._folder:
            return False
        self.tally.start = self.tally.done_at = ready.start
        self.tally.waited = 0.0
        return True

    def account(self, told: Account) -> None:
        """Where its time went besides the piece that it has done."""
        self.tally.communicate += told.packing
        self.tally.waited = (self.tally.waited or 0.0) + told.between
        self.tally.done_at = told.done_at

    def order(self, piece: Leaves) -> None:
        """Hands out a piece; WorkerError where the process is dead."""
        self.pieces.append(piece)
        self._send(piece)

    def receive(self) -> Message:
        """The next message; WorkerError where the process is dead."""
        try:
            began = time.monotonic()
            packed = self.connection.recv_bytes()
        except (EOFError, OSError):
            raise self.died() from None
        # to send it took as long as to receive it; before that it waited for this process
        took = time.monotonic() - began
        self.tally.communicate += took
        if self.tally.waited is not None:
            self.tally.waited -= took
        message: Message = pickle.loads(packed)
        return message

    def kill(self) -> None:
        """Ends the process, whatever it does; does not wait."""
        self.connection.close()
        self.process.kill()

    def _send(self, order: Begin | Leaves) -> None:
        try:
            self.connection.send(order)
        except OSError:
            raise self.died() from None

    def died(self) -> Error:
        """What is to be raised when the other end of the connection is closed."""
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return InternalError(f"{self} has closed its connection and does not end")
        if self.tally.start is None:
            doing = "before it was ready"
        elif self.pieces:
            doing = f"while it had {self._work((self.pieces[0][0], self.pieces[-1][1]))}"
        else:
            doing = "while it waited for work"
        if code >= 0:
            return WorkerError(f"{self} ended {doing}, exit code {code}; what it wrote to stderr says why")
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = "; systems kill when memory runs out: use fewer workers" if name == "SIGKILL" else ""
        return WorkerError(f"{self} was ended by {name} {doing}{hint}")

    def __str__(self) -> str:
        return f"worker {self.number} (process {self.process.pid})"


@dataclass(frozen=True, eq=False)
class Shift:
    """The processes of one round, and the folder that the parent fills with what they need to know."""

    members: list[Member]
    folder: str
    work: Naming

    def begin(self) -> None:
        """Has them take it out of the folder; WorkerError where one has ended already."""
        for member in self.members:
            member.begin(self.folder, self.work)


class Team:
    """The processes of a round, or of all rounds of a session; leaving the context ends them, whatever they do.

    Parameters
    ----------
    threads : int
        Threads that a process is counted with.
    """

    def __init__(self, threads: int = 1) -> None:
        self._members: list[Member] = []
        self._threads = threads
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="kinema-")
        except OSError as error:
            raise _no_folder(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(self._members)
        if self._folder is not None:
            self._folder.cleanup()

    @contextmanager
    def round(self, n_workers: int, work: Naming = in_words) -> Iterator[Shift]:
        """`n_workers` processes for a round, those of the round before first; `work` as in `Member.begin`.

        They start while the caller prepares what they need. An exception ends all, as they may be at work.
        """
        if self._folder is None:
            raise InternalError("a team has rounds within its context only")
        try:
            self._end([member for member in self._members if member.process.poll() is not None])
            for number, member in enumerate(self._members[:n_workers]):
                member.prepare(number, self._threads)
            while len(self._members) < n_workers:
                self._members.append(Member(self._folder.name, len(self._members), self._threads))
            try:
                folder = tempfile.mkdtemp(dir=self._folder.name)
            except OSError as error:
                raise _no_folder(error) from None
            shift = Shift(self._members[:n_workers], folder, work)
            yield shift
            # a worker that is late may still look for it; what is left goes with the team's folder
            if all(member.tally.start is not None for member in shift.members):
                shutil.rmtree(folder, ignore_errors=True)
        except BaseException:
            self._end(self._members)
            raise

    def _end(self, members: list[Member]) -> None:
        # they only read, and the folder is ours: there is nothing that they would have to tidy up
        self._members = [member for member in self._members if member not in members]
        for member in members:
            member.kill()
        until = time.monotonic() + _PATIENCE
        for member in members:
            try:
                member.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                warnings.warn(f"{member} was killed and has not ended yet", RuntimeWarning, stacklevel=2)


def _no_folder(error: OSError) -> Error:
    return from_os("cannot make a temporary folder for worker processes", error)
