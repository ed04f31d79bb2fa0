"""Runs the tests of a module in a copy of the tree, up to the first that fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mutants.modules import ROOT, Module
from mutants.tree import Tree

CAUGHT, BY_TIME, SURVIVED = "caught", "caught by time", "survived"
DOES_NOT_APPLY, DOES_NOT_BUILD = "does not apply", "does not build"

# a test that hangs; an endless loop in code that hears no signal is ended by the limit of the whole run
TEST_SECONDS = 60
PYTEST = [
    *(sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "--no-header", "--import-mode=importlib"),
    *("-p", "no:cacheprovider", "-p", "no:rerunfailures", "-o", "addopts=", "-o", f"timeout={TEST_SECONDS}"),
]
# of what a child finds in its environment: whoever has it belongs to one run of tests
MARK = "KINEMA_MUTANTS_RUN"


@dataclass(frozen=True)
class Outcome:
    """What became of a fault, and which test saw it."""

    outcome: str
    by: str = ""


@dataclass(frozen=True)
class _Ended:
    code: int | None
    output: str

    @property
    def hung(self) -> bool:
        return self.code is None


def run_tests(module: Module, tree: Tree, limit: float, first: str = "") -> Outcome:
    """The tests of a module; `first` is the one that saw the fault the last time."""
    if module.language == "python":
        return _pytest(module.tests, tree, limit, first)
    return _cargo(module, tree, limit, first)


# -- Python ------------------------------------------------------------------------------------------------------------


def _pytest(tests: Sequence[str], tree: Tree, limit: float, first: str) -> Outcome:
    """A test of processes must fail twice: one that fails by chance has seen nothing, and the others run without it."""
    if first.startswith("tests/") and _one_test(first, tree, limit).code == 1:
        return Outcome(CAUGHT, first)
    passed_over: list[str] = []
    while True:
        ended = _pytest_ended([*tests, *(f"--deselect={name}" for name in passed_over)], tree, limit)
        if ended.hung:
            return Outcome(BY_TIME, "the limit of the whole run")
        if ended.code == 0:
            return Outcome(SURVIVED)
        failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+?\.py(?:::.+?)?)(?: - (.*))?$", ended.output, re.MULTILINE)
        if failed is None:
            return Outcome(CAUGHT, f"pytest ended with {ended.code}: {_last_line(ended.output)}")
        name, why = failed.group(1), failed.group(2) or ""
        if "::" not in name or not _may_fail_by_chance(tree, name) or _one_test(name, tree, limit).code != 0:
            return Outcome(BY_TIME if "Timeout" in why else CAUGHT, name)
        passed_over.append(name)


def _may_fail_by_chance(tree: Tree, name: str) -> bool:
    """Whether a test is of a file with tests of processes, which may fail when the machine is busy."""
    return "processes" in (tree.folder / name.split("::")[0]).read_text(encoding="utf-8")


def _one_test(name: str, tree: Tree, limit: float) -> _Ended:
    return _pytest_ended([name], tree, limit)


def _pytest_ended(words: Sequence[str], tree: Tree, limit: float) -> _Ended:
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        ended = _run([*PYTEST, f"--basetemp={folder}/t", *words], tree, limit)
    if ended.code == 5:
        raise SystemExit(f"no tests in {' '.join(words)}")
    return ended


# -- Rust --------------------------------------------------------------------------------------------------------------


def _cargo(module: Module, tree: Tree, limit: float, first: str) -> Outcome:
    """Tests of crates; then, if nothing has seen the fault, those of Python with an extension that has it."""
    known = first.rsplit(": ", 1)
    if len(known) == 2 and known[0] in module.cargo:
        ended = _run(["cargo", "test", "--quiet", *known[0].split(), "--", "--exact", known[1]], tree, limit)
        if ended.code not in (0, None) and "test result: FAILED" in ended.output:
            return Outcome(CAUGHT, first)
    for words in module.cargo:
        built = _run(["cargo", "test", "--quiet", "--no-run", *words.split()], tree, limit)
        if built.code != 0:
            return Outcome(DOES_NOT_BUILD, _last_line(built.output))
        ended = _run(["cargo", "test", "--quiet", *words.split(), "--", "--include-ignored"], tree, limit)
        if ended.hung:
            return Outcome(BY_TIME, words)
        if ended.code != 0:
            failed = re.search(r"^failures:\n    (\S+)$", ended.output, re.MULTILINE)
            return Outcome(CAUGHT, f"{words}: {failed.group(1) if failed else _last_line(ended.output)}")
    if not module.tests:
        return Outcome(SURVIVED)
    built = _run(["cargo", "build", "--quiet", "--package", "kinema-python"], tree, None)
    if built.code != 0:
        return Outcome(DOES_NOT_BUILD, _last_line(built.output))
    with tree.extension(tree.built / "debug" / "lib_core.so"):
        return _pytest(module.tests, tree, limit, first)


@cache
def _test_data() -> str:
    words = [sys.executable, str(ROOT / "tools" / "test_data_folder.py")]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


# -- processes ---------------------------------------------------------------------------------------------------------


def _run(words: Sequence[str], tree: Tree, limit: float | None) -> _Ended:
    """Runs a command in the copy; after the limit it is ended, with all that it has started."""
    mark = uuid.uuid4().hex
    environment = {**tree.environment(), MARK: mark, "MDANALYSIS_TESTS_DATA": _test_data()}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        started = subprocess.Popen(
            words, cwd=tree.folder, env=environment, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = started.wait(limit)
        # a child that outlives its test is not to take time from the next one
        while left := list(_processes(mark)):
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            started.poll()
            time.sleep(0.05)
        output.seek(0)
        return _Ended(code, output.read())


def _processes(mark: str) -> Iterator[int]:
    """Processes of one run that are alive."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # of one that has ended it is empty
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                yield int(folder.name)


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or [""])[-1][:200]
