"""A copy of the tree that faults are planted in. Builds and runs there do not touch the project's own tree."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mutants.modules import ROOT

EXTENSION = "python/kinema/_core.abi3.so"


class DoesNotApply(Exception):
    """A patch for lines that have become others."""


class Tree:
    """The files that git knows of, as they are now, with the extension that was built for them.

    The first copy that no other program uses. It is kept: cargo builds what has changed since.
    """

    def __init__(self) -> None:
        self.folder, self._lock = _first_free(ROOT / "target" / "mutants")
        self.built = self.folder.with_name(f"{self.folder.name}-build")
        self.extensions = self.folder.with_name(f"{self.folder.name}-extensions")
        shutil.rmtree(self.extensions, ignore_errors=True)
        self.extensions.mkdir()
        wanted = {Path(name) for name in _listed() if (ROOT / name).is_file()}
        if (ROOT / EXTENSION).exists():
            wanted.add(Path(EXTENSION))
        for path in wanted:
            self._bring(path)
        # what has been removed or renamed since the copy was made
        for path in self.folder.rglob("*.py"):
            if path.relative_to(self.folder) not in wanted:
                path.unlink()

    def _bring(self, path: Path) -> None:
        """Copies a file unless its copy is the same: cargo builds what has another time."""
        here, there = ROOT / path, self.folder / path
        there.parent.mkdir(parents=True, exist_ok=True)
        if not there.exists() or there.read_bytes() != here.read_bytes():
            shutil.copyfile(here, there)
            shutil.copymode(here, there)
            _forget_compiled(there)

    def rust_state(self) -> str:
        """A digest of the Rust files with the faults that are planted."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.glob("crates/**/*.rs")):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def environment(self) -> dict[str, str]:
        """In which Python imports this tree and cargo builds into a folder of its own, in parts."""
        return {
            **os.environ,
            "PYTHONPATH": str(self.folder / "python"),
            "CARGO_TARGET_DIR": str(self.built),
            "CARGO_INCREMENTAL": "1",
            "CARGO_PROFILE_TEST_OPT_LEVEL": "1",
            "CARGO_PROFILE_TEST_DEBUG": "0",
            "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "RUST_BACKTRACE": "0",
        }

    @contextmanager
    def planted(self, diff: str) -> Iterator[Path]:
        """With the fault, as long as the block takes; DoesNotApply. Gives the file."""
        path = self.folder / changed_file(diff)
        before = path.read_bytes()
        try:
            self._apply(diff)
            if path.read_bytes() == before:
                raise DoesNotApply("nothing was changed")
            _forget_compiled(path)
            yield path
        finally:
            path.write_bytes(before)
            _forget_compiled(path)

    @contextmanager
    def extension(self, built: Path) -> Iterator[None]:
        """With another extension, as long as the block takes."""
        there = self.folder / EXTENSION
        try:
            there.unlink(missing_ok=True)
            shutil.copyfile(built, there)
            yield
        finally:
            there.unlink()
            self._bring(Path(EXTENSION))

    def _apply(self, diff: str) -> None:
        """By git; lines around it that have changed are let pass by `patch`."""
        # this folder lies in a repository, whose git is not to look at it
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.folder.parent)}
        tries = (["git", "apply", "-"], ["patch", "-p1", "-F3", "-s", "-f", "--no-backup-if-mismatch", "-r", "-"])
        for words in tries:
            done = subprocess.run(
                words, cwd=self.folder, input=diff, capture_output=True, text=True, env=environment, check=False
            )
            if done.returncode == 0:
                return
        raise DoesNotApply((done.stderr or done.stdout).strip().splitlines()[-1])


def _first_free(folder: Path) -> tuple[Path, IO[str]]:
    """The folder of a copy, and its lock file, which is to stay open."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        lock = (folder / f"tree-{number}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return folder / f"tree-{number}", lock
        except BlockingIOError:
            lock.close()
            number += 1


def changed_file(diff: str) -> str:
    """The file that a patch changes."""
    return next(line[len("+++ b/") :] for line in diff.splitlines() if line.startswith("+++ b/"))


def _listed() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return listed.stdout.split("\0")[:-1]


def _forget_compiled(path: Path) -> None:
    """Removes compiled files: Python compares only size and seconds of a source, which a fault can leave the same."""
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()
