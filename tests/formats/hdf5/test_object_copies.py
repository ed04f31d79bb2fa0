"""Copies of single HDF5 objects hold what libhdf5's own would, of all types, and damaged ones end no process."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.storage.hdf5.copying import copy_structure
from kinema.storage.hdf5.object_copies import attribute_names, pieces
from kinema.testing.h5md_files.building import add_element, start_h5md

HOSTILE = Path(__file__).parents[2] / "data" / "hostile"
SCRIPT = """
import sys
import kinema as kn
for path in sys.argv[2:]:
    done = kn.repack(path, sys.argv[1], runner="serial", overwrite=True)
    assert done.n_frames == 7 and done.verified
"""


def test_headers_of_other_kinds_crash_no_copy(tmp_path: Path) -> None:
    """A type in the place of a data set, of whose header H5Ocopy crashed."""
    files = [str(HOSTILE / f"type_for_data_{number}.h5md") for number in (1, 2)]
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "out.h5md"), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def _special_types() -> dict[str, h5py.h5t.TypeID]:
    """Types that NumPy has not, or that h5py stores in its own way."""
    float24 = h5py.h5t.IEEE_F32LE.copy()
    float24.set_fields(23, 15, 8, 0, 15)
    float24.set_size(3)
    opaque = h5py.h5t.create(h5py.h5t.OPAQUE, 5)
    opaque.set_tag(b"five bytes")
    return {"float24": float24, "time": h5py.h5t.UNIX_D32LE.copy(), "opaque": opaque, "bits": h5py.h5t.STD_B16BE.copy()}


def _fill(file: h5py.File) -> None:
    text = h5py.string_dtype()
    mixed = np.dtype([("a", ">i2"), ("text", text), ("list", h5py.vlen_dtype("f4")), ("deep", "f8", (2, 3))])
    rng = np.random.default_rng(5)
    values = np.zeros(3, mixed)
    values["a"] = 1, -2, 3
    values["text"] = "one", "zwei", "τρία"
    values["deep"] = rng.normal(size=(3, 2, 3))
    for row in values:
        row["list"] = np.arange(row["a"] % 4, dtype="f4")
    lists = file.create_dataset("lists", (4,), h5py.vlen_dtype("i8"), chunks=(2,), maxshape=(None,), compression="gzip")
    for number in range(4):
        lists[number] = np.arange(number)
    file.create_dataset("mixed", data=values)
    file.create_dataset("texts", data=np.array([["a", ""], ["µ", "long" * 99]], object), dtype=text)
    file.create_dataset("scalar", data="text")
    file.create_dataset("states", data=[0, 1, 1], dtype=h5py.enum_dtype({"on": 1, "off": 0}, basetype=">i4"))
    file.create_dataset("null", dtype="f4", shape=None)
    file.create_dataset("empty", (0, 3), "f4", maxshape=(None, 3))
    file.create_dataset("unwritten", (10**12,), "f8", fillvalue=2.5)
    big = rng.normal(size=(50, 7, 3)).astype("f4")
    options = {"chunks": (8, 5, 3), "shuffle": True, "fletcher32": True, "compression": "gzip", "fillvalue": -1.0}
    file.create_dataset("chunked", data=big, maxshape=(None, 7, 3), **options)
    file.create_dataset("scaled", data=np.arange(99), chunks=(10,), scaleoffset=True)
    file.create_dataset("contiguous", data=big.astype(">f8"))
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    h5py.Dataset(h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I16LE, h5py.h5s.create_simple((3,)), compact))[:] = 7
    file["type"] = np.dtype([("x", "f4"), ("y", "S3")])
    file["type"].attrs["of"] = "a point"
    file.create_dataset("points", (2,), file["type"])[1] = (1.5, b"abc")
    for name, kind in _special_types().items():
        dataset = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((4,)))
        raw = np.frombuffer(bytes(range(4 * kind.get_size())), f"V{kind.get_size()}")
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, raw, kind)
        h5py.h5a.create(file["null"].id, name.encode(), kind, h5py.h5s.create(h5py.h5s.SCALAR)).write(raw[:1], kind)
    file["null"].attrs["mixed"] = values
    pair = np.dtype((text, (2,)))
    file.create_dataset("pairs", (3,), pair)[:] = np.array([["a", "bc"], ["µ", ""], ["long" * 99, "d"]], object)
    file["null"].attrs.create("pair", np.array(["a", "bc"], object), dtype=pair)
    file["null"].attrs["type"] = np.zeros(2, "i1")
    # of a filter that is not there
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((4,))
    plist.set_shuffle()
    plist.set_filter(31999, h5py.h5z.FLAG_OPTIONAL, (1, 2, 3))
    unknown = h5py.h5d.create(file.id, b"unknown", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((8,)), plist)
    unknown.write_direct_chunk((4,), b"encoded by somebody", 1)


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_copies_hold_what_libhdf5_would_copy(tmp_path: Path, version: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver=version) as file:
        _fill(file)
    with (
        h5py.File(tmp_path / "a.h5") as source,
        h5py.File(tmp_path / "own.h5", "w", libver=("v108", "latest")) as own,
        h5py.File(tmp_path / "theirs.h5", "w", libver=("v108", "latest")) as theirs,
    ):
        copy_structure(source, own, lambda *_: None)
        assert list(own) == list(source)
        for name in source:
            h5py.h5o.copy(source.id, name.encode(), theirs.id, name.encode())
            _check_same(own[name], theirs[name])
        assert own["unknown"].id.read_direct_chunk((4,)) == (1, b"encoded by somebody")
        assert own["chunked"].id.read_direct_chunk((8, 5, 0)) == source["chunked"].id.read_direct_chunk((8, 5, 0))
        assert own["unwritten"].id.get_storage_size() == 0
        assert own["type"].attrs["of"] == "a point"


def _check_same(one: h5py.HLObject, other: h5py.HLObject) -> None:
    for name in attribute_names(other.id):
        a, b = (h5py.h5a.open(node.id, name) for node in (one, other))
        assert a.get_type().equal(b.get_type()) and a.get_space().shape == b.get_space().shape, (one.name, name)
        _check_bytes(a, b, a.get_type())
    if isinstance(other, h5py.Datatype):
        assert one.id.equal(other.id)
        return
    a, b = one.id, other.id
    assert a.get_type().equal(b.get_type()) and one.shape == other.shape, one.name
    old, new = b.get_create_plist(), a.get_create_plist()
    assert old.get_layout() == new.get_layout() and old.get_nfilters() == new.get_nfilters()
    for number in range(old.get_nfilters()):
        assert old.get_filter(number) == new.get_filter(number), one.name
    assert one.maxshape == other.maxshape and one.chunks == other.chunks
    assert old.fill_value_defined() == new.fill_value_defined()
    if one.name != "/unknown" and one.shape is not None and one.size < 10**6:
        _check_bytes(a, b, a.get_type())


def _check_bytes(a: object, b: object, kind: h5py.h5t.TypeID) -> None:
    values = []
    for one in (a, b):
        try:
            array = np.empty(one.shape, one.dtype)
        except TypeError:  # a type that NumPy has not
            array = np.empty(one.shape, f"V{kind.get_size()}")
        raw = array.dtype.kind == "V" and not array.dtype.names
        own = kind if raw else h5py.h5t.py_create(one.dtype)
        if isinstance(one, h5py.h5d.DatasetID):
            one.read(h5py.h5s.ALL, h5py.h5s.ALL, array, own)
        else:
            one.read(array, own)
        values.append(array)
    if values[0].dtype.hasobject:
        assert repr(values[0].tolist()) == repr(values[1].tolist())
    else:
        assert values[0].tobytes() == values[1].tobytes()


@pytest.mark.parametrize(
    "shape", [(), (3,), (5, 4), (2, 3, 2_000_000), (1 << 22,), (3, 1 << 21), (2, 2, (1 << 21) + 5), (0, 3)]
)
def test_pieces_are_the_whole_in_bounds(shape: tuple[int, ...]) -> None:
    count = 0
    for part in pieces(shape, 8):
        size = int(np.prod([one.stop - one.start for one in part], dtype=int))
        assert size <= 1 << 21 and len(part) == len(shape)
        count += size
    assert count == np.prod(shape, dtype=int)


def test_claims_that_were_never_written_are_not_gone_through(tmp_path: Path) -> None:
    """10^11 texts and references of which the first and the last chunk are stored: `repack` did not end. Positions that
    were never written, without chunks, were read as zeros, a terabyte of them."""
    path, out, count = tmp_path / "a.h5md", tmp_path / "out.h5md", 10**11
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(
            group, "velocity", np.ones((5, 4, 3), "f4"), steps=np.arange(5), times=np.arange(5) * 0.5, unit="nm ps-1"
        )
        never = file.create_dataset("particles/all/position/value", (10**6, 10**5, 3), "f4")
        never.attrs["unit"] = "nm"
        file["particles/all/position/step"] = 1
        texts = file.create_dataset("parameters/texts", (count,), h5py.string_dtype(), chunks=(1000,))
        texts[0], texts[-1] = "first", "last"
        texts.parent.create_dataset("points", (count,), h5py.ref_dtype, chunks=(1000,))[-1] = group.ref
        mixed = np.dtype([("a", "i2"), ("s", h5py.string_dtype())])
        texts.parent.create_dataset("mixed", (10**6, 10**6), mixed, chunks=(5, 5))[-2, 7] = (3, "text")
    with pytest.warns(kn.Note, match="position/value has 1000000 rows, of which 0 were written"):
        kn.repack(path, out, runner="serial")
    assert out.stat().st_size < 200_000
    with h5py.File(out) as file:
        rich = file["parameters"]
        assert rich["texts"].shape == (count,) and rich["texts"].id.get_num_chunks() == 2
        assert [rich["texts"][at] for at in (0, 1, -1)] == [b"first", b"", b"last"]
        assert file[rich["points"][-1]].name == "/particles/all" and not rich["points"][0]
        assert rich["mixed"][-2, 7]["s"] == b"text" and rich["mixed"].id.get_num_chunks() == 1
