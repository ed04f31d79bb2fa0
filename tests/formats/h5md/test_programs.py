"""Files that programs wrote: MDAnalysis' test data, pyh5md, a sample of GROMACS."""

import os

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.formats.h5md import describe
from kinema.storage.hdf5.stored_dataset import NOT_STORED

N = 5


@pytest.mark.parametrize("name", ["cobrotoxin.h5md", "cu.h5md", "cu_malformed.h5md", "coordinates/test.h5md"])
def test_files_of_mdanalysis(name):
    from MDAnalysisTests import datafiles

    path = os.path.join(os.path.dirname(os.path.abspath(datafiles.__file__)), "data", name)
    found = describe(path)
    with h5py.File(path) as file:
        group = file[found.group]
        value = group["position/value"]
        assert (found.n_frames, found.n_atoms) == value.shape[:2]
        array = found.positions.pieces[0][1]
        assert (array.chunks, array.shape) == (value.chunks, value.shape)
        assert (array.addresses != NOT_STORED).all()
        np.testing.assert_array_equal(found.steps, group["position/step"][:])
        np.testing.assert_array_equal(found.times, group["position/time"][:])
        traj = kn.open(path, stored=False)
        np.testing.assert_allclose(traj.read(), value[:] * found.positions.scale, rtol=1e-6)


def test_files_of_pyh5md(tmp_path):
    """The reference implementation's writer: fixed storage, steps without units."""
    pyh5md = pytest.importorskip("pyh5md")
    path = tmp_path / "pyh5md.h5md"
    with pyh5md.File(str(path), "w", creator="pyh5md", author="N.N.", creator_version="1") as file:
        group = file.particles_group("atoms")
        group.create_box(dimension=3, boundary=["periodic"] * 3, store="fixed", data=np.full(3, 4.0))
        zeros = np.zeros((N, 3))
        linear = {"step": 5, "step_offset": 10, "time": 0.5, "time_offset": 1.0}
        position = pyh5md.element(group, "position", store="linear", data=zeros, **linear)
        velocity = pyh5md.element(group, "velocity", store="time", data=zeros, time=True)
        pyh5md.element(group, "mass", store="fixed", data=np.arange(N) + 1.0)
        energy = pyh5md.element(file.require_group("observables"), "energy", store="time", data=1.0, time=True)
        for i in range(4):
            position.append(zeros + i)
            if i % 2 == 0:
                velocity.append(zeros - i, 10 + 5 * i, 1 + 0.5 * i)
            energy.append(2.0 * i, i, 0.1 * i)
    traj = kn.open(path, units={"length": "nm", "time": "ps"}, absent="nan", stored=False)
    found = traj.read(fields=["positions", "velocities"])
    np.testing.assert_array_equal(found["positions"][:, 0, 0], [0, 10, 20, 30])
    np.testing.assert_array_equal(found["velocities"][:, 0, 0], [0, np.nan, -20, np.nan])
    np.testing.assert_array_equal(found["cells"][3], 40 * np.eye(3))
    assert traj.steps.tolist() == [10, 15, 20, 25]
    assert traj.times.tolist() == [1.0, 1.5, 2.0, 2.5]
    assert traj.observables["energy"].read().tolist() == [0, 2, 4, 6]
    assert traj.atoms.masses.tolist() == [1, 2, 3, 4, 5]


def test_sample_of_gromacs():
    path = os.path.join(os.path.dirname(__file__), "..", "..", "..", "..", "shared", "data", "gromacs-spc2.h5md")
    if not os.path.exists(path):
        pytest.skip("the sample that GROMACS wrote is not here: ../shared/data/gromacs-spc2.h5md")
    found = describe(path)
    assert (found.n_frames, found.n_atoms, found.forces) == (2, 6, None)
    assert found.variant.startswith("H5MD 1.1, group system, written by GROMACS 2026")
    traj = kn.open(path, stored=False)
    with h5py.File(path) as file:
        system = file["particles/system"]
        np.testing.assert_allclose(traj.read(), system["position/value"][:] * 10, rtol=1e-6)
        np.testing.assert_allclose(traj.read(fields="velocities"), system["velocity/value"][:] * 10, rtol=1e-6)
        np.testing.assert_allclose(
            traj.read(fields=["positions"])["cells"], system["box/edges/value"][:] * 10, rtol=1e-6
        )
    assert traj.times.tolist() == [0.0, 1.0]
