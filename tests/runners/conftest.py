"""Checks that workers of this machine leave nothing, and an analysis for them."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.children import end_structure_walks


@pytest.fixture
def nothing_left(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files; after every test it is empty and no process of ours is left."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = set(psutil.Process().children(recursive=True))
    yield folder
    # a server of workers ends with its runner, which the traceback of an error may hold, or a thread that is ending
    end_structure_walks()
    until = time.monotonic() + 60
    while set(psutil.Process().children(recursive=True)) - before and time.monotonic() < until:
        gc.collect()
        time.sleep(0.01)
    assert set(psutil.Process().children(recursive=True)) <= before
    assert list(folder.iterdir()) == []


@pytest.fixture
def rmsd(tmp_path: Path) -> Analysis:
    """RMSD of 300 frames of a DCD file."""
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(300, 20))
    return kn.analysis.RMSD(kn.open(path))
