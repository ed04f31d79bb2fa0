"""Tests that see faults, up to the first that fails: files for pytest, packages for cargo."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from mutants.modules import ROOT, Module
from mutants.processes import Ended, run
from mutants.tree import Tree

# a test that hangs
TEST_SECONDS = 60
# tests that hang in code that hears no signal: of Python, and of Rust, where no test is bounded by itself
RUN_SECONDS = 3600
CARGO_SECONDS = 120
PYTEST = [
    *(sys.executable, "-m", "pytest", "-v", "-rfE", "--tb=no", "--no-header", "--import-mode=importlib"),
    *("-o", "addopts=", "-o", f"timeout={TEST_SECONDS}"),
]


@dataclass(frozen=True)
class Failure:
    """The test that failed; its name is empty if no single test failed, for example if nothing could be imported."""

    test: str
    said: str
    hung: bool = False
    built: bool = True


class Step(Protocol):
    """Some tests."""

    def first_failure(self, tree: Tree, folder: Path, without: Collection[str]) -> Failure | None:
        """First failure. With the same `folder`, a call begins at the test that failed in the last call."""

    def fails(self, tree: Tree, test: str) -> bool:
        """Whether one test fails by itself; not if it cannot be built."""

    def is_sound(self, tree: Tree, test: str) -> bool:
        """Whether a test passes in a tree without a fault."""

    def has(self, test: str) -> bool:
        """Whether a test is one of these."""


def steps_of(module: Module) -> tuple[list[Step], list[Step]]:
    """Those for each fault alone, and for survivors together."""
    if module.language == "python":
        return [Pytest(tuple(module.alone))], [Pytest(tuple(module.together))]
    return (
        [*map(Cargo, module.alone), *_built_python(module.python_alone)],
        [*map(Cargo, module.together), *_built_python(module.python_together)],
    )


def _built_python(tests: list[str]) -> list[Step]:
    """One step for all; without tests none, as pytest would run whatever there is."""
    return [Pytest(tuple(tests), built=True)] if tests else []


@dataclass(frozen=True)
class Pytest:
    """Files and folders, in this order; `built`: with an extension of the tree's own Rust files."""

    tests: tuple[str, ...]
    built: bool = False

    def first_failure(self, tree: Tree, folder: Path, without: Collection[str]) -> Failure | None:
        words = ["--stepwise", "-o", f"cache_dir={folder / 'cache'}", *(f"--deselect={name}" for name in without)]
        with ExitStack() as stack:
            if self.built:
                extension = _built_extension(tree)
                if isinstance(extension, Failure):
                    return extension
                stack.enter_context(tree.extension(extension))
            ended = _pytest([*words, *self.tests], tree)
        if ended.code == 0:
            return None
        hung = ended.code is None or "Timeout (" in ended.output
        return Failure(_failed(ended.output), f"pytest ended with {ended.code}: {ended.last_line}", hung)

    def fails(self, tree: Tree, test: str) -> bool:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            if self.built:
                failure = Pytest((test,), built=True).first_failure(tree, Path(folder), ())
                return failure is not None and failure.built
            ended = _pytest(["-p", "no:cacheprovider", test], tree)
        return ended.code != 0 and "ERROR: not found" not in ended.output

    def is_sound(self, tree: Tree, test: str) -> bool:
        return _passes(tree, test)

    def has(self, test: str) -> bool:
        return test.split("::")[0].startswith(self.tests)


@cache
def _passes(tree: Tree, test: str) -> bool:
    return _pytest(["-p", "no:cacheprovider", test], tree).code == 0


def _pytest(words: list[str], tree: Tree) -> Ended:
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        environment = tree.environment()
        ended = run([*PYTEST, f"--basetemp={folder}/t", *words], tree.folder, environment, RUN_SECONDS)
    if ended.code == 5:
        raise SystemExit(f"no tests in {' '.join(words)}")
    return ended


def _failed(output: str) -> str:
    """The test that failed, else the file that cannot be collected, else the test that ended the process."""
    for pattern in (r"^(tests/.+?) (?:FAILED|ERROR)\b", r"^ERROR (tests/\S+\.py)"):
        if found := re.search(pattern, output, re.MULTILINE):
            return found.group(1)
    begun = re.findall(r"^(tests/\S+\.py::.*?)(?: (?:[A-Z]{5,})\b.*)?$", output, re.MULTILINE)
    return begun[-1].strip() if begun else ""


def _built_extension(tree: Tree) -> Path | Failure:
    """Built once for each state of the Rust files: a fault meets several tests."""
    made = tree.extensions / f"{tree.rust_state()}.so"
    if not made.exists():
        built = cargo(["build", "--package", "kinema-python"], tree)
        if built.code != 0:
            return Failure("", built.last_line, built=False)
        shutil.copyfile(tree.built / "debug" / "libkinema_python.so", made)
    return made


@dataclass(frozen=True)
class Cargo:
    """Tests of a package."""

    words: str

    def first_failure(self, tree: Tree, folder: Path, without: Collection[str]) -> Failure | None:
        built = self._build(tree)
        if built.code != 0:
            return Failure("", built.last_line, built=False)
        skipped = [word for name in without for word in ("--skip", name.split(": ")[-1])]
        ended = self._run(tree, ["--include-ignored", *skipped])
        if ended.code == 0:
            return None
        # what hangs is named after a minute
        named = r"^failures:\n    (\S+)$" if ended.code is not None else r"^test (\S+) has been running for over"
        found = re.search(named, ended.output, re.MULTILINE)
        test = f"{self.words}: {found.group(1)}" if found else ""
        return Failure(test, f"{self.words}: {ended.last_line}", ended.code is None)

    def fails(self, tree: Tree, test: str) -> bool:
        if self._build(tree).code != 0:
            return False
        return self._run(tree, ["--include-ignored", "--exact", test.split(": ")[-1]]).code != 0

    def is_sound(self, tree: Tree, test: str) -> bool:
        """All of a package are run without a fault, once: built for one test is built for all."""
        return _clean(self, tree) is None

    def has(self, test: str) -> bool:
        return test.startswith(f"{self.words}: ")

    def _build(self, tree: Tree) -> Ended:
        return cargo(["test", "--no-run", *self.words.split()], tree)

    def _run(self, tree: Tree, words: list[str]) -> Ended:
        environment = {**tree.environment(), "MDANALYSIS_TESTS_DATA": _test_data()}
        words = ["cargo", "test", "--quiet", *self.words.split(), "--", *words]
        return run(words, tree.folder, environment, CARGO_SECONDS)


@cache
def _clean(step: Cargo, tree: Tree) -> Failure | None:
    return step.first_failure(tree, tree.folder, ())


def cargo(words: list[str], tree: Tree) -> Ended:
    """Builds something; nothing bounds the time."""
    return run(["cargo", "--quiet", *words], tree.folder, tree.environment())


@cache
def _test_data() -> str:
    words = [sys.executable, str(ROOT / "tools" / "test_data_folder.py")]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
