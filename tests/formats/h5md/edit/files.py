"""Files to be repaired, and comparisons of what they hold. It asserts, but tests nothing by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

import kinema as kn
from kinema.testing.amounts import LONG
from kinema.testing.h5md_files import CASES, ConformanceFile

OTHER_FORMATS = ("mdtraj", "amber_netcdf4", "bare_2d", "bare_2d_chunked", "bare_3d", "bare_without_unit")
# whose frames are not a file's rows one after another: these are refused, or there are none
NOT_CUT = ("id_order_changes", "id_with_absent_particles", "time_independent_positions")
# which differ from another case in what the reader makes of an attribute or a value; where a file is cut or joined both
# are copied as they are: left out but in a long run
COPIED_ALIKE = (
    *("strings_variable_ascii", "strings_fixed_ascii", "strings_fixed_padded", "strings_array_of_one"),
    *("units_a", "units_sign", "units_words", "units_powers", "gromacs_without_units", "box_without_unit"),
    *("box_slab", "box_not_periodic", "group_by_path", "velocity_at_half_stride_hold", "image_triclinic"),
    *("image_fixed_box", "fixed_interval", "box_matrix_fixed", "gzip_shuffle"),
)


def cut_cases() -> list[ConformanceFile]:
    """Conformance files that can be cut into parts."""
    left_out = (*OTHER_FORMATS, *NOT_CUT, *(() if LONG else COPIED_ALIKE))
    return [case for case in CASES if case.name not in left_out]


def walk(n_frames: int, n_atoms: int, seed: int = 3) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    steps = rng.normal(scale=0.1, size=(n_frames, n_atoms, 3)).cumsum(axis=0)
    return (steps + rng.uniform(0, 30, size=(n_atoms, 3))).astype(np.float32)


def make_h5md(
    path: Path,
    *,
    n_frames: int = 12,
    n_atoms: int = 20,
    values: NDArray[Any] | None = None,
    first_frame: int = 0,
    unit: str = "Angstrom",
    groups: tuple[str, ...] = ("all",),
    **storage: Any,
) -> NDArray[Any]:
    """A file with positions, steps (10 apart), times and a box for each frame; gives the positions."""
    values = walk(n_frames, n_atoms) if values is None else values
    n_frames = len(values)
    with h5py.File(path, "w") as file:
        file.create_group("h5md").attrs["version"] = np.array([1, 1], np.int32)
        file["h5md"].create_group("author").attrs["name"] = np.bytes_(b"A. Uthor")
        file["h5md"].create_group("creator").attrs["name"] = np.bytes_(b"a test")
        for name in groups:
            group = file.create_group(f"particles/{name}")
            position = group.create_group("position")
            value = position.create_dataset("value", data=values, **storage)
            value.attrs["unit"] = np.bytes_(unit.encode())
            position["step"] = 10 * (first_frame + np.arange(n_frames))
            position["time"] = 0.1 * (first_frame + np.arange(n_frames))
            position["time"].attrs["unit"] = np.bytes_(b"ps")
            box = group.create_group("box")
            box.attrs["dimension"] = 3
            box.attrs["boundary"] = np.array([b"periodic"] * 3)
            edges = box.create_group("edges")
            cells = np.broadcast_to(np.diag([30.0, 31.0, 32.0]), (n_frames, 3, 3)) + np.arange(n_frames)[:, None, None]
            edges["value"] = cells.astype(np.float32)
            edges["value"].attrs["unit"] = np.bytes_(unit.encode())
            edges["step"], edges["time"] = position["step"], position["time"]
    return values


def make_rich(path: Path) -> None:
    """12 frames of 20 atoms with whatever else HDF5 can hold; needs a file `other.h5` beside it, which it makes."""
    make_h5md(path, chunks=(5, 7, 2), maxshape=(None, 20, 3), compression="gzip", fillvalue=-1.0)
    with h5py.File(path.with_name("other.h5"), "w") as other:
        other["answer"] = 42
    with h5py.File(path, "a") as file:
        group = file["particles/all"]
        for name, values in (("velocity", walk(6, 20)), ("image", np.arange(6 * 60).reshape(6, 20, 3) % 5 - 2)):
            node = group.create_group(name)
            node.create_dataset("value", data=values, chunks=(1, 20, 3), maxshape=(None, 20, 3))
            node["value"].attrs["unit"] = np.bytes_(b"Angstrom ps-1")
            node["step"] = np.arange(6) * 20
        group["mass"] = np.linspace(1, 20, 20)
        group.create_dataset("species", data=np.arange(20) % 3, dtype=h5py.enum_dtype({"H": 0, "C": 1, "N": 2}))
        group["id"] = 1000 + np.arange(20)
        group.create_dataset("parameters/set", data=[1.5, 2.5])
        bonds = file.create_dataset("connectivity/bonds", data=[[1003, 1004], [1004, 1005], [1011, 1012]])
        bonds.attrs["particles_group"] = group.ref
        energy = file.create_group("observables/energy")
        energy.create_dataset("value", data=np.arange(500.0), chunks=(1,), maxshape=(None,), compression="gzip")
        energy.create_dataset("step", data=np.arange(500), chunks=(1,), maxshape=(None,))
        _make_extra(file)


def _make_extra(file: Any) -> None:
    extra = file.create_group("extra", track_order=True)
    for name in ("zulu", "alpha", "mike"):
        extra[name] = name
    kind = np.dtype([("name", h5py.string_dtype()), ("x", ">f8", 3), ("n", "<i2")])
    extra.create_dataset("table", data=np.array([("a", (1, 2, 3), 4), ("bc", (5, 6, 7), 8)], kind))
    extra["again"] = extra["table"]
    extra["soft"] = h5py.SoftLink("/extra/table")
    extra["nowhere"] = h5py.SoftLink("/gone")
    extra["elsewhere"] = h5py.ExternalLink("other.h5", "answer")
    extra["type"] = np.dtype("<i4")
    extra.create_dataset("typed", data=[1, 2], dtype=extra["type"])
    extra["grid"] = np.arange(16).reshape(4, 4)
    extra.create_dataset("null", dtype="f4", shape=None)
    extra.create_dataset("none", shape=(0, 3), dtype="f4", maxshape=(None, 3))
    extra.create_dataset("words", data=["one", "zwei"], dtype=h5py.string_dtype())
    extra.create_dataset("bits", data=[True, False])
    extra.create_dataset("complex", data=[1 + 2j])
    references = extra.create_dataset("references", (2,), h5py.ref_dtype)
    references[0] = extra["table"].ref
    regions = extra.create_dataset("region", (1,), h5py.regionref_dtype)
    regions[0] = extra["grid"].regionref[1:3, 1:3]
    attrs = extra.attrs
    attrs["text"], attrs["bytes"], attrs["texts"] = "Länge", np.bytes_(b"fixed"), ["a", "bc"]
    attrs["numbers"], attrs["empty"] = np.arange(6, dtype=">i2").reshape(2, 3), h5py.Empty("f8")
    attrs["enum"] = np.array(1, h5py.enum_dtype({"no": 0, "yes": 1}))
    attrs["to"] = extra["table"].ref
    attrs["pair"] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
    extra["inner"] = h5py.SoftLink("/observables")
    extra.create_group("loop")["back"] = extra  # a cycle


def compare_trajectories(first: Any, second: Any, **options: Any) -> None:
    """Both give the same through `kn.open`, bit for bit; `second` may be a list of parts."""
    a, b = (kn.open(one, stored=False, **options) for one in (first, second))
    fields = [name for name in a.fields if name in ("positions", "velocities", "forces")]
    assert a.fields == b.fields
    for dtype in ("float32", "float64"):
        one, other = (traj.read(fields=fields, dtype=dtype) for traj in (a, b))
        for name in one:
            assert one[name].tobytes() == other[name].tobytes(), name


def compare_objects(old: Any, new: Any) -> None:
    """The same links, attributes and values below two files; storage may differ."""
    _compare(old["/"], new["/"], set())


def _compare(a: Any, b: Any, seen: set[Any]) -> None:
    assert type(a) is type(b), a
    _compare_attributes(a, b)
    if isinstance(a, h5py.Dataset):
        _compare_values(a, b)
    if not isinstance(a, h5py.Group) or a.id in seen:
        return
    seen.add(a.id)
    assert list(a) == list(b)
    for name in a:
        one, other = (node.get(name, getlink=True) for node in (a, b))
        assert type(one) is type(other), name
        if isinstance(one, (h5py.SoftLink, h5py.ExternalLink)):
            assert one.path == other.path
        else:
            _compare(a[name], b[name], seen)


def _compare_attributes(a: Any, b: Any) -> None:
    assert list(a.attrs) == list(b.attrs), a
    for name in a.attrs:
        one, other = (h5py.h5a.open(node.id, name.encode()) for node in (a, b))
        assert one.get_type().equal(other.get_type()), (a, name)
        assert one.shape == other.shape
        x, y = a.attrs[name], b.attrs[name]
        if isinstance(x, h5py.Reference):
            assert a.file[x].name == b.file[y].name
        elif isinstance(x, h5py.Empty):
            assert x == y
        else:
            np.testing.assert_array_equal(x, y)


def _compare_values(a: Any, b: Any) -> None:
    assert a.shape == b.shape, a
    assert a.dtype == b.dtype, a
    if a.shape is None or h5py.check_ref_dtype(a.dtype) is not None:
        return
    x, y = a[()], b[()]
    if a.dtype.hasobject:
        np.testing.assert_array_equal(x, y)
    else:
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), a
    assert a.id.get_create_plist().fill_value_defined() == b.id.get_create_plist().fill_value_defined(), a
    np.testing.assert_array_equal(a.fillvalue, b.fillvalue)
