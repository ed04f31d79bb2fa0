"""Stores the bytecode of test modules, with the assertions that pytest rewrites: `make bytecode` runs it.

Rewriting takes ten seconds, and each process of a run collects all tests: on a new tree each would rewrite all of them.
As many processes as there are cores collect a share of the modules each, and pytest stores what it has rewritten.
"""

from __future__ import annotations

import importlib.util
import os
import struct
import subprocess
import sys
from pathlib import Path

# most of what a collection makes stays: to look for garbage in it takes a third of the time
COLLECT = "import gc, sys, pytest; gc.disable(); sys.exit(pytest.main(['--collect-only', '-q', *sys.argv[1:]]))"


def missing(tests: Path) -> list[Path]:
    """Modules that pytest rewrites and whose bytecode is not stored as they are now."""
    return [path for path in sorted([*tests.rglob("test_*.py"), *tests.rglob("conftest.py")]) if not _is_stored(path)]


def _is_stored(path: Path) -> bool:
    """Whether a file of bytecode has the module's hash in its head; pytest 8 has time and size there."""
    status = path.stat()
    by_time = struct.pack("<LL", int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
    heads = {importlib.util.source_hash(path.read_bytes()), by_time}
    stored = (path.parent / "__pycache__").glob(f"{path.stem}.*-pytest-*.pyc")
    return any(one.read_bytes()[8:16] in heads for one in stored)


def shares(paths: list[Path], n: int) -> list[list[Path]]:
    """The modules in n shares of about as many bytes."""
    found: list[list[Path]] = [[] for _ in range(n)]
    sizes = [0] * n
    for path in sorted(paths, key=lambda path: path.stat().st_size, reverse=True):
        least = sizes.index(min(sizes))
        found[least].append(path)
        sizes[least] += path.stat().st_size
    return [share for share in found if share]


def store(root: Path) -> int:
    """Stores what is missing in the project in `root`; of how many modules.

    Modules that cannot be collected are left to the run that follows, which says why.
    """
    paths = missing(root / "tests")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = [sys.executable, "-c", COLLECT, "-p", "no:cacheprovider", "--rootdir", str(root)]
    started = [
        subprocess.Popen([*words, *map(str, share)], cwd=root, env=environment, stdout=subprocess.DEVNULL)
        for share in shares(paths, os.cpu_count() or 1)
    ]
    for one in started:
        one.wait()
    return len(paths)


if __name__ == "__main__":
    print(f"bytecode of {store(Path(__file__).resolve().parent.parent)} test modules is new")
