"""`kinema.ml.export`: what ASE, dpdata, h5py and NumPy read of each format."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
import kinema.ml
from kinema.base import errors
from kinema.base.notes import collected
from kinema.ml import FrameDataset, SampleDataset

sys.path.insert(0, str(Path(__file__).parent))
from export_cases import EV, energies, topology, trajectory

from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")

N = 23


def export(source: Any, output: Path, kind: str, **options: Any) -> kinema.ml.Exported:
    with collected():
        return kinema.ml.export(source, output, format=kind, **options)


# -- extended XYZ ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ase_reads_extended_xyz(tmp_path: Path, dtype: str) -> None:
    import ase.io

    traj = trajectory(tmp_path / "a.h5md")
    done = export(traj, tmp_path / "a.extxyz", "extxyz", labels=energies(), dtype=dtype)
    assert (done.n_samples, done.files) == (N, (str(tmp_path / "a.extxyz"),))
    expected = traj.read(fields=["positions", "forces"], dtype=dtype)
    found = ase.io.read(tmp_path / "a.extxyz", ":")
    assert len(found) == N
    for i, atoms in enumerate(found):
        # float32 values read back to the same bits
        assert np.array_equal(atoms.positions.astype(dtype), expected["positions"][i])
        of_ev = (expected["forces"][i].astype(np.float64) / EV).astype(dtype)
        np.testing.assert_allclose(atoms.get_forces(), of_ev, rtol=2e-7 if dtype == "float32" else 1e-15)
        np.testing.assert_array_equal(atoms.cell.array, expected["cells"][i])
        assert atoms.pbc.all()
        assert atoms.get_chemical_symbols() == ["O", "H", "H"] * 3
        assert atoms.get_potential_energy() == pytest.approx((-1000 - 10 * i / 7) / EV, rel=1e-15)
        assert (atoms.info["step"], atoms.info["time"]) == (10 * i, 2.0 * i)
    assert "energy" in done.units and any("kJ/mol" in note for note in done.notes)


def test_systems_of_different_size_and_other_labels(tmp_path: Path) -> None:
    import ase.io

    sources = [trajectory(tmp_path / "a.trr", "O H H", 3), trajectory(tmp_path / "b.trr", "C H H H H", 2, cell=False)]
    tables = [
        {"step": [0, 10, 20], "energy": [1.0, 2, 3], "dipole": np.arange(9.0).reshape(3, 3)},
        {"step": [0, 10], "energy": [4.0, 5], "dipole": -np.arange(6.0).reshape(2, 3)},
    ]
    fields = ["positions", "forces", "energy", "dipole"]
    export(sources, tmp_path / "all.xyz", "extxyz", labels=tables, label_units={"energy": "eV"}, fields=fields)
    found = ase.io.read(tmp_path / "all.xyz", ":", format="extxyz")
    assert [str(one.symbols) for one in found] == ["OH2"] * 3 + ["CH4"] * 2
    assert [one.get_potential_energy() for one in found] == [1, 2, 3, 4, 5]
    assert [bool(one.pbc.all()) for one in found] == [True] * 3 + [False] * 2
    np.testing.assert_array_equal(found[4].get_dipole_moment(), [-3, -4, -5])


@pytest.mark.parametrize("kind", ["extxyz", "deepmd"])
@pytest.mark.parametrize("given", [None, "kJ/mol", "kJ mol-1", "eV", "kcal/mol"])
def test_the_unit_of_an_energy_is_that_of_its_file(tmp_path: Path, kind: str, given: str | None) -> None:
    import ase.io

    source = trajectory(tmp_path / "a.trr", "O H H", 3)
    (tmp_path / "e.csv").write_text("step,energy (kJ/mol)\n0,1\n10,2\n20,3\n")
    options: dict[str, Any] = {"labels": tmp_path / "e.csv", "fields": ["positions", "energy"]}
    if given is not None:
        options["label_units"] = {"energy": given}
    output = tmp_path / f"out{'.extxyz' if kind == 'extxyz' else ''}"
    if given in ("eV", "kcal/mol"):
        with pytest.raises(
            errors.ArgumentError, match=f"energy is in kJ/mol as its file says, found label_units=.*{given}"
        ):
            export(source, output, kind, **options)
        return
    done = export(source, output, kind, **options)
    assert not any("no unit" in note for note in done.notes)
    if kind == "extxyz":
        found = [one.get_potential_energy() for one in ase.io.read(output, ":", format="extxyz")]
    else:
        found = np.load(next(output.rglob("energy.npy"))).tolist()
    np.testing.assert_allclose(found, np.array([1, 2, 3]) / EV, rtol=1e-12)


def test_real_forces_of_gromacs_and_amber(tmp_path: Path) -> None:
    import ase.io

    gromacs = kn.open(datafiles.TRR_sub_sol, topology=None)
    amber = kn.open(datafiles.PFncdf_Trj, topology=datafiles.PFncdf_Top)
    with pytest.raises(errors.ArgumentError, match="elements of its atoms are not known"):
        export(gromacs, tmp_path / "no.extxyz", "extxyz")
    export(amber, tmp_path / "amber.extxyz", "extxyz")
    theirs = MDAnalysis.Universe(datafiles.PFncdf_Top, datafiles.PFncdf_Trj)
    for frame, atoms in zip(theirs.trajectory, ase.io.read(tmp_path / "amber.extxyz", ":"), strict=True):
        np.testing.assert_array_equal(atoms.positions.astype(np.float32), frame.positions)
        np.testing.assert_allclose(atoms.get_forces(), frame.forces / EV, rtol=1e-6, atol=1e-6)
    done = export(gromacs, tmp_path / "gromacs.npz", "npz", select=range(500), fields=["positions", "forces"])
    theirs = MDAnalysis.Universe(datafiles.TRR_sub_sol, format="TRR", topology_format="MINIMAL")
    with np.load(tmp_path / "gromacs.npz") as arrays:
        for i, frame in enumerate(theirs.trajectory):
            np.testing.assert_allclose(arrays["forces"][i], frame.forces[:500], rtol=1e-6)
    assert done.n_samples == 3


# -- DeePMD ------------------------------------------------------------------------------------------------------------


def test_deepmd_folders(tmp_path: Path) -> None:
    sources = [
        trajectory(tmp_path / "a.trr", "O H H", 5, 1),
        trajectory(tmp_path / "b.trr", "C H H H H", 4, 2, cell=False),
        trajectory(tmp_path / "c.trr", "O H H", 3, 3),
    ]
    tables = [energies(5), energies(4), energies(3)]
    out = tmp_path / "deepmd"
    export(sources, out, "deepmd", labels=tables, shard_size=500)
    assert (out / "system-000/type_map.raw").read_text() == "H\nC\nO\n"
    assert (out / "system-000/type.raw").read_text() == "2\n0\n0\n"
    assert (out / "system-001/type.raw").read_text() == "1\n0\n0\n0\n0\n"
    assert (out / "system-001/nopbc").exists() and not (out / "system-000/nopbc").exists()
    sets = sorted((out / "system-000").glob("set.*"))
    assert len(sets) > 1 and sets[0].name == "set.000"
    joined = {
        name: np.concatenate([np.load(one / f"{name}.npy") for one in sets]) for name in ("coord", "force", "box")
    }
    expected = [traj.read(fields=["positions", "forces"]) for traj in (sources[0], sources[2])]
    positions = np.concatenate([one["positions"] for one in expected])
    assert joined["coord"].dtype == np.float32
    assert np.array_equal(joined["coord"], positions.reshape(8, 9))
    np.testing.assert_allclose(
        joined["force"], np.concatenate([one["forces"] for one in expected]).reshape(8, 9) / EV, rtol=2e-7
    )
    cells = np.concatenate([one["cells"] for one in expected]).astype(np.float32)
    np.testing.assert_array_equal(joined["box"], cells.reshape(8, 9))
    found = np.concatenate([np.load(one / "energy.npy") for one in sets])
    np.testing.assert_allclose(found, (-1000 - 10 * np.r_[0:5, 0:3] / 7) / EV, rtol=1e-15)


def test_dpdata_reads_deepmd_folders(tmp_path: Path) -> None:
    dpdata = pytest.importorskip("dpdata", reason="dpdata is not installed")
    traj = trajectory(tmp_path / "a.h5md")
    export(traj, tmp_path / "out", "deepmd", labels=energies(), dtype="float64")
    found = dpdata.LabeledSystem(str(tmp_path / "out/system-000"), fmt="deepmd/npy")
    expected = traj.read(fields=["positions", "forces"], dtype="float64")
    assert [found["atom_names"][kind] for kind in found["atom_types"]] == ["O", "H", "H"] * 3
    np.testing.assert_array_equal(found["coords"], expected["positions"])
    np.testing.assert_allclose(found["forces"], expected["forces"] / EV, rtol=1e-15)
    np.testing.assert_array_equal(found["cells"], expected["cells"])
    np.testing.assert_allclose(found["energies"], (-1000 - 10 * np.arange(N) / 7) / EV, rtol=1e-15)


# -- arrays ------------------------------------------------------------------------------------------------------------


def arrays_of(output: Path, kind: str) -> dict[str, list[Any]]:
    """The arrays of all shards, read by h5py and NumPy alone."""
    listed = json.loads((output / "export.json").read_text())["shards"]
    found: dict[str, list[Any]] = {}
    for shard in listed:
        if kind == "npy":
            shards = {name: np.load(output / file) for name, file in shard["files"].items()}
        elif kind == "npz":
            with np.load(output / shard["file"]) as archive:
                shards = dict(archive)
        else:
            with h5py.File(output / shard["file"]) as file:
                shards = {name: file[name][()] for name in file}
        for name, array in shards.items():
            assert len(array) == shard["samples"]
            found.setdefault(name, []).append(array)
    return found


@pytest.mark.parametrize("kind", ["npy", "npz", "samples-h5"])
@pytest.mark.parametrize("compress", [False, True])
def test_arrays_of_shards_are_those_of_batches(tmp_path: Path, kind: str, compress: bool) -> None:
    if compress and kind != "npz":
        with pytest.raises(errors.ArgumentError, match="compress= is of npz"):
            export("a.xtc", tmp_path / "out", kind, compress=True)
        return
    traj = trajectory(tmp_path / "a.h5md")
    data = FrameDataset(traj[3:20:2], select=[4, 2, 2], fields=["positions", "forces", "energy"], labels=energies())
    export(data, tmp_path / "out", kind, shard_size=700, compress=compress)
    expected = data.read(np.arange(9))
    found = arrays_of(tmp_path / "out", kind)
    assert set(found) == set(expected) and len(found["positions"]) > 1
    for name, arrays in found.items():
        assert arrays[0].dtype == expected[name].dtype
        assert np.array_equal(np.concatenate(arrays), expected[name])
    if kind == "npy":
        with pytest.raises(errors.ArgumentError, match=r"give the files of one array"):
            SampleDataset(tmp_path / "out")
    else:
        shards = SampleDataset(tmp_path / "out")
        assert np.array_equal(shards.read([8, 0])["positions"], expected["positions"][[8, 0]]) and len(shards) == 9
    if kind == "npz":
        with zipfile.ZipFile(tmp_path / "out/samples-00000.npz") as archive:
            kinds = {one.compress_type for one in archive.infolist()}
        assert kinds == {zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED}
        assert len(list((tmp_path / "out").iterdir())) == len(found["positions"]) + 1


def test_one_file_is_a_sample_data_set(tmp_path: Path) -> None:
    traj = trajectory(tmp_path / "a.h5md")
    for name, kind in (("a.h5", "samples-h5"), ("a.npz", "npz")):
        export(traj, tmp_path / name, kind, labels=energies())
        data = SampleDataset(tmp_path / name)
        assert data.read([7, 0])["positions"].tolist() == traj.read([7, 0]).tolist()
        assert data.plan([7]).read == data.sample_bytes
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["positions"].chunks is None and file["forces"].attrs["unit"] == "kJ/(mol*angstrom)"
    again = export(SampleDataset(tmp_path / "a.npz"), tmp_path / "b.h5", "samples-h5")
    assert again.n_samples == N


def test_parts_of_a_split(tmp_path: Path) -> None:
    data = FrameDataset(trajectory(tmp_path / "a.h5md"), fields=["positions", "atomic_numbers"])
    split = kinema.ml.split_by_time(data, {"train": 0.5, "test": 0.5}, blocks=4)
    split.save(tmp_path / "split.json")
    export(data, tmp_path / "train.h5", "samples-h5", split=tmp_path / "split.json", part="train")
    with h5py.File(tmp_path / "train.h5") as file:
        assert file["step"][()].tolist() == (10 * split["train"]).tolist()
    export(data, tmp_path / "deepmd", "deepmd", split=split, part="test")
    coord = np.load(tmp_path / "deepmd/system-000/set.000/coord.npy")
    assert np.array_equal(coord, data.read(split["test"])["positions"].reshape(len(coord), -1))


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    big, small = trajectory(tmp_path / "a.trr", "O H H", 3), trajectory(tmp_path / "b.trr", "H H", 3)
    for kind in ("npz", "npy", "samples-h5"):
        with pytest.raises(errors.ArgumentError, match=r"the trajectories have 2, 3 atoms; choose.*--select"):
            export([big, small], tmp_path / "out", kind)
    export([big, small], tmp_path / "equal", "npy", select=[0, 1])
    for kind, error, message in (
        ("lmdb", errors.UnsupportedFormatError, "use samples-h5"),
        ("hdf", errors.ArgumentError, "one of 'samples-h5', 'npy', 'npz', 'extxyz', 'deepmd'"),
    ):
        with pytest.raises(error, match=message):
            export(big, tmp_path / "out", kind)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"output": "out.npz"}, "takes a name that ends with .extxyz, or a folder, found .npz"),
        ({"output": "out.extxyz", "shard_size": "1 GiB"}, "is one file, and shard_size="),
        ({"fields": ["positions", "velocities"]}, "has no velocities"),
        ({"labels": {"step": [0, 10], "energy": [1.0, 2]}}, "1 of 3 frames have no value of energy"),
        ({"labels": {"step": [0, 10, 20], "pbc": [1, 2, 3.0]}}, "label pbc has a name that extxyz uses itself"),
        ({"labels": {"step": [0, 10, 20], "a b": [1, 2, 3.0]}}, "cannot be a key of extxyz"),
        ({"energy": "nothing"}, "energy='nothing' is not a label"),
        (
            {"labels": {"step": [0, 10, 20], "energy": [1, 2, 3.0]}, "label_units": {"energy": "nm"}},
            "not a unit of energy",
        ),
        ({"output": "folder", "shard_size": "many"}, "shard_size is a number of bytes"),
        ({"part": "train"}, "go together"),
        ({"memory": 100}, "expected 1[0-9]+ bytes or more"),
        ({"output": "a.trr"}, "found .trr|exists|is the file"),
    ]
    for options, message in cases:
        output = tmp_path / options.pop("output", "out.extxyz")
        with pytest.raises(errors.Error, match=message):
            export(big, output, "extxyz", **options)
    left = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("."))
    assert left == ["a.trr", "b.trr", "equal"]


def test_pairs_and_archives_are_no_frames(tmp_path: Path) -> None:
    traj = trajectory(tmp_path / "a.h5md")
    pairs = FrameDataset(traj, fields=["positions", "atomic_numbers"], lag=4.0)
    with pytest.raises(errors.ArgumentError, match="has single frames, found pairs"):
        export(pairs, tmp_path / "out", "deepmd")
    export(pairs, tmp_path / "pairs.npz", "npz")
    np.savez(tmp_path / "x.npz", x=np.arange(6).reshape(3, 2))
    with pytest.raises(errors.ArgumentError, match="found samples of archives"):
        export(SampleDataset(tmp_path / "x.npz"), tmp_path / "x.extxyz", "extxyz")
    assert topology("H").atoms.n_atoms == 1
