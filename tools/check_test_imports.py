"""Checks that test modules import no heavy package when they are collected: each process of a run collects all of them.

It collects the tests in one process and names the line of a test module or `conftest.py` that brings a heavy package
in, directly or through a module of Kinema's. A test imports such a package in its function or fixture, or its module
says `lazy` (kinema.testing.programs.imports).
"""

import builtins
import contextlib
import importlib
import io
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

# what takes more than a tenth of a second to import
HEAVY = frozenset(
    (
        "ase", "chemfiles", "dask", "deeptime", "distributed", "dpdata", "lightning", "matplotlib", "MDAnalysis",
        "MDAnalysisTests", "mdtraj", "netCDF4", "nequip", "pandas", "pyarrow", "pyh5md", "scipy", "sklearn", "torch",
        "torchdata", "zarr", "zarrtraj",
    )
)  # fmt: skip

# Modules whose tests all need a package: it is part of what they define, or of all of their fixtures.
MODULES: dict[str, tuple[str, ...]] = {
    "tests/runners/test_dask.py": ("dask", "distributed"),
    "tests/runners/test_dask_clusters.py": ("dask", "distributed"),
    "tests/runners/test_dask_losses.py": ("distributed",),
    "tests/runners/test_dask_security.py": ("distributed",),
    "tests/runners/test_dask_stops.py": ("dask", "distributed"),
    # studies that could not draw say so before they measure
    "tests/studies/sample_loading/test_sample_loading.py": ("matplotlib",),
    "tests/studies/write_strategies/test_bench_write.py": ("matplotlib",),
}


class Watch:
    """Within its block it notes which line below a folder imports which heavy package."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}/"
        self._import, self._import_module = builtins.__import__, importlib.import_module
        self.found: dict[tuple[str, int], set[str]] = {}

    def __enter__(self) -> "Watch":
        builtins.__import__, importlib.import_module = self._import_statement, self._import_named
        return self

    def __exit__(self, *_: object) -> None:
        builtins.__import__, importlib.import_module = self._import, self._import_module

    def _import_statement(self, name: str, *given: Any, **named: Any) -> Any:
        """`builtins.__import__`; what is not installed is not noted."""
        made = self._import(name, *given, **named)
        self._note(name, sys._getframe(1))
        return made

    def _import_named(self, name: str, package: str | None = None) -> Any:
        made = self._import_module(name, package)
        self._note(name, sys._getframe(1))
        return made

    def _note(self, name: str, importing: FrameType) -> None:
        package = name.partition(".")[0]
        # what a heavy package imports itself comes with it
        if package in HEAVY and str(importing.f_globals.get("__name__")).partition(".")[0] not in HEAVY:
            place = self._place(importing)
            if place is not None:
                self.found.setdefault(place, set()).add(package)

    def _place(self, frame: FrameType | None) -> tuple[str, int] | None:
        """File and line of the code of the folder that runs."""
        while frame is not None and not frame.f_code.co_filename.startswith(self._folder):
            frame = frame.f_back
        return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _lines(found: Mapping[tuple[str, int], set[str]], root: Path) -> Iterator[str]:
    for (file, line), packages in sorted(found.items()):
        name = str(Path(file).relative_to(root))
        wrong = packages - set(MODULES.get(name, ()))
        if wrong:
            yield f"{name}:{line}: imports {', '.join(sorted(wrong))} when tests are collected; import it in the test"


def check(root: Path) -> list[str]:
    """Heavy imports of the tests of the project in `root`, one line each. It imports all test modules: call it once."""
    said = io.StringIO()
    words = ["--collect-only", "-q", "--assert=plain", "-p", "no:cacheprovider", "--rootdir", str(root)]
    with Watch(root / "tests") as watch, contextlib.redirect_stdout(said):
        code = pytest.main([*words, str(root / "tests")])
    if code != pytest.ExitCode.OK:
        return [f"the tests cannot be collected:\n{said.getvalue()[-3000:]}"]
    return list(_lines(watch.found, root))


if __name__ == "__main__":
    wrong = check(Path(__file__).resolve().parent.parent)
    print("\n".join(wrong) or "test modules: no heavy imports")
    sys.exit(1 if wrong else 0)
