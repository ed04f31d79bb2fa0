"""The command `kinema`, called in this process, for tests of its output and files.

A new process costs a second. Tests of signals, streams, `-P` and MPI need one:
`kinema.testing.programs.children.start_child`. tests/cli/test_starting.py starts each command in a new process.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO
from unittest import mock

from kinema.base import notes
from kinema.cli import main

# warnings that Python ignores by default
_SILENT = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


def call_kinema(
    *words: object, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `kinema` with these words in a folder and an environment. Returns exit code, stdout and stderr.

    It captures output through Python and through the descriptors 1 and 2. Afterwards it restores folder, environment,
    streams and warning filters.
    """
    # notes that a process shows once are shown once a call
    notes._ONCE.clear()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with (
            mock.patch.dict(os.environ, dict(os.environ if environment is None else environment), clear=True),
            contextlib.chdir(cwd or Path.cwd()),
            _stream("stdout", 1, out),
            _stream("stderr", 2, err),
            _default_warnings(),
            # what `main` does about garbage is for a process of its own
            mock.patch("kinema.cli.gc"),
        ):
            code = _exit_code([str(word) for word in words])
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(["kinema", *map(str, words)], code, *said)


def _exit_code(words: list[str]) -> int:
    try:
        main(words)
    except SystemExit as end:
        assert isinstance(end.code, int), end.code
        return end.code
    raise AssertionError("kinema.cli.main came back")


@contextlib.contextmanager
def _stream(name: str, descriptor: int, file: IO[bytes]) -> Iterator[None]:
    """Within the block, `sys.<name>` and its descriptor write to the file."""
    kept, before = os.dup(descriptor), getattr(sys, name)
    before.flush()
    os.dup2(file.fileno(), descriptor)
    stream = io.TextIOWrapper(io.FileIO(descriptor, "w", closefd=False), encoding="utf-8", write_through=True)
    setattr(sys, name, stream)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            getattr(sys, name).flush()
        setattr(sys, name, before)
        os.dup2(kept, descriptor)
        os.close(kept)


@contextlib.contextmanager
def _default_warnings() -> Iterator[None]:
    """Within the block, warnings are filtered as in a new process."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for category in _SILENT:
            warnings.simplefilter("ignore", category)
        yield
