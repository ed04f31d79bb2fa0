"""`kn.open` of a Universe gives the frames, times and atoms of the Universe, or an error that names what it cannot."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_xtc
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")
interop = lazy("kinema.interop.mdanalysis")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
]


def same_frames_or_refused(universe: Any, name: str) -> None:
    """Times and positions are those of the Universe, or the error names the argument."""
    try:
        trajectory = kn.open(universe, stored=False)
    except kn.ArgumentError as error:
        assert name in str(error)
        return
    stamps = [(ts.time, ts.positions.copy()) for ts in universe.trajectory]
    assert trajectory.n_frames == len(stamps)
    np.testing.assert_allclose(trajectory.times, [time for time, _ in stamps], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(trajectory.read(), [positions for _, positions in stamps], rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("reader", [None, "KinemaReader"])
@pytest.mark.parametrize(
    ("name", "value"), [("dt", 3.0), ("time_offset", 7.0), ("convert_units", False), ("sub", np.arange(12))]
)
def test_arguments_of_a_universe(name: str, value: Any, reader: str | None, tmp_path: Path) -> None:
    write_xtc(tmp_path / "a.xtc", random_walk(6, 12), dt=2.0)
    universe = MDAnalysis.Universe.empty(12, trajectory=True)
    universe.load_new(str(tmp_path / "a.xtc"), format=reader and interop.KinemaReader, **{name: value})
    same_frames_or_refused(universe, name)


def test_a_time_offset_that_is_set_later(tmp_path: Path) -> None:
    universe = MDAnalysis.Universe(datafiles.PSF, shutil.copy(datafiles.DCD, tmp_path))
    universe.trajectory.ts.data["time_offset"] = 5.0
    same_frames_or_refused(universe, "time_offset")


def test_a_stated_format(tmp_path: Path) -> None:
    path = shutil.copy(datafiles.DCD, tmp_path / "md.lammps")
    assert kn.open(MDAnalysis.Universe(datafiles.PSF, path, format="DCD"), stored=False).format == "DCD"
    other = MDAnalysis.Universe(datafiles.PSF, path, format="DCD")
    # of a format that Kinema has, never through MDAnalysis' reader of another
    other.trajectory.format = "GSD"
    with pytest.raises(kn.ArgumentError, match="this is DCD, which Kinema reads itself"):
        kn.open(other)
    other.trajectory.format = "CHEMFILES"
    with pytest.raises(kn.ArgumentError, match="format='CHEMFILES', which Kinema does not know"):
        kn.open(other)
    with pytest.raises(kn.ArgumentError, match="nonsense"):
        kn.open(MDAnalysis.Universe(datafiles.PSF, path, format="DCD"), format="nonsense")


@pytest.mark.parametrize("units", [{}, {"timeunit": "ps"}, {"timeunit": "ns", "lengthunit": "nm"}])
def test_dcd_files_of_lammps(units: dict[str, str]) -> None:
    universe = MDAnalysis.Universe(datafiles.LAMMPSdata2, datafiles.LAMMPSdcd2, format="LAMMPS", **units)
    trajectory = kn.open(universe, stored=False)
    assert trajectory.format == "DCD"
    np.testing.assert_allclose(trajectory.times, [ts.time for ts in universe.trajectory])
    for number, ts in enumerate(universe.trajectory):
        np.testing.assert_allclose(trajectory[number].positions, ts.positions, rtol=1e-6)
    # units are stated, and so nothing is assumed
    assert trajectory.notes == ()
    assert kn.open(universe, units={"time": "fs"}, stored=False).dt == 0.5


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("reader", [None, "KINEMA"])
def test_files_that_overlap(continuous: bool, reader: str | None, tmp_path: Path) -> None:
    positions = random_walk(12, 6)
    write_xtc(tmp_path / "a.xtc", positions[:8])
    write_xtc(tmp_path / "b.xtc", positions[5:], first_step=5)
    paths = [str(tmp_path / name) for name in ("a.xtc", "b.xtc")]
    universe = MDAnalysis.Universe.empty(6, trajectory=True)
    if continuous and reader is not None:
        universe.load_new(paths, format=interop.KinemaReader, continuous=True)
    else:
        universe.load_new(paths, format=reader, continuous=continuous)
    assert kn.open(universe, stored=False).n_frames == universe.trajectory.n_frames == (12 if continuous else 15)
    # what the caller states counts more
    assert kn.open(universe, stored=False, overlap="first").n_frames == 12
    # also if it is the default for files
    assert kn.open(universe, stored=False, overlap="last").n_frames == 12
    assert kn.open(universe, stored=False, overlap="all").n_frames == 15


def test_options_of_our_reader(tmp_path: Path) -> None:
    write_xtc(tmp_path / "a.xtc", random_walk(6, 12))
    path = tmp_path / "a.xtc"
    path.write_bytes(path.read_bytes()[:-10])
    universe = MDAnalysis.Universe.empty(12, trajectory=True)
    universe.load_new(str(path), format=interop.KinemaReader, on_truncated="drop", stored=False)
    assert kn.open(universe).n_frames == universe.trajectory.n_frames == 5
    with pytest.raises(kn.TruncatedFileError):
        len(kn.open(universe, on_truncated="error"))


def test_a_default_that_is_stated_counts_more(tmp_path: Path) -> None:
    write_xtc(tmp_path / "a.xtc", random_walk(6, 12))
    path = tmp_path / "a.xtc"
    path.write_bytes(path.read_bytes()[:-10])
    universe = MDAnalysis.Universe.empty(12, trajectory=True)
    universe.load_new(str(path), format=interop.KinemaReader, on_truncated="drop", stored=False)
    universe.trajectory._options["on_truncated"] = "error"
    with pytest.raises(kn.TruncatedFileError):
        len(kn.open(universe))
    assert len(kn.open(universe, on_truncated="drop")) == 5
