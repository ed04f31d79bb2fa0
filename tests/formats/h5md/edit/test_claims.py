"""Small H5MD files that claim much: data that were never written are skipped, and depth is not a limit."""

import os
import subprocess
import sys
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pytest

import kinema as kn
from kinema.base.errors import ArgumentError, CorruptFileError, Error
from kinema.files.h5md.transfer import _tiles
from kinema.formats.h5md.schema import NAMES, TABLE
from kinema.storage.hdf5 import virtual
from kinema.storage.hdf5.copying import _Copy
from kinema.storage.hdf5.storage import Storage
from kinema.testing.h5md_files.building import add_element, particles_all

STEPS = np.arange(5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An H5MD file of four atoms."""
    with particles_all(tmp_path / "a.h5md") as group:
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
        value = position.create_dataset("value", (5, 20_000_000, 3), "f2", chunks=chunks, compression="gzip")
        value.attrs["unit"] = "nm"
        value[0, :10] = 1.0
    (group,) = kn.layout_of(path).groups
    assert group.n_atoms == 20_000_000 and group.fields[0].amplification == {}


@pytest.mark.parametrize("how", ["chunks", "virtual", "never written"])
def test_a_frame_that_is_claimed_is_refused_before_it_is_held(path: Path, how: str) -> None:
    """18 GB of memory for 41 bytes, and as many indices of atoms: the kernel killed the process."""
    shape = (5, 1_500_000_000, 3)
    with h5py.File(path, "r+") as file:
        position = file["particles/all/position"]
        position.move("value", "written")
        if how == "virtual":
            layout = h5py.VirtualLayout(shape, "f4")
            layout[:, :4] = h5py.VirtualSource(".", "particles/all/position/written", shape=(5, 4, 3))
            value = position.create_virtual_dataset("value", layout)
        else:
            value = position.create_dataset("value", shape, "f4", chunks=(1, 1000, 3), compression="gzip")
            if how != "never written":
                value[0, :10] = 1.0
        value.attrs["unit"] = "nm"
    never = ArgumentError, "particles/all holds no positions"
    claimed = CorruptFileError, ".*/value claims 18000000000 bytes, but only"
    kind, expected = never if how == "never written" else claimed
    with pytest.raises(kind, match=f"{path}: .*{expected}"):
        kn.open(path)
    out = path.with_name("out.h5md")
    with pytest.raises(Error, match=f"{path}: .*value"):
        kn.repack(path, out)
    assert not out.exists()


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_values_that_are_all_alike_are_no_damage(path: Path, compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zstandard stores velocities of nothing in far less than gzip could."""
    monkeypatch.setattr(virtual, "_FREE_VALUES", 1 << 16)
    shape = (5, 500_000, 3)
    with h5py.File(path, "r+") as file:
        group = file["particles/all"]
        del group["position"]
        add_element(group, "position", np.zeros(shape, "f4"), steps=STEPS, times=STEPS * 0.5, unit="nm")
    out = path.with_name("out.h5md")
    kn.repack(path, out, compression=compression)
    with h5py.File(out) as file:
        stored = file["particles/all/position/value"].id.get_storage_size()
        assert (5 * 6_000_000 > 1100 * stored) == (compression == "zstd")
    trajectory = kn.open(out)
    assert len(trajectory) == 5 and not trajectory[4].positions.any()
    kn.repack(out, path.with_name("again.h5md"))


def test_rows_of_what_is_mostly_unwritten_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation has taken room for far more rows than it has written."""
    monkeypatch.setattr(virtual, "_FREE_VALUES", 1 << 16)
    with h5py.File(path, "r+") as file:
        value = file.create_group("observables/energy").create_dataset("value", (10**4, 10**4), "f8", chunks=(1, 1024))
        value[:5, 0] = STEPS
        file["observables/energy/step"] = file["particles/all/position/step"]
        file["observables/energy/time"] = file["particles/all/position/time"]
    assert kn.open(path).observables["energy"].read()[:, 0].tolist() == STEPS.tolist()


def test_tiles_are_of_few_chunks_of_the_source() -> None:
    """A million chunks of one tile took libhdf5 14 s in one call, deaf to Ctrl-C."""
    storage = Storage((2_000_000,), np.dtype("f8"), (4096,))
    tiles = list(_tiles(storage, 80 << 20, (2,)))
    assert [stop for _, stop, *_ in tiles[:-1]] == [start for start, *_ in tiles[1:]] and tiles[-1][1] == 2_000_000
    assert all(stop - start == 8192 for start, stop, *_ in tiles[:-1])
    # of whole chunks of the new data set, whatever these hold of the old ones
    assert next(_tiles(Storage((10**6,), np.dtype("f8"), (10**5,)), 80 << 20, (1,)))[1] == 10**5


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


def test_values_that_are_claimed_are_not_read(path: Path) -> None:
    """A row of 80 GB, or a scalar of it, of which nothing was written."""
    with h5py.File(path, "r+") as file:
        file.create_dataset("observables/fixed", (1, 10**10), "f8", chunks=(1, 1000))
        add_element(file["observables"], "wide", np.ones((5, 2)), steps=STEPS, times=STEPS * 0.5, unit="K")
        del file["observables/wide/value"]
        file.create_dataset("observables/wide/value", (5, 10**10), "f8", chunks=(1, 1000))
        file["observables/small"] = 3.0
    observables = kn.open(path).observables
    for name, rows in (("fixed", None), ("wide", 0), ("wide", slice(1, 3))):
        with pytest.raises(CorruptFileError, match=rf"{name}.* claims \d+ bytes, but only 0 bytes are stored"):
            observables[name].read(rows)
    assert observables["small"].read() == 3.0


def test_groups_that_link_to_one_another_are_listed_once(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        groups = [file.create_group(f"observables/g{number}") for number in range(20)]
        for one in groups:
            for number, other in enumerate(groups):
                one[f"l{number}"] = other
        groups[7]["e"] = 2.0
        file["observables/frames"] = file["particles/all"]
    observables = kn.open(path).observables
    assert len(observables) == 2 and [one.read() for one in observables.values() if one.fixed] == [2.0]
    # positions are those of the particles, by whatever other name they are met first
    split = kn.split(path, path.with_name("parts"), parts=2)
    assert sum(len(kn.open(one)) for one in split.paths) == len(STEPS)


@pytest.mark.parametrize("how", ["circle", "numbered circle", "many times", "deep"])
def test_virtual_data_sets_without_end_are_refused(path: Path, how: str) -> None:
    with h5py.File(path, "r+") as file:
        group = file.create_group("parameters")
        group["v0"] = np.ones((8, 4), "f4")
        for number in range(1, {"many times": 8, "deep": 12}.get(how, 1)):
            layout = h5py.VirtualLayout((8, 4), "f4")
            for row in range(8) if how == "many times" else [slice(0, 8)]:
                layout[row] = h5py.VirtualSource(".", f"parameters/v{number - 1}", shape=(8, 4))[row]
            group.create_virtual_dataset(f"v{number}", layout)
        if how == "circle":
            layout = h5py.VirtualLayout((8, 4), "f4")
            layout[:] = h5py.VirtualSource(".", "parameters/c", shape=(8, 4))
            group.create_virtual_dataset("c", layout)
        elif how == "numbered circle":
            options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            space = h5py.h5s.create_simple((5, 4), (h5py.h5s.UNLIMITED, 4))
            space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (1, 4), (1, 4))
            options.set_virtual(space, b".", b"parameters/c%b", h5py.h5s.create_simple((1, 4)))
            h5py.h5d.create(group.id, b"c0", h5py.h5t.IEEE_F32LE, space, options)
    expected = {"many times": "reads others more than", "deep": "without end"}.get(how, "in a circle")
    with pytest.raises(CorruptFileError, match=expected):
        kn.repack(path, path.with_name("out.h5md"), runner="serial")


def test_one_long_name_among_many_is_refused(path: Path) -> None:
    """As many characters for each atom would be 200 GB."""
    n_atoms = 50_000
    with h5py.File(path, "r+") as file:
        position = file["particles/all/position"]
        del position["value"]
        position.create_dataset("value", (5, n_atoms, 3), "f4", chunks=(1, n_atoms, 3), compression="gzip")[0] = 1
        position["value"].attrs["unit"] = "nm"
        group = file["particles/all"]
        group.create_dataset(f"{NAMES['names']}{TABLE}", data=["C", "x" * 1_000_000], dtype=h5py.string_dtype())
        group.create_dataset(NAMES["names"], data=np.zeros(n_atoms, "i4"), compression="gzip")
    with pytest.raises(CorruptFileError, match="a text of 1000000 characters"):
        kn.read_atoms(path)


def test_deeply_nested_json_is_damage(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["conventions"], file.attrs["conventionVersion"] = "Pande", "1.1"
        file["coordinates"] = np.ones((5, 4, 3), "f4")
        file["coordinates"].attrs["units"] = "nanometers"
        file["topology"] = "[" * 100_000
    with pytest.raises(CorruptFileError, match="RecursionError"):
        kn.read_atoms(path)


def test_more_bonds_than_atoms_have_are_not_read(path: Path) -> None:
    """2 kB that stand for 32 MB; 4 MB took 8 GB of memory."""
    with h5py.File(path, "r+") as file:
        file.create_dataset(
            "connectivity/bonds", data=np.zeros((1 << 21, 2), np.int64), chunks=(1 << 18, 2), compression=9
        )
    fault = "/connectivity/bonds has 2097152 tuples, expected at most 1048576 of 4 atoms"
    with pytest.raises(CorruptFileError, match=fault):
        kn.open(path).atoms  # noqa: B018
    with pytest.raises(CorruptFileError, match=fault):
        kn.repack(path, path.with_name("out.h5md"), select=[0, 1])
    # a copy of all atoms reads no bonds as such
    assert kn.repack(path, path.with_name("out.h5md")).verified


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_compressed_bonds_are_read_whatever_was_read_before(path: Path, compression: str) -> None:
    """In a process of its own: the plugins of filters may not have been loaded for other data sets."""
    options = hdf5plugin.Zstd(3) if compression == "zstd" else {"compression": "gzip"}
    with h5py.File(path, "r+") as file:
        file.create_dataset("connectivity/bonds", data=[[0, 1], [2, 3]], chunks=(2, 2), **options)
    code = f"import kinema as kn; print(kn.open({os.fspath(path)!r}).atoms.bonds.tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[[0, 1], [2, 3]]", done.stderr


def test_texts_of_molecules_are_bounded_by_the_atoms(path: Path) -> None:
    """Texts of one length, compressed: 2 MB stood for 2 GB."""
    with h5py.File(path, "r+") as file:
        group = file["particles/all"]
        group[NAMES["names"]] = [0, 1, 0, 1]
        words = np.array([b"CA", b"CB"], "S9000000")
        group.create_dataset(NAMES["names"] + TABLE, data=words, chunks=(1,), compression="gzip")
    with pytest.raises(CorruptFileError, match=f"{TABLE} has 18000000 bytes of names, expected at most 16778240"):
        kn.open(path).atoms  # noqa: B018
    other = path.with_name("mdtraj.h5")
    with h5py.File(other, "w") as file:
        file.attrs["conventions"] = "Pande"
        file["coordinates"] = np.zeros((3, 4, 3), "f4")
        file.create_dataset("topology", data=np.array([b"{}"], "S20000000"), chunks=(1,), compression="gzip")
    with pytest.raises(CorruptFileError, match="topology is a text of 20000000 bytes, expected at most 16793600"):
        kn.open(other).atoms  # noqa: B018
