"""H5MD inside MDAnalysis: Kinema's reader beside MDAnalysis' own, and what MDAnalysis' own does not read."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")
interop = lazy("kinema.interop.mdanalysis")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
]


@pytest.mark.parametrize("options", [{}, {"convert_units": False}])
def test_h5md_with_everything(options: dict[str, Any]) -> None:
    ours = interop.KinemaReader(datafiles.H5MD_xvf, **options)
    # both have the same file open
    theirs = MDAnalysis.coordinates.H5MD.H5MDReader(datafiles.H5MD_xvf, **options)
    assert ours.n_frames == theirs.n_frames
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine.positions, other.positions)
        np.testing.assert_array_equal(mine.velocities, other.velocities)
        # in kJ/(mol nm), scaled in another order
        np.testing.assert_allclose(mine.forces, other.forces, rtol=2e-7)
        np.testing.assert_allclose(mine.dimensions, other.dimensions, rtol=2e-7)
        assert (mine.time, mine.data["step"]) == (other.time, other.data["step"])
        assert mine.data["lambda"] == other.data["lambda"]
    np.testing.assert_array_equal(ours.timeseries(), theirs.timeseries())
    theirs.close()


def test_observables_of_h5md() -> None:
    reader = interop.KinemaReader(datafiles.H5MD_energy)
    with h5py.File(datafiles.H5MD_energy) as file:
        expected = file["observables/atoms/energy/value"][()]
    assert [ts.data["atoms/energy"] for ts in reader] == expected.tolist()
    assert pickle.loads(pickle.dumps(reader))[7].data["atoms/energy"] == expected[7]


@pytest.fixture
def strided_file(tmp_path: Path) -> str:
    """Positions at steps 0, 2, ... 18, velocities at every third of these, observables at steps of their own."""
    path = str(tmp_path / "strides.h5md")
    positions = random_walk(10, 6)
    with h5py.File(path, "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]
        group = file.create_group("particles/all")
        box = group.create_group("box")
        box.attrs["dimension"] = 3
        box.attrs["boundary"] = np.array([b"none"] * 3)
        for name, stride, unit in (("position", 1, "Angstrom"), ("velocity", 3, "Angstrom ps-1")):
            element = group.create_group(name)
            element.create_dataset("value", data=positions[::stride]).attrs["unit"] = np.bytes_(unit)
            element["step"] = 2 * np.arange(10)[::stride]
            element.create_dataset("time", data=2.0 * np.arange(10)[::stride]).attrs["unit"] = np.bytes_("ps")
        for name, steps in (("often", np.arange(20)), ("seldom", np.array([4, 10, 99]))):
            element = file.create_group(f"observables/{name}")
            element["value"] = 10.0 * steps
            element["step"] = steps
        file["observables/plain/value"] = np.arange(10.0)
        file["observables/constant"] = 7.5
        large = file.create_group("observables/large")
        # more than is kept in memory; never written, so that it takes no room
        large.create_dataset("value", shape=(10, 700, 700), dtype="f8", chunks=(1, 700, 700), fillvalue=3.0)
        large["step"] = 2 * np.arange(10)
    return path


def test_velocities_of_some_frames_only(strided_file: str) -> None:
    reader = interop.KinemaReader(strided_file)
    positions = random_walk(10, 6)
    assert [ts.has_velocities for ts in reader] == [frame % 3 == 0 for frame in range(10)]
    np.testing.assert_array_equal(reader[6].velocities, positions[6])
    np.testing.assert_array_equal(reader[5].positions, positions[5])
    with pytest.raises(MDAnalysis.NoDataError):
        _ = reader.ts.velocities
    with pytest.raises(kn.Error):
        list(interop.KinemaReader(strided_file, absent="error"))


def test_observables_are_joined_by_step(strided_file: str) -> None:
    reader = interop.KinemaReader(strided_file)
    found = [dict(ts.data) for ts in reader]
    assert [data["often"] for data in found] == [20.0 * frame for frame in range(10)]
    assert [data.get("seldom") for data in found] == [None, None, 40.0, None, None, 100.0, None, None, None, None]
    assert all(data["constant"] == 7.5 and (data["large"] == 3.0).all() for data in found)


def test_h5md_without_units(strided_file: str) -> None:
    with h5py.File(strided_file, "r+") as file:
        for name in ("position/value", "position/time", "velocity/value", "velocity/time"):
            del file[f"particles/all/{name}"].attrs["unit"]
    with pytest.raises(kn.ArgumentError, match="unit"):
        interop.KinemaReader(strided_file)
    native = interop.KinemaReader(strided_file, convert_units=False)
    np.testing.assert_array_equal(native[4].positions, random_walk(10, 6)[4])
    units = {"length": "nm", "time": "fs", "velocity": "nm fs-1"}
    with_units = interop.KinemaReader(strided_file, units=units)
    np.testing.assert_allclose(with_units[4].positions, 10 * random_walk(10, 6)[4], rtol=2e-7)
    assert with_units.time == pytest.approx(0.008)


def test_mdanalysis_opens_what_kinema_has_open(tmp_path: Path) -> None:
    path = shutil.copy(datafiles.H5MD_xvf, tmp_path)
    ours = interop.KinemaReader(path)
    ours[1]
    universe = MDAnalysis.Universe(datafiles.TPR_xvf, path)
    assert kn.open(universe).n_frames == universe.trajectory.n_frames == ours.n_frames
    universe.trajectory.close()
