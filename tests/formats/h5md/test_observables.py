"""Observables: any shape, nested, with steps of their own or without."""

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.formats.h5md import observables_of
from kinema.testing.h5md_files import add_element, start_h5md, walk

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

STEPS = np.arange(0, 60, 10)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "observed.h5md"
    with h5py.File(path, "w") as file:
        root = start_h5md(file)
        group = root.create_group("particles/all")
        add_element(group, "position", walk(4, 5), steps=np.arange(4), times=0.5, unit="nm")
        observables = root.create_group("observables")
        add_element(observables, "energy", np.arange(6.0), steps=STEPS, times=STEPS * 2, unit="eV", time_unit="fs")
        stress = np.arange(54, dtype=">f4").reshape(6, 3, 3)
        add_element(observables, "stress", stress, steps=10, times=0.5, step_offset=100)
        add_element(observables, "volume", 3.5, unit="nm+3")
        solvent = observables.create_group("solvent")
        solvent.attrs["dimension"] = 3
        add_element(solvent, "deeper/count", np.arange(6), steps=STEPS)
        add_element(observables, "state", np.array([b"a", b"bc"]), steps=[0, 1])
        add_element(observables, "unfinished", np.arange(6), steps=STEPS[:4])
        add_element(observables, "nothing", np.zeros(0), steps=STEPS[:0])
    return path


def test_all_of_them(path):
    found = kn.open(path, stored=False).observables
    assert set(found) == {"energy", "stress", "volume", "solvent/deeper/count", "state", "unfinished"}
    assert len(found) == 6
    assert "energy" in found and "none" not in found
    assert "solvent/deeper/count" in repr(found)
    with pytest.raises(KeyError):
        found["solvent"]


def test_numbers(path):
    energy = observables_of(path)["energy"]
    assert (energy.shape, energy.n_rows, energy.unit, energy.time_unit, energy.fixed) == ((), 6, "eV", "fs", False)
    np.testing.assert_array_equal(energy.read(), np.arange(6.0))
    np.testing.assert_array_equal(energy.steps, STEPS)
    np.testing.assert_allclose(energy.times, STEPS * 0.002)
    assert energy.read(-1) == 5.0
    with pytest.raises(kn.OutOfRangeError, match="has 6 rows, row 6"):
        energy.read(6)


@pytest.mark.parametrize(
    "rows", [slice(1, 4), slice(None, None, 2), slice(None, None, -1), slice(4, 0, -3), slice(9, 3), slice(-2, None)]
)
def test_slices(path, rows):
    np.testing.assert_array_equal(observables_of(path)["energy"].read(rows), np.arange(6.0)[rows])


def test_tensors_at_fixed_intervals(path):
    stress = observables_of(path)["stress"]
    assert stress.shape == (3, 3)
    np.testing.assert_array_equal(stress.read(), np.arange(54.0).reshape(6, 3, 3))
    assert stress.read().dtype == np.float32
    assert stress.read(2).shape == (3, 3)
    np.testing.assert_array_equal(stress.steps, STEPS + 100)
    np.testing.assert_allclose(stress.times, np.arange(6) * 0.5)


def test_time_independent(path):
    volume = observables_of(path)["volume"]
    assert (volume.fixed, volume.read(), volume.unit, volume.steps, volume.times) == (True, 3.5, "nm+3", None, None)
    with pytest.raises(kn.ArgumentError, match="has no rows"):
        volume.read(0)


def test_nested_text_and_unfinished(path):
    found = observables_of(path)
    assert found["solvent/deeper/count"].times is None
    assert found["state"].read().tolist() == ["a", "bc"]
    assert found["state"].read(1) == "bc"
    np.testing.assert_array_equal(found["unfinished"].read(), np.arange(4))
    assert found["unfinished"].read(-1) == 3


def test_times_without_unit(path):
    with h5py.File(path, "r+") as file:
        del file["observables/energy/time"].attrs["unit"]
    with pytest.raises(kn.ArgumentError, match=r'units=\{"time": "ps"\}'):
        _ = kn.open(path, stored=False).observables["energy"].times
    given = kn.open(path, stored=False, units={"time": "ns"}).observables["energy"].times
    np.testing.assert_allclose(given, STEPS * 2000.0)


def test_other_formats_have_none(small):
    assert dict(small.observables) == {}


def test_several_files(path):
    traj = kn.open([path, path], overlap="all", stored=False)
    with pytest.raises(kn.ArgumentError, match="2 files"):
        _ = traj.observables
