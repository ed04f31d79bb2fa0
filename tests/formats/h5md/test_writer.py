"""Files that `kinema.Writer` makes: their structure as the specification has it, their values, and what is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.storage.hdf5.filters import COMPRESSIONS
from kinema.testing import random_walk

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

Arrays = dict[str, Any]


def frames(n: int = 7, n_atoms: int = 5) -> Arrays:
    """A block with all that a frame can have, at a constant stride."""
    cells = np.tile(np.diag([30.0, 31.0, 32.0]).astype(np.float32), (n, 1, 1))
    cells[:, 1, 0] = np.arange(n)
    return {
        "positions": random_walk(n, n_atoms),
        "velocities": random_walk(n, n_atoms, seed=1),
        "forces": random_walk(n, n_atoms, seed=2),
        "cell": cells,
        "step": 500 * np.arange(n) + 1000,
        "time": 2.5 * np.arange(n) + 5.0,
    }


def write(path: Path, given: Arrays, **options: Any) -> Path:
    n_atoms = np.shape(next(iter(given.values())))[-2]
    with kn.Writer(path, n_atoms, **options) as out:
        out.write(given.get("positions"), **{name: value for name, value in given.items() if name != "positions"})
    return path


def text(value: Any) -> str:
    assert isinstance(value, bytes)  # of fixed length
    return value.decode("ascii")


# structure


def check_element(element: Any, length: int) -> None:
    """Time-dependent data as the specification has them, explicit or fixed."""
    value, step, time_ = element["value"], element["step"], element.get("time")
    assert len(value) == length
    assert step.dtype.kind in "iu" and step.shape in ((), (length,))
    if step.shape:
        assert (np.diff(step[:]) > 0).all()
    if time_ is not None:
        assert time_.dtype.kind in "fiu" and time_.shape == step.shape
        if time_.shape:
            assert (np.diff(time_[:]) >= 0).all()
        text(time_.attrs["unit"])
    for dataset in (step, time_):
        if dataset is not None and dataset.shape == () and "offset" in dataset.attrs:
            offset = dataset.attrs["offset"]
            assert np.shape(offset) == () and offset.dtype == dataset.dtype


def check_conforms(path: Path) -> None:
    """The duties of the H5MD specification 1.1 and of its units module 1.0."""
    with h5py.File(path) as h5:
        assert h5.id.get_create_plist().get_version()[0] == 2  # the file format that is recommended
        np.testing.assert_array_equal(h5["h5md"].attrs["version"], [1, 1])
        assert text(h5["h5md/author"].attrs["name"])
        assert text(h5["h5md/creator"].attrs["name"]) and text(h5["h5md/creator"].attrs["version"])
        np.testing.assert_array_equal(h5["h5md/modules/units"].attrs["version"], [1, 0])
        assert text(h5["h5md/modules/units"].attrs["system"]) == "SI"
        for group in h5["particles"].values():
            box = group["box"]
            dimension = box.attrs["dimension"]
            assert np.shape(dimension) == () and dimension == 3
            boundary = [text(word) for word in box.attrs["boundary"]]
            assert len(boundary) == 3 and set(boundary) <= {"periodic", "none"}
            assert "edges" in box or boundary == ["none"] * 3
            vectors = [group[name] for name in ("position", "velocity", "force") if name in group]
            n_frames, n_atoms, _ = vectors[0]["value"].shape
            for vector in vectors:
                assert vector["value"].shape[1:] == (n_atoms, 3)
                text(vector["value"].attrs["unit"])
                check_element(vector, n_frames)
            if isinstance(box.get("edges"), h5py.Group):
                check_element(box["edges"], n_frames)
                assert box["edges/step"] == vectors[0]["step"]  # the same object
                assert box["edges"].get("time") == vectors[0].get("time")
            for name in ("mass", "charge", "species", "id"):
                assert name not in group or group[name].shape == (n_atoms,)
            if "id" in group:
                assert len(np.unique(group["id"])) == n_atoms
        for tuples in h5.get("connectivity", {}).values():
            assert tuples.dtype.kind in "iu" and tuples.ndim == 2
            assert h5[tuples.attrs["particles_group"]].name in {g.name for g in h5["particles"].values()}

        def check_observable(name: str, item: Any) -> None:
            if isinstance(item, h5py.Group) and "value" in item:
                check_element(item, len(item["value"]))

        if "observables" in h5:
            h5["observables"].visititems(check_observable)


WRITTEN: dict[str, tuple[tuple[str, ...], Arrays]] = {
    "all fields": (tuple(frames()), {}),
    "positions alone": (("positions",), {}),
    "velocities alone, with a cell": (("velocities", "cell"), {}),
    "no times": (("positions", "step", "cell"), {}),
    "fixed cell": (("positions", "time"), {"cell": [30, 31, 32]}),
    "partly periodic": (("positions", "cell"), {"boundary": ["periodic", "periodic", "none"]}),
    "other units": (tuple(frames()), {"length_unit": "nm", "time_unit": "fs"}),
    "zstd": (tuple(frames()), {"compression": "zstd"}),
    "contiguous": (tuple(frames()), {"layout": "contiguous", "n_frames": 7}),
    "append": (tuple(frames()), {"mode": "a"}),
    "topology": (
        ("positions",),
        {
            "masses": [1, 2, 3, 4, 5],
            "charges": [0.5, 0, 0, 0, -0.5],
            "species": ["C", "H", "H", "H", "N"],
            "ids": [7, 3, 1, 9, 12],
            "bonds": [[0, 1], [0, 4]],
        },
    ),
}


@pytest.mark.parametrize(("names", "options"), WRITTEN.values(), ids=WRITTEN.keys())
@pytest.mark.parametrize("irregular", [False, True], ids=["constant stride", "irregular steps"])
def test_conforms_to_the_specification(tmp_path: Path, names: Any, options: Arrays, irregular: bool) -> None:
    given = {name: value for name, value in frames().items() if name in names}
    if irregular and "step" in given:
        given["step"] = given["step"] ** 2
    path = tmp_path / "out.h5md"
    with kn.Writer(path, 5, **options) as out:
        out.write(given.get("positions"), **{name: value for name, value in given.items() if name != "positions"})
        out.add_observable("energies/total", unit="kJ mol-1")
        out.write_observable("energies/total", 1.0)
        out.add_observable("constant", [1, 2, 3])
    check_conforms(path)


def test_fixed_storage_where_the_stride_is_constant(tmp_path: Path) -> None:
    given = frames()
    with h5py.File(write(tmp_path / "fixed.h5md", given)) as h5:
        position = h5["particles/trajectory/position"]
        assert (position["step"][()], position["step"].attrs["offset"]) == (500, 1000)
        assert (position["time"][()], position["time"].attrs["offset"]) == (2.5, 5.0)
        assert position["step"].dtype == np.int64 and position["time"].dtype == np.float64
        assert text(position["time"].attrs["unit"]) == "ps"
        for element in ("velocity", "force", "box/edges"):
            assert h5[f"particles/trajectory/{element}/step"] == position["step"]
            assert h5[f"particles/trajectory/{element}/time"] == position["time"]


@pytest.mark.parametrize(
    ("steps", "times"),
    [
        ([0, 1, 2, 4], None),
        ([0, 2, 4, 6], [0.0, 1.0, 2.0, 3.5]),
        # float32 numbers, which are not multiples of the first
        ([0, 1, 2, 3], np.arange(4, dtype=np.float32) / np.float32(10)),
        ([5], [0.1]),
        ([-(2**62), 2**62], [0.0, 1e300]),
    ],
)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_explicit_storage_keeps_steps_and_times(tmp_path: Path, steps: Any, times: Any, one_by_one: bool) -> None:
    path = tmp_path / "steps.h5md"
    n = len(steps)
    positions = random_walk(n, 3)
    with kn.Writer(path, 3) as out:
        if one_by_one:
            for i in range(n):
                out.write(positions[i], step=steps[i], time=None if times is None else times[i])
        else:
            out.write(positions, step=steps, time=times)
    with h5py.File(path) as h5:
        position = h5["particles/trajectory/position"]
        if position["step"].shape == ():
            found = np.arange(n) * position["step"][()] + position["step"].attrs["offset"]
            found_times = np.arange(n) * position["time"][()] + position["time"].attrs["offset"]
        else:
            assert position["step"].chunks[0] >= 1024
            found, found_times = position["step"][:], position["time"][:] if times is not None else None
        np.testing.assert_array_equal(found, steps)
        if times is None:
            assert "time" not in position
        else:
            np.testing.assert_array_equal(found_times, np.asarray(times, np.float64))


def test_a_stride_that_ends_late(tmp_path: Path) -> None:
    n = 10_000
    steps = np.arange(n) * 10
    steps[-1] += 1
    path = write(tmp_path / "late.h5md", {"positions": random_walk(n, 1), "step": steps, "time": np.arange(n) * 0.1})
    with h5py.File(path) as h5:
        np.testing.assert_array_equal(h5["particles/trajectory/position/step"], steps)
        np.testing.assert_array_equal(h5["particles/trajectory/position/time"], np.arange(n) * 0.1)


def test_small_things_lie_in_headers(tmp_path: Path) -> None:
    path = write(tmp_path / "small.h5md", {"positions": random_walk(2, 5)}, masses=np.ones(5), cell=[10, 10, 10])
    with h5py.File(path) as h5:
        for name in ("mass", "box/edges"):
            layout = h5[f"particles/trajectory/{name}"].id.get_create_plist().get_layout()
            assert layout == h5py.h5d.COMPACT
        np.testing.assert_array_equal(h5["particles/trajectory/box/edges"], np.diag([10.0, 10, 10]))
    large = write(tmp_path / "large.h5md", {"positions": random_walk(1, 9000)}, masses=np.arange(9000.0))
    with h5py.File(large) as h5:
        np.testing.assert_array_equal(h5["particles/trajectory/mass"], np.arange(9000.0))


# values

LAYOUTS: dict[str, Arrays] = {
    "frames": {},
    "atoms": {"layout": "atoms", "chunk_bytes": 200},
    "explicit": {"layout": (3, 2, 2)},
    "contiguous": {"layout": "contiguous", "n_frames": 50},
    **{name: {"compression": name, "chunk_bytes": 600} for name in COMPRESSIONS},
    **{f"{name}, explicit": {"compression": name, "layout": (3, 2, 2)} for name in COMPRESSIONS},
    "gzip 9": {"compression": "gzip", "level": 9},
    "aligned": {"align": 8192, "layout": (200, 5, 3)},
}


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("workers", [1, 3])
def test_values_are_kept_bit_for_bit(tmp_path: Path, options: Arrays, workers: int) -> None:
    given = frames(50)
    given["positions"][3, 2] = np.nan, np.inf, -0.0
    path = tmp_path / "values.h5md"
    with kn.Writer(path, 5, workers=workers, **options) as out:
        start = 0
        for n in (1, 0, 1, 30, 3, 15):  # frames one by one and in blocks of all lengths
            part = {name: values[start : start + n] for name, values in given.items()}
            if n == 1:
                part = {name: values[0] for name, values in part.items()}
            out.write(part.pop("positions"), **part)
            start += n
            assert out.n_frames == start
    with h5py.File(path) as h5:
        for name, element in (("positions", "position"), ("velocities", "velocity"), ("forces", "force")):
            found = h5[f"particles/trajectory/{element}/value"][:]
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found.view(np.uint32), given[name].view(np.uint32))
        np.testing.assert_array_equal(h5["particles/trajectory/box/edges/value"], given["cell"])


@pytest.mark.parametrize("dtype", ["float16", "float32", ">f4", "float64", "int16", "uint8"])
@pytest.mark.parametrize("stored", ["float32", "float64"])
def test_types_of_numbers(tmp_path: Path, dtype: str, stored: str) -> None:
    positions = np.abs(random_walk(4, 5) * 3).astype(dtype)
    path = write(tmp_path / "types.h5md", {"positions": positions}, dtype=stored)
    with h5py.File(path) as h5:
        value = h5["particles/trajectory/position/value"]
        assert value.dtype == np.dtype(stored)
        np.testing.assert_array_equal(value, positions.astype(stored))


def test_views_and_lists(tmp_path: Path) -> None:
    wide = random_walk(8, 10)
    with kn.Writer(tmp_path / "views.h5md", 5) as out:
        out.write(wide[::2, ::2])
        out.write(wide[1, 5:].tolist())
        out.write(np.asfortranarray(wide[2:4, :5]))
    with h5py.File(tmp_path / "views.h5md") as h5:
        expected = np.concatenate([wide[::2, ::2], wide[1:2, 5:], wide[2:4, :5]])
        np.testing.assert_array_equal(h5["particles/trajectory/position/value"], expected)


@pytest.mark.parametrize(
    ("length", "time_", "texts"),
    [
        ("angstrom", "ps", ("Angstrom", "Angstrom ps-1", "kJ mol-1 Angstrom-1", "ps")),
        ("nm", "ps", ("nm", "nm ps-1", "kJ mol-1 nm-1", "ps")),
        ("pm", "fs", ("pm", "pm fs-1", "kJ mol-1 pm-1", "fs")),
        ("nm", "ns", ("nm", "nm ns-1", "kJ mol-1 nm-1", "ns")),
    ],
)
def test_units_of_the_file(tmp_path: Path, length: str, time_: str, texts: tuple[str, ...]) -> None:
    given = frames()
    # factors from the units of the file to angstrom and ps, written down once more
    a, ps = {"angstrom": 1.0, "nm": 10.0, "pm": 0.01}[length], {"ps": 1.0, "fs": 0.001, "ns": 1000.0}[time_]
    path = write(tmp_path / "units.h5md", given, length_unit=length, time_unit=time_)
    with h5py.File(path) as h5:
        group = h5["particles/trajectory"]
        names = ("position/value", "velocity/value", "force/value", "position/time")
        assert tuple(text(group[name].attrs["unit"]) for name in names) == texts
        assert text(group["box/edges/value"].attrs["unit"]) == texts[0]
        for name, factor, expected in (
            ("position/value", a, given["positions"]),
            ("velocity/value", a / ps, given["velocities"]),
            ("force/value", 1 / a, given["forces"]),
            ("box/edges/value", a, given["cell"]),
        ):
            np.testing.assert_allclose(group[name][:] * factor, expected, rtol=3e-7)
        step_time = group["position/time"]
        if step_time.shape == ():
            times = step_time[()] * np.arange(7) + step_time.attrs["offset"]
        else:
            times = step_time[:]
        np.testing.assert_allclose(times * ps, given["time"], rtol=1e-14)


def test_frames_and_blocks_of_kinema(tmp_path: Path, small: kn.Trajectory) -> None:
    path = tmp_path / "copied.h5md"
    with kn.Writer(path, small.n_atoms) as out:
        block = next(iter(small.blocks()))
        out.write(block[0])
        for frame in list(block)[1:3]:
            out.write(frame)
        for more in small.blocks(frames=slice(3, None)):
            out.write(more)
        assert out.n_frames == len(small)
        with pytest.raises(kn.ArgumentError, match="a Frame is written with all it has"):
            out.write(block[0], step=1)
    with h5py.File(path) as h5:
        np.testing.assert_array_equal(h5["particles/trajectory/position/value"], small.read())


def test_layouts_by_name(tmp_path: Path) -> None:
    def chunks(n_atoms: int, n: int = 200, **options: Any) -> Any:
        path = tmp_path / "layout.h5md"
        with kn.Writer(path, n_atoms, overwrite=True, **options) as out:
            out.write(np.zeros((n, n_atoms, 3), np.float32))
        with h5py.File(path) as h5:
            return h5["particles/trajectory/position/value"].chunks

    assert chunks(3341) == (26, 3341, 3)  # about 1 MiB
    assert chunks(3341, dtype="float64") == (13, 3341, 3)
    assert chunks(100_000, n=2) == (1, 100_000, 3)
    assert chunks(3341, n_frames=200, chunk_bytes=1 << 24) == (200, 3341, 3)
    assert chunks(3341, n=3) == (3, 3341, 3)  # not longer than the trajectory
    frames_, atoms, components = chunks(3341, n_frames=200, layout="atoms")
    assert frames_ == 200 and components == 3 and 400 < atoms < 440
    assert chunks(100, n=5, layout="atoms", chunk_bytes=4096 * 12 * 7) == (5, 7, 3)
    assert chunks(100, layout=(5, 20, 1)) == (5, 20, 1)
    assert chunks(100, layout="contiguous", n_frames=200) is None


def test_chunks_are_aligned(tmp_path: Path) -> None:
    given = {"positions": random_walk(60, 500)}
    for align in (4096, 65536):
        path = write(tmp_path / f"{align}.h5md", given, align=align, layout=(10, 500, 3))
        with h5py.File(path) as h5:
            value = h5["particles/trajectory/position/value"].id
            found = [value.get_chunk_info(i).byte_offset for i in range(value.get_num_chunks())]
            assert len(found) == 6 and all(offset % align == 0 for offset in found)
    path = write(tmp_path / "contiguous.h5md", given, align=65536, layout="contiguous", n_frames=60)
    with h5py.File(path) as h5:
        assert h5["particles/trajectory/position/value"].id.get_offset() % 65536 == 0


@pytest.mark.parametrize(
    ("options", "filters"),
    [
        ({}, []),
        ({"compression": "gzip"}, [(2, (4,)), (1, (1,))]),
        ({"compression": "gzip", "level": 9}, [(2, (4,)), (1, (9,))]),
        ({"compression": "zstd", "level": 7}, [(2, (4,)), (32015, (7,))]),
        ({"compression": "lz4"}, [(2, (4,)), (32004, (0,))]),
        ({"compression": "bitshuffle-lz4"}, [(32008, (0, 4, 4, 0, 2))]),
        ({"compression": "bitshuffle-zstd", "level": 5}, [(32008, (0, 4, 4, 0, 3, 5))]),
    ],
)
def test_filters_of_the_file(tmp_path: Path, options: Arrays, filters: Any) -> None:
    with h5py.File(write(tmp_path / "filters.h5md", {"positions": random_walk(3, 5)}, **options)) as h5:
        plist = h5["particles/trajectory/position/value"].id.get_create_plist()
        found = [plist.get_filter(i) for i in range(plist.get_nfilters())]
        assert [(code, values) for code, _, values, _ in found] == filters


# topology and observables


def test_topology_given_singly(tmp_path: Path) -> None:
    options = WRITTEN["topology"][1]
    with h5py.File(write(tmp_path / "top.h5md", {"positions": random_walk(1, 5)}, particles="sys", **options)) as h5:
        group = h5["particles/sys"]
        np.testing.assert_array_equal(group["mass"], [1, 2, 3, 4, 5])
        np.testing.assert_array_equal(group["charge"], [0.5, 0, 0, 0, -0.5])
        assert (text(group["mass"].attrs["unit"]), text(group["charge"].attrs["unit"])) == ("u", "e")
        names = {value: name for name, value in h5py.check_enum_dtype(group["species"].dtype).items()}
        assert [names[value] for value in group["species"][:]] == ["C", "H", "H", "H", "N"]
        np.testing.assert_array_equal(group["id"], [7, 3, 1, 9, 12])
        # tuples are made of identifiers if there are any
        np.testing.assert_array_equal(h5["connectivity/bonds"], [[7, 3], [7, 12]])
        assert h5[h5["connectivity/bonds"].attrs["particles_group"]] == group


def test_species_are_numbers_or_names(tmp_path: Path) -> None:
    def written(species: Any) -> Any:
        path = tmp_path / "species.h5md"
        with h5py.File(write(path, {"positions": random_walk(1, 3)}, species=species, overwrite=True)) as h5:
            stored = h5["particles/trajectory/species"]
            names = {value: name for name, value in (h5py.check_enum_dtype(stored.dtype) or {}).items()}
            return [names.get(value, value) for value in stored[:].tolist()]

    assert written([6, 1, 8]) == [6, 1, 8]
    assert written(["C", "H", "O"]) == ["C", "H", "O"]
    assert written(np.array(["C", "H", "O"], dtype=object)) == ["C", "H", "O"]


def test_topology_from_mdanalysis(tmp_path: Path, adk_dcd: Any) -> None:
    import MDAnalysis

    universe = MDAnalysis.Universe(adk_dcd.topology)
    atoms = universe.select_atoms("resid 5:40 and not name H*")
    path = tmp_path / "atoms.h5md"
    write(path, {"positions": random_walk(1, atoms.n_atoms)}, topology=atoms, charges=np.zeros(atoms.n_atoms))
    with h5py.File(path) as h5:
        group = h5["particles/trajectory"]
        np.testing.assert_array_equal(group["mass"], atoms.masses)
        np.testing.assert_array_equal(group["charge"], 0)  # what is given singly goes first
        names = {value: name for name, value in h5py.check_enum_dtype(group["species"].dtype).items()}
        assert [names[value] for value in group["species"][:]] == list(atoms.types)
        inside = [bond for bond in atoms.bonds.indices.tolist() if set(bond) <= set(atoms.indices.tolist())]
        np.testing.assert_array_equal(h5["connectivity/bonds"], universe.atoms.ids[inside])
    whole = write(tmp_path / "whole.h5md", {"positions": random_walk(1, 3341)}, topology=adk_dcd.topology)
    with h5py.File(whole) as h5:
        np.testing.assert_array_equal(h5["connectivity/bonds"], universe.atoms.ids[universe.bonds.indices])
        np.testing.assert_array_equal(h5["particles/trajectory/charge"], universe.atoms.charges)


def test_observables(tmp_path: Path) -> None:
    path = tmp_path / "observables.h5md"
    with kn.Writer(path, 3, time_unit="fs") as out:
        out.add_observable("temperature", unit="K", dtype="float32")
        out.add_observable("stress/tensor", shape=(3, 3), unit="bar")
        out.add_observable("volume", 27.5, unit="nm+3")
        with pytest.raises(kn.ArgumentError, match="step is needed"):
            out.write_observable("temperature", 300)
        for i in range(4):
            out.write(random_walk(1, 3)[0], step=10 * i, time=20.0 * i)
            out.write_observable("temperature", 300 + i)
        out.write_observable("stress/tensor", np.ones((2, 3, 3)), step=[3, 5])
        out.write_observable("stress/tensor", np.zeros((3, 3)), step=11)
        with pytest.raises(kn.ArgumentError, match="step of stress/tensor must rise"):
            out.write_observable("stress/tensor", np.zeros((3, 3)), step=11)
        with pytest.raises(kn.ArgumentError, match=r"values of shape \(2,\), expected \(3, 3\)"):
            out.write_observable("stress/tensor", [1, 2], step=12)
        with pytest.raises(kn.ArgumentError, match="has times for all of its rows or for none"):
            out.write_observable("stress/tensor", np.zeros((3, 3)), step=12, time=1.0)
        with pytest.raises(kn.ArgumentError, match="observable pressure is unknown"):
            out.write_observable("pressure", 1)
        with pytest.raises(kn.ArgumentError, match="added already"):
            out.add_observable("temperature")
        with pytest.raises(kn.ArgumentError, match="is in the file already"):
            out.add_observable("volume", 1.0)
        with pytest.raises(kn.ArgumentError, match="stress is a group of observables"):
            out.add_observable("stress")
        with pytest.raises(kn.ArgumentError, match="temperature is an observable"):
            out.add_observable("temperature/mean", 1.0)
        with pytest.raises(kn.ArgumentError, match="name of an observable is a word"):
            out.add_observable("a//b")
        with pytest.raises(kn.ArgumentError, match="shape of observable name has whole numbers from 1 on"):
            out.add_observable("name", shape=(3, 0))
        with pytest.raises(kn.ArgumentError, match="observable name has type"):
            out.add_observable("name", dtype=str)
    check_conforms(path)
    with h5py.File(path) as h5:
        observables = h5["observables"]
        np.testing.assert_array_equal(observables["temperature/value"], [300, 301, 302, 303])
        assert observables["temperature/value"].dtype == np.float32
        assert (observables["temperature/step"][()], observables["temperature/time"][()]) == (10, 20000)
        np.testing.assert_array_equal(observables["stress/tensor/step"], [3, 5, 11])
        assert observables["stress/tensor/value"].shape == (3, 3, 3)
        assert observables["volume"][()] == 27.5 and text(observables["volume"].attrs["unit"]) == "nm+3"


def test_empty_trajectories(tmp_path: Path) -> None:
    with kn.Writer(tmp_path / "empty.h5md", 5, fields=["positions", "forces"]):
        pass
    check_conforms(tmp_path / "empty.h5md")
    with h5py.File(tmp_path / "empty.h5md") as h5:
        assert set(h5["particles/trajectory"]) == {"box", "position", "force"}
        assert h5["particles/trajectory/force/value"].shape == (0, 5, 3)


def test_positions_that_are_no_numbers_are_noted_once(tmp_path: Path) -> None:
    large, wrong = np.full((2, 5, 3), 3e38, np.float32), random_walk(4, 5)
    wrong[1, 3, 2] = np.inf
    wrong[2:] = np.nan
    with kn.Writer(tmp_path / "out.h5md", 5) as out:
        out.write(large)
        with pytest.warns(kn.Note, match=r"out\.h5md: frame 3 has positions that are not numbers") as noted:
            out.write(wrong)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            out.write(wrong)
    assert len(noted) == 1
    with h5py.File(tmp_path / "out.h5md") as h5:
        written = h5["particles/trajectory/position/value"][()]
    np.testing.assert_array_equal(written, np.concatenate([large, wrong, wrong]))
    # of one that grows the frames that are there count
    with kn.Writer.append(tmp_path / "out.h5md") as out, pytest.warns(kn.Note, match="frame 10 has positions"):
        out.write(wrong[2])


@pytest.mark.parametrize("fixed", [False, True])
def test_values_in_the_units_of_the_file(tmp_path: Path, fixed: bool) -> None:
    given = frames()
    options: Arrays = {"length_unit": "nm", "time_unit": "fs", "native": True}
    if fixed:
        options["cell"] = np.diag([3.0, 4.0, 5.0])
        del given["cell"]
    path = write(tmp_path / "out.h5md", given, **options)
    with h5py.File(path) as h5:
        group = h5["particles/trajectory"]
        for element, name in (("position", "positions"), ("velocity", "velocities"), ("force", "forces")):
            np.testing.assert_array_equal(group[element]["value"], given[name])
        np.testing.assert_array_equal(
            group["box/edges"] if fixed else group["box/edges/value"], options.get("cell", given.get("cell"))
        )
        assert (group["position/time"][()], group["position/time"].attrs["offset"]) == (2.5, 5.0)
    # frames that were flushed, and later ones
    later = {**given, "step": given["step"] + 10**6, "time": given["time"] + 10**6}
    with kn.Writer(path, mode="a", native=True, **({"cell": options["cell"]} if fixed else {})) as out:
        out.write(later.pop("positions"), **later)
        out.flush()
    with h5py.File(path) as h5:
        np.testing.assert_array_equal(h5["particles/trajectory/force/value"][7:], given["forces"])
        np.testing.assert_array_equal(h5["particles/trajectory/force/time"][7:], later["time"])
    # in Kinema's own units they are what they would be without
    np.testing.assert_allclose(kn.open(path, stored=False).read()[:7], 10 * given["positions"], rtol=1e-6)


def test_provenance_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "out.h5md", frames(), provenance='{"made": "of é"}')
    check_conforms(path)
    with h5py.File(path) as h5:
        assert h5["parameters/kinema/provenance"][()].decode() == '{"made": "of é"}'
    with h5py.File(write(tmp_path / "other.h5md", frames())) as h5:
        assert "parameters" not in h5


@pytest.mark.parametrize("keep", [False, True])
def test_a_check_before_the_file_has_its_name(tmp_path: Path, keep: bool) -> None:
    path, seen = tmp_path / "out.h5md", []

    def check(temporary: str) -> None:
        seen.append((path.exists(), kn.open(temporary, stored=False).n_frames))

    with kn.Writer(path, 5, keep_partial=keep) as out:
        out.write(random_walk(3, 5))
        out.close(check=check)
    assert seen == [(False, 3)]
    assert [one.name for one in tmp_path.iterdir()] == ["out.h5md"]

    def refuse(temporary: str) -> None:
        raise kn.CorruptFileError("not as it should be")

    out = kn.Writer(path, 5, keep_partial=keep, overwrite=True)
    out.write(random_walk(4, 5))
    with pytest.raises(kn.CorruptFileError, match="not as it should be"):
        out.close(check=refuse)
    assert kn.open(path, stored=False).n_frames == 3
    # whole, and if it is to be kept, under a temporary name
    assert len(list(tmp_path.glob("out.part-*"))) == keep
