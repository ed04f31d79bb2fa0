"""Ranks of MPI that stay: one `mpiexec` runs the programs of many tests, because a start costs a second for each rank.

They are for tests of values. A test that ends or kills ranks, needs variables at their start, or changes modules starts
ranks of its own.

`StandingRanks` is the side of the tests. This module as a program is the side of a rank: it waits for a line in a FIFO,
which takes no CPU time, runs the program that the line names, and answers by a line in another FIFO.
"""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kinema.base import notes

# members of a class besides functions
_METHODS = (classmethod, staticmethod, property)
# until all ranks have answered; and, after one has failed, until the others have, as they may wait for it in vain
_SECONDS, _AFTER_A_FAILURE = 180.0, 10.0


class StandingRanks:
    """Ranks in an `mpiexec` of their own, started when they are first needed, and again if they are lost.

    `environment`: environment in which ranks start.
    """

    def __init__(self, n_ranks: int, launcher: str, environment: Mapping[str, str]) -> None:
        self._n_ranks, self._launcher, self._environment = n_ranks, launcher, environment
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: list[int] = []
        self._answers: list[int] = []

    def run(self, text: str, folder: Path, environment: Mapping[str, str]) -> str:
        """Runs a program on all ranks in a folder and returns what they print.

        Raises AssertionError with the tracebacks of ranks that fail.
        """
        if self._process is None:
            self._begin()
        out = folder / "standing-ranks.out"
        out.write_bytes(b"")
        line = json.dumps({"text": text, "folder": str(folder), "out": str(out), "environment": dict(environment)})
        for request in self._requests:
            os.write(request, f"{line}\n".encode())
        failures = self._wait()
        said = out.read_text()
        if failures:
            # the next program gets fresh ranks
            self.close()
        assert not failures, said + "".join(failures)
        return said

    def close(self) -> None:
        """Ends the ranks."""
        for one in (*self._requests, *self._answers):
            os.close(one)
        self._requests, self._answers = [], []
        if self._process is not None:
            try:
                # a rank whose FIFO is closed ends
                self._process.wait(_AFTER_A_FAILURE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder)
        self._folder = None

    def _begin(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ranks-"))
        for rank in range(self._n_ranks):
            for name, opened in (("request", self._requests), ("answer", self._answers)):
                path = self._folder / f"{name}-{rank}"
                os.mkfifo(path)
                # for both directions, so that neither this nor the first answer waits for the other side
                opened.append(os.open(path, os.O_RDWR))
        program = f"from kinema.testing.programs.standing_ranks import serve; serve({str(self._folder)!r})"
        words = [self._launcher, "-n", str(self._n_ranks), sys.executable, "-c", program]
        with open(self._folder / "said", "wb") as said:
            self._process = subprocess.Popen(
                words, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )

    def _wait(self) -> list[str]:
        """The tracebacks of ranks that failed; the ranks are ended if some do not answer."""
        assert self._process is not None and self._folder is not None
        until, waiting, failures = time.monotonic() + _SECONDS, list(self._answers), []
        # not select(), which takes no descriptor above 1023
        poll = select.poll()
        for one in waiting:
            poll.register(one, select.POLLIN)
        while waiting:
            for one, _ in poll.poll(200):
                poll.unregister(one)
                waiting.remove(one)
                with open(one, closefd=False, encoding="utf-8") as lines:
                    failure = json.loads(lines.readline())
                if failure:
                    failures.append(failure)
                    until = min(until, time.monotonic() + _AFTER_A_FAILURE)
            if waiting and (time.monotonic() > until or self._process.poll() is not None):
                silent = [self._answers.index(one) for one in waiting]
                self._process.kill()
                said = (self._folder / "said").read_text(errors="replace")
                failures.append(f"ranks {silent} of {self._n_ranks} did not answer: {said}")
                self.close()
                break
        return failures


def serve(folder: str) -> None:
    """Runs programs on this rank until the FIFO of requests is closed."""
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    with (
        open(Path(folder, f"request-{rank}"), encoding="utf-8") as requests,
        open(Path(folder, f"answer-{rank}"), "w", encoding="utf-8", buffering=1) as answers,
    ):
        for line in requests:
            answers.write(json.dumps(_failure(json.loads(line))) + "\n")


def _failure(request: dict[str, Any]) -> str:
    """Runs the program of a request; returns the traceback if it fails, else "". Everything is restored afterwards."""
    before = os.getcwd(), dict(os.environ), list(sys.path), set(sys.modules), os.dup(1)
    defined = _definitions()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    out = os.open(request["out"], os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    os.close(out)
    notes._ONCE.clear()
    try:
        with warnings.catch_warnings():
            exec(compile(request["text"], "program", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        return "" if not end.code else f"the program ended with {end.code}\n"
    except BaseException:
        return traceback.format_exc()
    finally:
        sys.stdout.flush()
        folder, environment, path, modules, stdout = before
        os.dup2(stdout, 1)
        os.close(stdout)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(request["folder"]):
                del sys.modules[name]
        # objects of the program are gone, its imports stay: the next collection need not look at these
        gc.collect()
        gc.freeze()
    now = _definitions()
    changed = {name for name, value in defined.items() if now.get(name) is not value}
    # also in modules that the program itself has imported
    changed |= {name for name, value in now.items() if getattr(value, "__module__", None) == "__main__"}
    if changed:
        # the next program would run with the change
        return f"the program changes {', '.join(sorted(changed))}: it needs ranks of its own\n"
    return ""


def _definitions() -> dict[str, Any]:
    """All functions and classes of the package, methods included, by their names."""
    found: dict[str, Any] = {}
    for module in [one for name, one in sys.modules.items() if name.split(".")[0] == "kinema"]:
        for name, value in list(vars(module).items()):
            if callable(value):
                found[f"{module.__name__}.{name}"] = value
            if isinstance(value, type) and value.__module__ == module.__name__:
                members = [(key, one) for key, one in vars(value).items() if callable(one) or isinstance(one, _METHODS)]
                found.update((f"{module.__name__}.{name}.{key}", member) for key, member in members)
    return found
