"""mdCATH files as data sets. They are made here after the published description: no file was downloaded.

Source: A. Mirarchi, T. Giorgino, G. De Fabritiis, "mdCATH: a large-scale MD dataset for data-driven computational
biophysics", Sci. Data 11, 1299 (2024): a file a domain, five temperatures, five replicas, frames 1 ns apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.base import errors
from kinema.ml import FrameDataset, Loader, MdcathTrajectory, mdcath, split_by_trajectory

TEMPERATURES, REPLICAS = (320, 348, 379, 413, 450), range(5)
# atoms, and the unit in which this file has its coordinates: files say it themselves
DOMAINS = {"1abcA00": (7, "Angstrom"), "2xyzB01": (11, "Angstrom"), "3defC02": (5, "nm")}
KCAL = np.float32(4.184)


def write_domain(folder: Path, domain: str, n_atoms: int, unit: str) -> None:
    random = np.random.default_rng(n_atoms)
    with h5py.File(folder / f"mdcath_dataset_{domain}.h5", "w") as file:
        file.attrs["layout"] = "mdcath-only-protein-v1.0"
        group = file.create_group(domain)
        group.attrs["numProteinAtoms"] = n_atoms
        group.attrs["numResidues"] = -(-n_atoms // 3)
        group["z"] = np.resize([6, 1, 8, 7], n_atoms)
        group["element"] = np.resize(np.array([b"C", b"H", b"O", b"N"]), n_atoms)
        group["resid"] = np.arange(n_atoms) // 3
        group["resname"] = np.full(n_atoms, b"ALA")
        group["chain"] = np.full(n_atoms, b"0")
        for name in ("pdb", "pdbProteinAtoms", "psf"):
            group[name] = f"text of the {name} file"
        for temperature in TEMPERATURES:
            for replica in REPLICAS:
                one = group.create_group(f"{temperature}/{replica}")
                n_frames = 5 + replica
                one.attrs["numFrames"] = n_frames
                coords = random.uniform(0, 50, (n_frames, n_atoms, 3)).astype(np.float32)
                one.create_dataset("coords", data=coords).attrs["unit"] = unit
                forces = one.create_dataset("forces", data=random.normal(0, 9, coords.shape).astype(np.float32))
                forces.attrs["unit"] = "kcal/mol/Angstrom"
                one.create_dataset("box", data=np.eye(3) * 5.5).attrs["unit"] = "nm"
                for name in ("rmsd", "gyrationRadius"):
                    one.create_dataset(name, data=random.random(n_frames)).attrs["unit"] = "nm"
                one["rmsf"] = random.random(-(-n_atoms // 3))
                one["dssp"] = np.full((n_frames, -(-n_atoms // 3)), b"H")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """75 trajectories: three domains at five temperatures, five replicas each."""
    folder = tmp_path_factory.mktemp("mdcath")
    for domain, (n_atoms, unit) in DOMAINS.items():
        write_domain(folder, domain, n_atoms, unit)
    return folder


def test_a_trajectory_of_a_file(folder: Path) -> None:
    path = folder / "mdcath_dataset_1abcA00.h5"
    traj = kn.open(path, particles="1abcA00/450/1", dt=1000)
    assert (traj.n_frames, traj.n_atoms, traj.times[3]) == (6, 7, 3000)
    with h5py.File(path) as file:
        group = file["1abcA00/450/1"]
        np.testing.assert_array_equal(traj.read(), group["coords"][()])
        np.testing.assert_allclose(traj.read(fields="forces"), group["forces"][()] * KCAL, rtol=1e-6)
    np.testing.assert_array_equal(traj[2].cell, np.eye(3) * 55)
    assert traj.atoms.elements.tolist() == ["C", "H", "O", "N", "C", "H", "O"]
    assert kn.open(path, particles="450/1").n_frames == 6
    with pytest.raises(errors.ArgumentError, match=r"several trajectories .* choose one with particles="):
        kn.open(path)
    with pytest.raises(errors.ArgumentError, match="no trajectory '1abcA00/451/1'"):
        kn.open(path, particles="1abcA00/451/1")


@pytest.mark.parametrize("domain", DOMAINS)
def test_values_in_the_units_that_the_file_says(folder: Path, domain: str) -> None:
    path = folder / f"mdcath_dataset_{domain}.h5"
    for temperature, replica in zip(TEMPERATURES[::2], (4, 0, 2), strict=True):
        name = f"{domain}/{temperature}/{replica}"
        traj = kn.open(path, particles=name)
        with h5py.File(path) as file:
            coords, forces = file[name]["coords"][()], file[name]["forces"][()]
        expected = coords * np.float32(10) if DOMAINS[domain][1] == "nm" else coords
        np.testing.assert_allclose(traj.read(), expected, rtol=1e-6)
        np.testing.assert_allclose(traj.read(fields="forces"), forces * KCAL, rtol=1e-6)


def test_a_folder_is_listed_by_temperature_and_replica(folder: Path) -> None:
    listed = mdcath(folder, temperature=450, replica=[0, 1])
    assert [one.particles for one in listed] == [f"{domain}/450/{replica}" for domain in DOMAINS for replica in (0, 1)]
    assert len(mdcath(folder)) == 75 and len(mdcath(folder, [320, 450], replica=1)) == 6
    assert isinstance(listed[0], MdcathTrajectory) and listed[0].label_names == ("gyrationRadius", "rmsd")
    assert len(mdcath(folder / "mdcath_dataset_1abcA00.h5")) == 25
    with pytest.raises(errors.ArgumentError, match="no trajectories of mdCATH, of temperature 300"):
        mdcath(folder, temperature=300)


def test_all_domains_in_the_batches_of_a_loader(folder: Path) -> None:
    listed = mdcath(folder, replica=[1, 3])
    frames = FrameDataset(listed, fields=["positions", "forces", "rmsd", "temperature"])
    assert len(frames) == 15 * (6 + 8) and frames.is_ragged
    seen = []
    for batch in Loader(frames, 64, seed=2, tensors=False):
        ptr, seen = batch["ptr"], [*seen, *batch.ids.tolist()]
        for row in range(0, len(batch.ids), 9):
            system = int(np.searchsorted(frames.bounds, batch.ids[row], side="right")) - 1
            one, frame = listed[system], int(batch.ids[row] - frames.bounds[system])
            with h5py.File(one.path) as file:
                group = file[one.particles]
                scale = np.float32(10 if DOMAINS[one.domain][1] == "nm" else 1)
                atoms = slice(ptr[row], ptr[row + 1])
                np.testing.assert_allclose(batch["positions"][atoms], group["coords"][frame] * scale, rtol=1e-6)
                np.testing.assert_allclose(batch["forces"][atoms], group["forces"][frame] * KCAL, rtol=1e-6)
                np.testing.assert_array_equal(batch["atomic_numbers"][atoms], file[one.domain]["z"][()])
                assert batch["rmsd"][row] == group["rmsd"][frame] and batch["temperature"][row] == one.temperature
    assert sorted(seen) == list(range(len(frames)))


@pytest.mark.parametrize("of_catalogue", [False, True])
def test_units_of_labels_are_those_of_the_file(folder: Path, tmp_path: Path, of_catalogue: bool) -> None:
    path = folder / "mdcath_dataset_1abcA00.h5"
    listed: Any = mdcath(path, temperature=320)
    if of_catalogue:
        listed = kn.ml.Catalogue(kn.ml.make_catalogue(path, tmp_path / "m.kinema-catalogue").path)
    frames = FrameDataset(listed, fields=["positions", "rmsd", "gyrationRadius", "temperature"])
    assert frames.label_units == {"rmsd": "nm", "gyrationRadius": "nm", "temperature": "K"}
    with h5py.File(path) as file:
        assert frames.read([2])["rmsd"][0] == file["1abcA00/320/0/rmsd"][2]


def test_pairs_and_splits_by_domain(folder: Path) -> None:
    listed = mdcath(folder, temperature=320, replica=[0, 4])
    assert len(FrameDataset(listed, lag=2000)) == 3 * (3 + 7)
    frames = FrameDataset(listed)
    split = split_by_trajectory(frames, {"train": 0.67, "test": 0.33}, groups=[one.domain for one in listed])
    domain = np.repeat([one.domain for one in listed], np.diff(frames.bounds))
    train, test = (set(domain[split.of(frames, part).ids]) for part in ("train", "test"))
    assert train and test and not train & test


def test_labels_that_are_claimed_are_not_read(tmp_path: Path) -> None:
    """12 kB whose labels would be 80 GB."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        domain = file.create_group("1abcA00")
        domain.attrs["numProteinAtoms"] = 4
        domain["z"] = np.arange(4)
        replica = domain.create_group("320/0")
        replica.create_dataset("coords", (10**10, 4, 3), "f4", chunks=(1, 4, 3))
        replica.create_dataset("rmsd", (10**10,), "f8", chunks=(1024,))
    (one,) = kn.ml.mdcath(tmp_path / "a.h5")
    with pytest.raises(kn.CorruptFileError, match="rmsd claims 80000000000 bytes, but only 0 bytes are stored"):
        one.labels()
    with pytest.raises(kn.CorruptFileError, match="coords claims 10000000000 rows, but only 0 bytes are stored"):
        one.open()
