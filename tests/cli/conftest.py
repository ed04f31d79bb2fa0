"""Real files and the command `kinema` as a process, for the tests of the command line."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import kinema
from kinema.cli.in_process import call_kinema
from kinema.testing.programs.imports import lazy

datafiles = lazy("MDAnalysisTests.datafiles")

Kinema = Callable[..., subprocess.CompletedProcess[str]]


@dataclass(frozen=True)
class Files:
    """3341 atoms, 98 frames as DCD; 47,681 atoms, 10 frames as XTC; an index file for both."""

    psf: Path
    dcd: Path
    gro: Path
    xtc: Path
    ndx: Path

    def say_frames(self, number: int) -> None:
        """Writes a number of frames into the header of the DCD; one that is not that of the file is a note."""
        data = bytearray(self.dcd.read_bytes())
        data[8:12] = number.to_bytes(4, "little")
        self.dcd.write_bytes(data)


@pytest.fixture(scope="session")
def c_alpha() -> list[int]:
    """Numbers of the 214 C-alphas in the PSF, from 1."""
    import MDAnalysis

    universe = MDAnalysis.Universe(datafiles.PSF)
    return [int(i) + 1 for i in universe.select_atoms("protein and name CA").indices]


@pytest.fixture
def files(tmp_path: Path, c_alpha: list[int]) -> Files:
    """Copies of the real files, so that indices are stored beside these."""
    found = {}
    for name, source in (
        ("psf", datafiles.PSF),
        ("dcd", datafiles.DCD),
        ("gro", datafiles.GRO),
        ("xtc", datafiles.XTC),
    ):
        found[name] = Path(shutil.copy(source, tmp_path / f"adk.{name}"))
    ndx = tmp_path / "adk.ndx"
    ndx.write_text(f"[ C-alpha ]\n{' '.join(map(str, c_alpha))}\n[ first ]\n1 2 3 4 5\n")
    copies = Files(ndx=ndx, **found)
    copies.say_frames(98)  # the original says 500
    return copies


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment in which `kinema` finds the package under test."""
    package = str(Path(kinema.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}


@pytest.fixture
def run_kinema(environment: dict[str, str]) -> Kinema:
    """Calls `kinema` with the words in this process and gives exit code, stdout and stderr."""
    return functools.partial(call_kinema, environment=environment)
