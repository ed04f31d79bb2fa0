"""Files that `kinema.Writer` makes, as other programs read them: pyh5md, MDAnalysis, and Kinema itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk

N, ATOMS = 9, 6


@pytest.fixture(scope="module")
def content() -> dict[str, np.ndarray[Any, Any]]:
    cells = np.tile(np.diag([30.0, 31.0, 32.0]).astype(np.float32), (N, 1, 1))
    cells[:, 1, 0] = np.arange(N)
    return {
        "positions": random_walk(N, ATOMS),
        "velocities": random_walk(N, ATOMS, seed=1),
        "forces": random_walk(N, ATOMS, seed=2),
        "cell": cells,
        "step": 10 * np.arange(N) + 20,
        "time": 0.5 * np.arange(N) + 1.0,
    }


def write(path: Path, content: dict[str, Any], **options: Any) -> None:
    with kn.Writer(path, ATOMS, **options) as out:
        out.add_observable("energy", unit="kJ mol-1")
        rest = {name: value for name, value in content.items() if name != "positions"}
        out.write(content["positions"], **rest)
        out.write_observable("energy", np.arange(float(N)), step=content["step"], time=content["time"])


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "nm": {"length_unit": "nm"},
    "gzip": {"compression": "gzip", "layout": (2, 4, 3)},
    "zstd": {"compression": "zstd"},
    "atoms": {"layout": "atoms"},
    "contiguous": {"layout": "contiguous", "n_frames": N},
    "append": {"mode": "a"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis")
def test_mdanalysis_reads_its_dialect(tmp_path: Path, content: dict[str, Any], options: dict[str, Any]) -> None:
    import hdf5plugin  # noqa: F401
    import MDAnalysis

    path = tmp_path / "out.h5md"
    write(path, content, dialect="mdanalysis", **options)
    universe = MDAnalysis.Universe.empty(ATOMS, trajectory=False)
    universe.load_new(str(path))
    assert len(universe.trajectory) == N
    for i, ts in enumerate(universe.trajectory):
        tolerance = {"rtol": 3e-7} if options.get("length_unit") == "nm" else {"rtol": 0}
        np.testing.assert_allclose(ts.positions, content["positions"][i], **tolerance)
        np.testing.assert_allclose(ts.velocities, content["velocities"][i], **tolerance)
        np.testing.assert_allclose(ts.forces, content["forces"][i], **tolerance)
        np.testing.assert_allclose(ts.triclinic_dimensions, content["cell"][i], rtol=1e-5, atol=1e-5)
        assert ts.time == content["time"][i]
        assert ts.data["step"] == content["step"][i]
        assert ts.data["energy"] == i


@pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis")
def test_mdanalysis_reads_a_fixed_cell_in_its_dialect(tmp_path: Path, content: dict[str, Any]) -> None:
    import MDAnalysis

    path = tmp_path / "out.h5md"
    with kn.Writer(path, ATOMS, dialect="mdanalysis", cell=[30, 31, 32]) as out:
        out.write(content["positions"], time=content["time"])
    universe = MDAnalysis.Universe.empty(ATOMS, trajectory=False)
    universe.load_new(str(path))
    for ts in universe.trajectory:
        np.testing.assert_array_equal(ts.dimensions, [30, 31, 32, 90, 90, 90])


@pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis")
def test_what_mdanalysis_cannot_read_of_the_specification(tmp_path: Path, content: dict[str, Any]) -> None:
    # told in docs/write-h5md.md; if this fails, MDAnalysis has learnt it, and the dialect may go
    import MDAnalysis

    path = tmp_path / "out.h5md"
    write(path, content)
    universe = MDAnalysis.Universe.empty(ATOMS, trajectory=False)
    with pytest.raises(RuntimeError, match="is not recognized by H5MDReader"):
        universe.load_new(str(path))
    # the strings mended, steps in fixed storage remain
    with h5py.File(path, "r+") as h5:
        for element in ("position", "velocity", "force"):
            for part in ("value", "time"):
                attributes = h5[f"particles/trajectory/{element}/{part}"].attrs
                # times are one data set under several names
                if isinstance(attributes["unit"], bytes):
                    attributes["unit"] = attributes["unit"].decode()
    with pytest.raises(OSError):
        universe.load_new(str(path))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("dialect", ["h5md", "mdanalysis"])
def test_pyh5md_reads_all(tmp_path: Path, content: dict[str, Any], options: dict[str, Any], dialect: str) -> None:
    import hdf5plugin  # noqa: F401
    from pyh5md import File, element

    path = tmp_path / "out.h5md"
    write(path, content, dialect=dialect, **options)
    with File(str(path), "r") as h5:
        group = h5.particles_group("trajectory")
        for name, field in (("position", "positions"), ("velocity", "velocities"), ("force", "forces")):
            found = element(group, name)
            fixed = dialect == "h5md" and "mode" not in options
            assert found.element_type == ("LinearElement" if fixed else "TimeElement")
            scale = 10 if options.get("length_unit") == "nm" else 1
            scale = 1 / scale if name == "force" else scale
            np.testing.assert_allclose(found.value[:] * scale, content[field], rtol=3e-7)
            if fixed:
                steps = found.step * np.arange(N) + (found.step_offset or 0)
                times = found.time * np.arange(N) + (found.time_offset or 0)
            else:
                steps, times = found.step[:], found.time[:]
            np.testing.assert_array_equal(steps, content["step"])
            np.testing.assert_array_equal(times, content["time"])
        np.testing.assert_array_equal(element(h5["observables"], "energy").value, np.arange(float(N)))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("dialect", ["h5md", "mdanalysis"])
def test_kinema_reads_all(tmp_path: Path, content: dict[str, Any], options: dict[str, Any], dialect: str) -> None:
    path = tmp_path / "out.h5md"
    write(path, content, dialect=dialect, **options)
    traj = kn.open(path)
    assert (len(traj), traj.n_atoms) == (N, ATOMS)
    (block,) = traj.blocks(fields=["positions", "velocities", "forces"])
    tolerance = {"rtol": 3e-7} if options.get("length_unit") == "nm" else {"rtol": 0}
    for name in ("positions", "velocities", "forces"):
        np.testing.assert_allclose(getattr(block, name), content[name], **tolerance)
    np.testing.assert_allclose(block.cells, content["cell"], **tolerance)
    np.testing.assert_array_equal(block.steps, content["step"])
    np.testing.assert_array_equal(block.times, content["time"])
