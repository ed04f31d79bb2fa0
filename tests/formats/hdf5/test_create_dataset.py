"""Creation of HDF5 data sets: layout, filters, extent, and what is taken over from another data set."""

from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.storage.hdf5.filters import COMPRESSIONS, GZIP, Compression, built_in_filters, encodable, filters_of
from kinema.storage.hdf5.storage import (
    KEEP,
    Layout,
    Storage,
    VirtualBox,
    create_dataset,
    has_tiny_chunks,
    rechunked_series,
    series_storage,
    write_dataset,
)

FLOAT = np.dtype("<f4")


def layout_of(dataset: h5py.Dataset) -> int:
    return dataset.id.get_create_plist().get_layout()


@pytest.mark.parametrize("name", [None, *COMPRESSIONS])
def test_a_field_has_the_filters_of_its_compression(tmp_path: Path, name: str | None) -> None:
    storage = Layout("frames", Compression(name), chunk_bytes=600).new_field(5, FLOAT, None)
    values = np.random.default_rng(1).normal(size=(25, 5, 3)).astype(FLOAT)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = create_dataset(file, "value", storage)
        assert (made.shape, made.maxshape, made.chunks, made.dtype) == ((0, 5, 3), (None, 5, 3), (10, 5, 3), FLOAT)
        made.resize(25, axis=0)
        made[...] = values
        # what is read back from a data set is what was asked for
        assert encodable(filters_of(made)) == storage.filters == Compression(name).filters(4)
        assert (built_in_filters(filters_of(made)) is not None) == (name in (None, "gzip"))
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["value"], values)


def test_a_contiguous_field_has_all_its_frames(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = create_dataset(file, "value", Layout("contiguous", Compression()).new_field(5, FLOAT, 7))
        assert (made.shape, made.maxshape, made.chunks) == ((7, 5, 3), (7, 5, 3), None)
    with pytest.raises(kn.ArgumentError, match="cannot be compressed"):
        Layout("contiguous", Compression("gzip"))


def test_small_values_are_compact_where_that_is_asked_for(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for size, compact, expected in (
            (100, True, h5py.h5d.COMPACT),
            (100, False, h5py.h5d.CONTIGUOUS),
            (100_000, True, h5py.h5d.CONTIGUOUS),
            (0, True, h5py.h5d.CONTIGUOUS),
        ):
            made = write_dataset(file, f"{size} {compact}", np.arange(size), compact=compact)
            assert layout_of(made) == expected
            np.testing.assert_array_equal(made[...], np.arange(size))
        scalar = write_dataset(file, "scalar", np.asarray(2.5))
        assert (scalar.shape, scalar[()]) == ((), 2.5)


def test_type_fill_value_and_order_of_attributes_are_taken_over(tmp_path: Path) -> None:
    kind = h5py.enum_dtype({"C": 0, "H": 1}, basetype="<i4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["named"] = kind
        old = file.create_dataset("old", (4,), file["named"], fillvalue=1, track_order=True)
        words = file.create_dataset("words", data=["one", "two"])
        made = write_dataset(file, "made", np.array([1, 0, 1]), like=old)
        chunked = create_dataset(file, "chunked", Storage((3,), old.dtype, (2,)), like=old)
        for dataset in (made, chunked):
            assert h5py.check_enum_dtype(dataset.dtype) == {"C": 0, "H": 1}
            assert not dataset.id.get_type().committed()
            assert dataset.fillvalue == 1
            order = dataset.id.get_create_plist().get_attr_creation_order()
            assert order == old.id.get_create_plist().get_attr_creation_order() != 0
        assert made[...].tolist() == [1, 0, 1]
        assert chunked[...].tolist() == [1, 1, 1]  # nothing was written
        copy = write_dataset(file, "copy", words[()], like=words)
        assert copy.asstr()[...].tolist() == ["one", "two"]


def test_a_data_set_without_a_name_is_linked_later(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = create_dataset(file, None, series_storage(np.dtype("<i8"), rows=3))
        made[...] = [1, 2, 3]
        assert list(file) == []
        file["step"] = made
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["step"][...].tolist() == [1, 2, 3]
        assert (file["step"].chunks, file["step"].maxshape) == ((4096,), (None,))


def test_storage_of_copies(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        step = file.create_dataset("step", data=np.arange(1000), chunks=(1,), compression="gzip", shuffle=True)
        lzf = file.create_dataset("lzf", (8, 5, 3), FLOAT, chunks=(2, 5, 3), compression="lzf")
        assert has_tiny_chunks(step)
        series = rechunked_series(step, (900,))
        assert (series.shape, series.chunks, series.filters) == ((900,), (4096,), ((2, ()), (1, (4,))))
        assert not has_tiny_chunks(create_dataset(file, "better", series, like=step))
        kept, note = Layout(KEEP).existing_field(lzf, (6, 4, 3), 1 << 20)
        assert (kept.shape, kept.chunks, kept.filters, note) == ((6, 4, 3), (2, 4, 3), ((32000, ()),), "")
        rounded = file.create_dataset("rounded", (8, 5, 3), FLOAT, chunks=(2, 5, 3), scaleoffset=3)
        kept, note = Layout(KEEP).existing_field(rounded, (6, 4, 3), 1 << 20)
        assert (kept.shape, kept.chunks, kept.filters) == ((6, 4, 3), (2, 4, 3), GZIP)
        assert note == "rounded was compressed with scaleoffset, which Kinema does not write: gzip instead"


def test_a_virtual_data_set_shows_boxes_of_other_files(tmp_path: Path) -> None:
    values = np.random.default_rng(2).normal(size=(2, 4, 5, 3)).astype(FLOAT)
    for number, rows in enumerate(values):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            create_dataset(file, "value", Storage((0, 5, 3), FLOAT, (1, 5, 3))).resize(4, axis=0)
            file["value"][...] = rows
    shape = (4, 5, 3)
    # two rows of all atoms, then three rows of the atoms from 3 on in front of others
    fixed = (
        VirtualBox("0.h5", "value", shape, (0,), (1,), (2,)),
        VirtualBox("1.h5", "value", shape, (2, 1), (1, 3), (3, 2)),
    )
    growing = tuple(VirtualBox(f"{n}.h5", "value", (0, 5, 3), (0, 5 * n), (0, 0), (None, 5)) for n in (0, 1))
    with h5py.File(tmp_path / "a.h5", "w", libver="v110") as file:
        made = create_dataset(file, "fixed", Storage((5, 5, 3), FLOAT, virtual=fixed), fill=np.nan)
        assert (made.is_virtual, made.maxshape) == (True, (5, 5, 3))
        create_dataset(file, "growing", Storage((0, 10, 3), FLOAT, virtual=growing, grows=True), fill=np.nan)
    expected = np.full((5, 5, 3), np.nan, FLOAT)
    expected[:2], expected[2:, 1:3] = values[0][1:3], values[1][1:, 3:]
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["fixed"], expected)
        np.testing.assert_array_equal(file["growing"], np.concatenate(values, axis=1))
        assert file["growing"].maxshape == (None, 10, 3)
    with h5py.File(tmp_path / "0.h5", "a") as file:
        file["value"].resize(6, axis=0)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["growing"].shape == (6, 10, 3)


def test_a_data_set_has_no_time_of_creation(tmp_path: Path) -> None:
    for storage in (Storage((3,), FLOAT, early=True), series_storage(FLOAT), Storage((3,), FLOAT, virtual=())):
        with h5py.File(tmp_path / "a.h5", "w", libver="v110") as file:
            plist = create_dataset(file, "value", storage).id.get_create_plist()
            assert not plist.get_obj_track_times()
