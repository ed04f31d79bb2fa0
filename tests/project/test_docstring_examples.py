"""The examples of docstrings run, and print what they show.

They know `kn`, `kinema`, `np` and `traj`, which is `md.xtc` with its topology, and the files of `documents.make_files`.
"""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
import kinema.ml

from .documents import ROOT, make_files

PACKAGE = ROOT / "python" / "kinema"


def _examples() -> dict[str, doctest.DocTest]:
    """The examples of all modules that have some, by name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            module = importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
            tests = doctest.DocTestFinder(exclude_empty=True).find(module)
            # an inherited docstring is found once
            found |= {test.name: test for test in tests if test.examples and module.__name__ in test.name}
            written = path.read_text(encoding="utf-8").count(">>> ")
            assert sum(len(test.examples) for test in tests) == written, f"{path}: not all examples are found"
    return found


def _names_of_backend() -> dict[str, Any]:
    """Names for the examples of `kinema.interop.mdanalysis.Backend`, which computes in this process here."""
    import MDAnalysis
    from MDAnalysis.analysis.rms import RMSD

    from kinema.interop.mdanalysis import Backend

    universe = MDAnalysis.Universe("top.psf", "md.xtc")
    groups = [universe.select_atoms("name CA")]
    return {
        "MDAnalysis": MDAnalysis, "RMSD": RMSD, "universe": universe, "groups": groups,
        "Backend": lambda runner: Backend("serial", progress=False),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_examples_of_docstrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    examples = _examples()
    assert len(examples) >= 30
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for name, test in examples.items():
        test.globs = {"kn": kn, "kinema": kinema, "np": np, "traj": kn.open("md.xtc", topology="top.psf")}
        if "interop.mdanalysis" in name:
            test.globs |= _names_of_backend()
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
