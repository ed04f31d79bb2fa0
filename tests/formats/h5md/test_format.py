"""H5MD against the suite of formats, in several layouts, and every conformance file read by Kinema itself."""

from pathlib import Path
from typing import ClassVar

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import FormatTests, Golden, Synthetic, write_h5md
from kinema.testing.h5md_files import CASES

VECTORS = ("positions", "velocities", "forces")


class H5mdTests(FormatTests):
    suffix = ".h5md"
    index = "structure"
    reads_cut_files = False
    tolerance = 0.0
    storage: ClassVar[dict] = {}

    def write(self, path, positions, first_step):
        steps = np.arange(len(positions)) + first_step
        cells = np.zeros((len(positions), 3, 3), np.float32)
        write_h5md(path, Synthetic(positions, None, cells, steps, steps * 1.0), **self.storage)

    def write_synthetic(self, path, made):
        write_h5md(path, made, **self.storage)
        return True, True

    def golden_files(self):
        from MDAnalysisTests.datafiles import H5MD_xvf

        with h5py.File(H5MD_xvf) as file:
            particles = file["particles/trajectory"]
            assert particles["position/value"].attrs["unit"] == "nm"
            positions = particles["position/value"][:] * np.float32(10)
            cells = particles["box/edges/value"][:] * np.float32(10)
            return [Golden(Path(H5MD_xvf), positions, particles["position/time"][:].astype(float), cells)]


class TestContiguous(H5mdTests):
    """As the class says."""


class TestFrameByFrame(H5mdTests):
    storage: ClassVar[dict] = {"chunks": (1, 12, 3)}


class TestChunksThatSplitEverything(H5mdTests):
    storage: ClassVar[dict] = {"chunks": (4, 5, 1)}
    frames_lie_alone = False


class TestCompressed(H5mdTests):
    storage: ClassVar[dict] = {"chunks": (3, 7, 3), "compression": "gzip", "shuffle": True, "fletcher32": True}
    frames_lie_alone = False


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_conformance_file_gives_what_was_written(case, conformance, tmp_path):
    path, expected = conformance(case, tmp_path)
    traj = kn.open(path, **expected.options)
    names = [name for name in VECTORS if getattr(expected, name) is not None]
    assert [name for name in VECTORS if name in traj.fields] == names
    double = traj.read(fields=names, dtype="float64")
    single = traj.read(fields=names)
    for name in names:
        values = getattr(expected, name)
        assert double[name].shape == values.shape
        np.testing.assert_allclose(double[name], values, rtol=max(expected.tolerance, 1e-12), atol=0)
        np.testing.assert_allclose(single[name], values, rtol=max(expected.tolerance, 1e-6), atol=0)
    if expected.steps is not None:
        np.testing.assert_array_equal(double["steps"], expected.steps)
        np.testing.assert_array_equal(traj.steps, expected.steps)
    if expected.times is None:
        assert np.isnan(double["times"]).all()
    else:
        np.testing.assert_allclose(double["times"], expected.times, rtol=1e-12)
    cells = np.zeros((len(traj), 3, 3)) if expected.cells is None else expected.cells
    np.testing.assert_allclose(double["cells"], cells, rtol=1e-6)
    random = np.random.default_rng(1)
    frames = random.integers(0, len(traj), 9)
    atoms = random.permutation(traj.n_atoms)[: 1 + traj.n_atoms // 2]
    for name in names:
        part = traj.read(frames=frames, select=atoms, fields=name, dtype="float64", workers=2)
        np.testing.assert_array_equal(part, double[name][frames][:, atoms])
    through_library = any("through h5py" in warning for part in traj.parts for warning in part.warnings)
    assert through_library == expected.through_library


READ_BY_WORKERS = ("image_cuboid", "id_order_changes", "gromacs", "virtual")


@pytest.mark.parametrize("case", [case for case in CASES if case.name in READ_BY_WORKERS], ids=str)
def test_workers_in_processes_understand_a_file_alike(case, tmp_path):
    path = tmp_path / "case.h5md"
    traj = kn.open(path, **case.write(path).options)
    results = [kn.analysis.RMSF(traj).run(runner=runner, progress=False) for runner in ("serial", "processes")]
    np.testing.assert_array_equal(results[0].results.rmsf, results[1].results.rmsf)


def test_options_for_hdf5_are_refused_for_other_files():
    golden = Path(__file__).parents[2] / "data" / "golden" / "ca.dcd"
    with pytest.raises(kn.ArgumentError, match=r"particles, unwrap is for H5MD files, and this is DCD"):
        kn.open(golden, particles="all", unwrap=True, absent="nan")


def test_errors_of_the_structure_keep_their_class_and_say_the_path_once(tmp_path):
    path = tmp_path / "none.h5md"
    with pytest.raises(kn.FileNotFound) as missing:
        kn.open(path)
    assert str(missing.value).count(str(path)) == 1
    with h5py.File(path, "w") as file:
        file["numbers"] = np.zeros((3, 4, 3))
    with pytest.raises(kn.UnsupportedFormatError, match="dataset=") as unknown:
        kn.open(path)
    assert str(unknown.value).count(str(path)) == 1
    assert unknown.value.path == str(path)
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises((kn.CorruptFileError, kn.TruncatedFileError)):
        kn.open(path)
