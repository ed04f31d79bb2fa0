"""How `describe` meets storage of all kinds, files that grow, and damaged ones."""

import os
import pickle
import subprocess
import sys
import threading

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.formats.h5md import H5mdOptions, describe
from kinema.testing.h5md_files import CASES, particles_all, small_file, walk
from kinema.testing.programs.children import start_child
from kinema.testing.strategies import examples_of_files

N_FRAMES, N = 7, 5
BY_NAME = {case.name: case for case in CASES}
STEPS = 10 * np.arange(N_FRAMES)


def options(**given):
    return H5mdOptions(**given)


# -- readers ----------------------------------------------------------------------------------------------------


def test_readers_take_rows_in_any_order_and_from_many_threads(tmp_path):
    path = tmp_path / "atoms.h5md"
    expected = BY_NAME["virtual_joins_atoms"].write(path)
    found = describe(path)
    reader = found.positions.reader
    np.testing.assert_allclose(reader(np.array([5, 0, 0, 6])) * 10, expected.positions[[5, 0, 0, 6]], rtol=1e-6)
    assert reader(np.array([], np.int64)).shape == (0, N, 3)
    wrong = []

    def read(seed):
        rows = np.random.default_rng(seed).integers(0, N_FRAMES, 20)
        if not np.allclose(reader(rows) * 10, expected.positions[rows]):
            wrong.append(seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(reader)


# -- storage ----------------------------------------------------------------------------------------------------


def test_external_storage_is_refused_by_name(tmp_path):
    path = small_file(tmp_path)
    (tmp_path / "raw.bin").write_bytes(walk(N_FRAMES, N).tobytes())
    with h5py.File(path, "r+") as file:
        position = file["particles/all/position"]
        del position["value"]
        position.create_dataset(
            "value", (N_FRAMES, N, 3), "f4", external=[(str(tmp_path / "raw.bin"), 0, h5py.h5f.UNLIMITED)]
        )
    with pytest.raises(kn.UnsupportedFormatError, match=r"position/value is kept in external storage \(.*raw.bin\)"):
        describe(path)


@pytest.mark.parametrize("name", ["virtual", "virtual_of_filtered"])
def test_missing_source_of_a_virtual_data_set(tmp_path, name):
    path = tmp_path / "virtual.h5md"
    BY_NAME[name].write(path)
    found = describe(path)
    assert [os.path.basename(other) for other in found.other_files] == ["virtual_0.h5", "virtual_1.h5"]
    assert [(first, array.file, array.shape[0]) for first, array in found.positions.pieces] == [
        (0, 1, 3),
        (3, 2, 2),
        (5, 0, 2),
    ]
    (tmp_path / "virtual_1.h5").rename(tmp_path / "gone.h5")
    with pytest.raises(kn.FileNotFound, match=r"virtual_1\.h5 is missing"):
        describe(path)
    with h5py.File(tmp_path / "virtual_1.h5", "w") as file:
        file["y"] = 3
    with pytest.raises(
        kn.CorruptFileError, match=r"takes values from /?x of .*virtual_1\.h5, which has no such data set"
    ):
        describe(path)


def test_missing_source_where_libhdf5_reads(tmp_path):
    path = small_file(tmp_path)
    layout = h5py.VirtualLayout((N_FRAMES, N, 3), "f4")
    with h5py.File(tmp_path / "part.h5", "w") as file:
        file["x"] = walk(N_FRAMES, 2)
        layout[:, :2] = h5py.VirtualSource(file["x"])
    with h5py.File(path, "r+") as file:
        del file["particles/all/position/value"]
        file["particles/all/position"].create_virtual_dataset("value", layout, fillvalue=0)
        file["particles/all/position/value"].attrs["unit"] = "nm"
    assert describe(path).positions.reader is not None
    (tmp_path / "part.h5").unlink()
    with pytest.raises(kn.FileNotFound, match=r"part\.h5 is missing"):
        describe(path)


def test_a_filter_that_nobody_has(tmp_path):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((1, N, 3))
    plist.set_filter(32099, h5py.h5z.FLAG_OPTIONAL, (1, 2))

    def fill(group):
        del group["position/value"]
        space = h5py.h5s.create_simple((N_FRAMES, N, 3))
        made = h5py.h5d.create(group["position"].id, b"value", h5py.h5t.IEEE_F32LE, space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, walk(N_FRAMES, N))
        group["position/value"].attrs["unit"] = "nm"

    with pytest.raises(kn.UnsupportedFormatError, match=r"filter 32099 \(unknown\), which is not installed"):
        describe(small_file(tmp_path, fill))


def test_filters_that_only_libhdf5_has_are_said(tmp_path):
    path = tmp_path / "nbit.h5md"
    BY_NAME["nbit"].write(path)
    found = describe(path)
    assert found.positions.reason
    assert any(warning.startswith("particles/all/position is read through h5py: ") for warning in found.warnings)


def test_wide_fields(tmp_path):
    assert not describe(small_file(tmp_path)).wide
    for kind in ("f8", "i4", ">i8"):
        assert describe(small_file(tmp_path, values=walk(N_FRAMES, N).astype(kind))).wide
    assert not describe(small_file(tmp_path, values=walk(N_FRAMES, N).astype("i2"))).wide


# -- files that grow --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [None, (1, N, 3), (2, 3, 3)])
def test_bytes_beyond_the_file_are_not_there_yet(tmp_path, monkeypatch, chunks):
    path = small_file(tmp_path, chunks=chunks)
    found = describe(path)
    array = found.positions.pieces[0][1]
    if chunks is None:
        end = int(array.addresses[0]) + 4 * N * 12 + 7
        expected = 4
    else:
        rows = array.addresses.reshape(-(-N_FRAMES // chunks[0]), -1)
        end = int(rows[2].min()) + 7
        stored = (rows + array.sizes.reshape(rows.shape)).max(axis=1) <= end
        expected = chunks[0] * int(np.argmin(stored))
    size = os.path.getsize
    monkeypatch.setattr("os.path.getsize", lambda name: end if str(name) == str(path) else size(name))
    growing = describe(path)
    assert growing.n_frames == expected < N_FRAMES
    assert growing.steps.tolist() == STEPS[:expected].tolist()
    assert any("were not written, or not yet" in warning for warning in growing.warnings)


WRITER = """
import sys
import h5py, numpy as np
path, values, steps = sys.argv[1], np.load(sys.argv[2]), np.load(sys.argv[3])
swmr = sys.argv[4] == "swmr"
with h5py.File(path, "w", libver="latest" if swmr else ("earliest", "v108")) as file:
    file.create_group("h5md").attrs["version"] = [1, 1]
    position = file.create_group("particles/all/position")
    value = position.create_dataset("value", data=values[:2], chunks=(1, 5, 3), maxshape=(None, 5, 3))
    value.attrs["unit"] = "nm"
    step = position.create_dataset("step", data=steps[:2], chunks=(1024,), maxshape=(None,))
    if swmr:
        file.swmr_mode = True
    for n in range(3, len(values) + 1):
        for array, source in ((value, values), (step, steps)):
            file.flush()
            print("flushed", flush=True)
            sys.stdin.readline()
            array.resize(n, axis=0)
            array[n - 1] = source[n - 1]
    file.flush()
    print("flushed", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.processes
@pytest.mark.parametrize("mode", ["flushed", "swmr"])
def test_a_file_that_another_program_holds_open(tmp_path, mode):
    path, values = tmp_path / "open.h5md", walk(N_FRAMES, N)
    np.save(tmp_path / "values.npy", values)
    np.save(tmp_path / "steps.npy", STEPS)
    command = [sys.executable, "-c", WRITER, str(path), str(tmp_path / "values.npy"), str(tmp_path / "steps.npy"), mode]
    with start_child(command, stdin=subprocess.PIPE, stderr=None) as writer:

        def go_on():
            writer.stdin.write("\n")
            writer.stdin.flush()
            return writer.stdout.readline()

        assert writer.stdout.readline() == "flushed\n"
        traj = kn.open(path, stored=False)
        assert traj.n_frames == 2
        first, view = traj.read(), traj[:1]
        for n in range(3, N_FRAMES + 1):
            assert go_on() == "flushed\n"
            assert describe(path).n_frames == n - 1  # the value is there, its step is not
            assert go_on() == "flushed\n"
            assert describe(path).n_frames == n
        assert traj.n_frames == 2
        assert traj.refresh() == N_FRAMES
        np.testing.assert_array_equal(traj.read()[:2], first)
        np.testing.assert_allclose(traj.read(), values * 10, rtol=1e-6)
        assert view.n_frames == 1
        with pytest.raises(kn.ArgumentError, match="view"):
            view.refresh()
        writer.stdin.close()


def test_a_file_that_this_process_holds_open(tmp_path):
    path = small_file(tmp_path)
    with h5py.File(path):
        assert describe(path).n_frames == N_FRAMES
        np.testing.assert_allclose(kn.open(path, stored=False).read(), walk(N_FRAMES, N) * 10, rtol=1e-6)
    with h5py.File(path, "r+"):
        assert describe(path).n_frames == N_FRAMES


def test_refresh_of_another_format(small):
    assert small.refresh() == 20


def test_a_file_that_was_not_closed(tmp_path):
    code = "import h5py, os, sys; file = h5py.File(sys.argv[1], 'w', libver='latest'); file.flush(); os._exit(1)"
    path = tmp_path / "killed.h5md"
    subprocess.run([sys.executable, "-c", code, str(path)], timeout=120)
    with pytest.raises(kn.CorruptFileError, match=r"marked as open for writing: .*h5clear -s"):
        describe(path)


# -- damaged files ----------------------------------------------------------------------------------------------


def test_what_is_no_file(tmp_path):
    with pytest.raises(kn.FileNotFound, match="no such file"):
        describe(tmp_path / "none.h5md")
    with pytest.raises(kn.ArgumentError, match="is a directory"):
        describe(tmp_path)
    (tmp_path / "text.h5md").write_text("no HDF5 file\n" * 99)
    with pytest.raises(kn.CorruptFileError, match="signature is missing"):
        describe(tmp_path / "text.h5md")


def test_cut_files(tmp_path):
    path = tmp_path / "gromacs.h5md"
    BY_NAME["gromacs"].write(path)
    data = path.read_bytes()
    for length in [*range(0, 3000, 251), *range(3000, len(data), 9973), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises((kn.TruncatedFileError, kn.CorruptFileError)) as raised:
            describe(path, options(absent="nan"))
        assert raised.value.path == str(path)
        assert "\n" not in str(raised.value)


def test_damaged_files(tmp_path):
    """Bits that flip give an error of Kinema's own, or a description: never an exception of h5py."""
    path = tmp_path / "damaged.h5md"
    BY_NAME["gzip_shuffle_fletcher32"].write(path)
    data = path.read_bytes()
    random = np.random.default_rng(7)
    failed = 0
    for _ in range(3 * examples_of_files()):
        damaged = bytearray(data)
        damaged[int(random.integers(0, len(data)))] ^= 1 << int(random.integers(0, 8))
        # some file systems flush a file that is written over
        path.unlink()
        path.write_bytes(damaged)
        try:
            describe(path, options(stored=False))
        except kn.InternalError:
            raise
        except kn.Error as error:
            failed += 1
            assert str(path) in str(error)
    assert failed > 10


@pytest.mark.parametrize("dtype", ["<f4", ">f8", ">i4"])
@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize(
    "filters", [{}, {"compression": "gzip"}, {"compression": "lzf", "shuffle": True}, {"fletcher32": True}], ids=str
)
def test_series_of_many_chunks(tmp_path, dtype, chunk, filters):
    """Read past libhdf5: the last chunk sticks out, one was never written, others lie in the order of writing."""
    n = 1000
    times = np.arange(n).astype(dtype)

    def add(group):
        storage = {"chunks": (chunk,), "maxshape": (None,), "fillvalue": 7, **filters}
        time = group["position"].create_dataset("time", (n,), dtype, **storage)
        time.attrs["unit"] = "ps"
        for start in (600, 0, 300):
            time[start : start + 300] = times[start : start + 300]
        time[903:] = times[903:]

    path = small_file(tmp_path, add, values=np.zeros((n, 1, 3), np.float32), steps=np.arange(n), times=None)
    times[900:903] = 7
    assert describe(path).times.tolist() == times.tolist()


@pytest.mark.parametrize("chunk", [1, 4])
def test_damaged_steps(tmp_path, chunk):
    """Also where steps are read past libhdf5, which is done for many small chunks."""
    n = 3000
    steps = np.arange(n)
    path = small_file(
        tmp_path,
        lambda group: group["position"].create_dataset(
            "step", data=steps, chunks=(chunk,), compression="gzip", shuffle=True
        ),
        values=np.zeros((n, 1, 3), np.float32),
        steps=None,
        times=0.5,
    )
    with h5py.File(path) as file:
        place = file["particles/all/position/step"].id.get_chunk_info(77).byte_offset
    assert describe(path).steps.tolist() == steps.tolist()
    data = bytearray(path.read_bytes())
    data[place : place + 4] = b"\xff" * 4
    path.write_bytes(data)
    rows = "row 77" if chunk == 1 else "rows 308 to 311"
    what = rf"made\.h5md: HDF5 data set /particles/all/position/step, {rows} at byte {place}, cannot be read"
    with pytest.raises(kn.CorruptFileError, match=what):
        describe(path)


def test_claims_without_storage(tmp_path):
    path = tmp_path / "claims.h5md"
    with particles_all(path) as group:
        position = group.create_group("position")
        position.create_dataset("value", (2**40, 1, 3), "f4", chunks=(1, 1, 3), maxshape=(None, 1, 3)).attrs["unit"] = (
            "nm"
        )
        position["value"][2**40 - 1] = 1.0
        position["step"] = 1
    with pytest.raises(kn.CorruptFileError, match="claims 1099511627776 rows, but only 12 bytes are stored"):
        describe(path)
