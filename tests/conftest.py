"""Fixtures that several test folders share: small synthetic systems, and the real adenylate kinase."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd


class System(NamedTuple):
    """Files of one system."""

    topology: str
    trajectory: str


@pytest.fixture(scope="session")
def adk_dcd() -> System:
    """Adenylate kinase, PSF and DCD: 3341 atoms, 98 frames."""
    from MDAnalysisTests import datafiles

    return System(str(datafiles.PSF), str(datafiles.DCD))


@pytest.fixture(scope="session")
def adk_xtc() -> System:
    """Adenylate kinase in water, GRO and XTC: 47681 atoms, 10 frames."""
    from MDAnalysisTests import datafiles

    return System(str(datafiles.GRO), str(datafiles.XTC))


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of golden data."""
    return Path(__file__).parent / "data" / "golden"


@pytest.fixture
def small(tmp_path: Path) -> kn.Trajectory:
    """20 frames of 15 atoms without a topology."""
    path = tmp_path / "small.dcd"
    write_dcd(path, random_walk(20, 15))
    return kn.open(path, index="memory")
