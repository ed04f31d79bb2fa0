"""`Forks`: a process that has imported what some programs need, and forks each of them: they start without imports."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CALL = "import sys; from kinema.testing.programs.forks import serve; serve(sys.argv[1:])"


class ForkedProgram:
    """A program that `Forks` has started, with those methods of `subprocess.Popen` that need no exit code."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # None: it has ended already
        self._descriptor: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._descriptor = os.pidfd_open(pid)

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def send_signal(self, number: int) -> None:
        """Sends a signal; does nothing if the program has ended."""
        if self._descriptor is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the end; raises subprocess.TimeoutExpired."""
        if self._descriptor is not None and not select.select([self._descriptor], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)


class Forks:
    """Starts programs by forks of a process that has imported their modules. Closing it ends them.

    `modules`: modules with a function `main` of `click`. Importing them starts no thread.
    `environment`: the process imports with it: libraries that read variables at import read these, for all programs.
    """

    def __init__(self, modules: Sequence[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CALL, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def start(
        self, module: str, words: Sequence[str], *, folder: Path, log: Path, environment: dict[str, str]
    ) -> ForkedProgram:
        """Calls `main` of a module in a new process; stdout and stderr go to `log`."""
        request = {
            "module": module,
            "words": list(words),
            "folder": str(folder),
            "log": str(log),
            "environment": environment,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return ForkedProgram(int(self._process.stdout.readline()))

    def close(self) -> None:
        """Ends the process and its programs."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def serve(modules: Sequence[str]) -> None:
    """Main function of the process: a request a line, answered by the number of the process."""
    for name in modules:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a fork would lack the threads of these modules"
    # the system reaps programs that have ended
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    programs: list[int] = []
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            _run(json.loads(line))
        programs.append(pid)
        print(pid, flush=True)
    for pid in programs:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _run(request: dict[str, Any]) -> None:
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        sys.path.insert(0, request["folder"])
        importlib.import_module(request["module"]).main(args=request["words"], prog_name=request["module"])
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
