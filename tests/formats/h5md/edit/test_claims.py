"""Small H5MD files that claim much: what was never written is not gone through, and depth is no limit."""

from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.errors import CorruptFileError
from kinema.formats.hdf5.copying import _Copy
from kinema.testing.h5md_files.building import add_element, start_h5md

STEPS = np.arange(5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An H5MD file of four atoms."""
    with h5py.File(tmp_path / "a.h5md", "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", np.ones((5, 4, 3), "f4"), steps=STEPS, times=STEPS * 0.5, unit="nm")
    return tmp_path / "a.h5md"


@pytest.mark.parametrize("chunks", [None, (1024,), (16,)])
@pytest.mark.parametrize("place", ["observables/o", "parameters/p"])
def test_what_was_never_written_is_not_gone_through(path: Path, chunks: tuple[int, ...] | None, place: str) -> None:
    """10^12 numbers would be 8 TB."""
    with h5py.File(path, "r+") as file:
        value = file.create_dataset(place, (10**12,), "f8", chunks=chunks, fillvalue=2.5)
        if chunks:
            value[5] = 7.0
    out = path.with_name("out.h5md")
    assert kn.repack(path, out).verified
    with h5py.File(out) as file:
        copy = file[place]
        assert copy.shape == (10**12,) and copy[10**11] == 2.5 and copy[5] == (7.0 if chunks else 2.5)
    assert kn.layout_of(path).groups[0].n_atoms == 4


def test_a_virtual_data_set_of_nothing_is_refused(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        layout = h5py.VirtualLayout((10**9,), "f8")
        layout[:5] = h5py.VirtualSource(".", "particles/all/position/time", shape=(5,))
        file.create_virtual_dataset("observables/o", layout)
    with pytest.raises(CorruptFileError, match="/observables/o claims 8000000000 bytes"):
        kn.repack(path, path.with_name("out.h5md"))


def test_atoms_that_are_claimed_are_not_counted_one_by_one(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        position = file["particles/all/position"]
        del position["value"]
        chunks = (1, 1000, 3)
        value = position.create_dataset("value", (5, 300_000_000, 3), "f4", chunks=chunks, compression="gzip")
        value.attrs["unit"] = "nm"
        value[0, :10] = 1.0
    (group,) = kn.layout_of(path).groups
    assert group.n_atoms == 300_000_000 and group.fields[0].amplification == {}


def test_groups_are_copied_however_deeply_they_are_nested(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        group = file.create_group("parameters")
        for _ in range(1500):
            group = group.create_group("g")
        group.attrs["depth"] = 1500
    out = path.with_name("out.h5md")
    kn.repack(path, out)
    with h5py.File(out) as file:
        assert file["parameters" + "/g" * 1500].attrs["depth"] == 1500
    assert len(kn.open(out)) == 5


def test_only_what_holds_references_stays_open(path: Path) -> None:
    """An open data set takes some 15 kB: 30,000 scalars took almost a GB."""
    with h5py.File(path, "r+") as file:
        for number in range(100):
            file[f"parameters/s{number}"] = float(number)
        file["parameters"].attrs["one"] = file["parameters/s1"].ref
    with h5py.File(path) as source, h5py.File(path.with_name("out.h5md"), "w") as target:
        copy = _Copy(source, target, lambda *_: None, ())
        copy.members(source["/"], target["/"])
        assert [one.name for one, _ in copy.pairs] == ["/parameters"]
        copy.references()
        assert target[target["parameters"].attrs["one"]][()] == 1.0
