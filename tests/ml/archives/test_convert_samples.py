"""`kinema.ml.convert`: samples of all kinds of sources, bit for bit by their origin; what is refused; what is left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
import kinema.ml
from kinema.base import errors
from kinema.ml import SampleDataset, convert, plan_conversion
from kinema.ml.archives import passes
from kinema.ml.archives.checksums import combined
from kinema.ml.archives.sources import Conversion
from kinema.ml.archives.writers import PlacedArchive
from kinema.ml.stored.sample_files import is_archive

DTYPES = ("<f8", ">f8", "<f4", "<f2", "<i8", ">i2", "|u1", "|b1", "<c16", [("a", "<f4"), ("b", "<i2")])


def samples(n: int, shape: tuple[int, ...], dtype: Any, seed: int = 0) -> NDArray[Any]:
    """Random bits: NaN with payloads, infinities and denormal numbers among them; booleans are 0 and 1."""
    kind = np.dtype(dtype)
    random = np.random.default_rng(seed)
    if kind.kind == "b":
        return random.random((n, *shape)) < 0.5
    return np.frombuffer(random.bytes(n * int(np.prod(shape)) * kind.itemsize), kind).reshape(n, *shape)


def write(path: Path, arrays: dict[str, NDArray[Any]]) -> str:
    """As its suffix says; .z.npz deflated."""
    if path.name.endswith(".z.npz"):
        np.savez_compressed(path, **arrays)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".npy":
        np.save(path, next(iter(arrays.values())))
    else:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array, chunks=(7, *array.shape[1:]), compression="gzip", shuffle=True)
    return str(path)


def three(folder: Path, features: int = 33) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """A stored and a deflated archive and an HDF5 file, of two arrays; and all their values."""
    paths, all_arrays = [], []
    for number, name in enumerate(("a.npz", "b.z.npz", "c.h5")):
        n = 40 + number
        random = np.random.default_rng(number)
        all_arrays.append({"x": random.standard_normal((n, features)), "y": random.integers(0, 9, (n, 2))})
        paths.append(write(folder / name, all_arrays[-1]))
    return paths, {name: np.concatenate([arrays[name] for arrays in all_arrays]) for name in ("x", "y")}


def assert_by_origin(archive: Path, sources: list[str], fields: list[str] | None = None) -> None:
    """Each sample of the archive has the bits of the sample that its origin names, as h5py and NumPy read both."""
    made = SampleDataset(archive, fields)
    given = {path: SampleDataset(path, fields, file_is_sample=False) for path in sources}
    files, rows = made.origin(range(len(made)))
    assert len(made) == sum(map(len, given.values()))
    by_file = {path: given[path].read(range(len(given[path]))) for path in sources}
    with h5py.File(archive) as file:
        for name in made.fields:
            stored = file[name][()]
            ours = made.read(range(len(made)))[name]
            for number, (path, row) in enumerate(zip(files, rows, strict=True)):
                expected = by_file[path][name][row].tobytes()
                assert ours[number].tobytes() == expected
                assert stored[number].astype(ours.dtype, copy=False).tobytes() == expected


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_keeps_every_bit(dtype: Any, tmp_path: Path) -> None:
    shapes: list[tuple[int, ...]] = [(5,), (2, 3)]
    paths = []
    for number, name in enumerate(("a.npz", "b.z.npz", "c.npz", "d.z.npz")):
        arrays = {f"v{i}": samples(11 + number, shape, dtype, number) for i, shape in enumerate(shapes)}
        paths.append(write(tmp_path / name, arrays))
    done = convert(paths, tmp_path / "out.h5")
    assert (done.n_samples, done.n_files, done.verified, done.notes) == (50, 4, True, ())
    assert_by_origin(tmp_path / "out.h5", paths)
    assert is_archive(tmp_path / "out.h5")
    plain = np.dtype(dtype).kind in "iuf"
    for options in ({"layout": "samples:3"}, {"compression": "zstd"}):
        if plain:
            convert(paths, tmp_path / "out.h5", overwrite=True, **options)  # type: ignore[arg-type]
            assert_by_origin(tmp_path / "out.h5", paths)
        else:
            with pytest.raises(kn.UnsupportedFormatError, match="contiguous"):
                convert(paths, tmp_path / "other.h5", **options)  # type: ignore[arg-type]
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "b.z.npz", "c.npz", "d.z.npz", "out.h5"]


@pytest.mark.parametrize(
    ("options", "chunks"),
    [
        ({}, (None, None)),
        ({"layout": "samples:16"}, ((16, 33), (123, 2))),
        ({"layout": "samples"}, ((123, 33), (123, 2))),
        ({"compression": "gzip", "level": 3, "layout": "samples:5"}, ((5, 33), (123, 2))),
        ({"compression": "lz4", "shuffle": True}, ((123, 33), (123, 2))),
        ({"checksum": True, "layout": "samples:10"}, ((10, 33), (123, 2))),
        ({"compression": "bitshuffle-zstd", "layout": "samples:41", "workers": 1}, ((41, 33), (123, 2))),
    ],
    ids=str,
)
def test_layouts(options: dict[str, Any], chunks: tuple[Any, Any], tmp_path: Path) -> None:
    paths, expected = three(tmp_path)
    for memory in (None, "4 MiB"):
        done = convert(paths, tmp_path / "out.h5", memory=memory, overwrite=True, **options)
        assert done.size == os.path.getsize(tmp_path / "out.h5")
        with h5py.File(tmp_path / "out.h5") as file:
            assert (file["x"].chunks, file["y"].chunks) == chunks
            for name, array in expected.items():
                assert file[name].dtype == array.dtype and file[name][()].tobytes() == array.tobytes()
    assert_by_origin(tmp_path / "out.h5", paths)


def test_small_runs_cut_chunks_and_files_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kinema.ml.archives import plan

    monkeypatch.setattr(plan, "_BLOCK_BYTES", 1000)
    monkeypatch.setattr(plan, "_LEAST_BLOCK", 1000)
    paths, expected = three(tmp_path)
    for options in ({}, {"layout": "samples:9"}, {"compression": "zstd", "layout": "samples:9"}):
        for workers in (1, 3):
            convert(paths, tmp_path / "out.h5", overwrite=True, workers=workers, **options)  # type: ignore[arg-type]
            found = SampleDataset(tmp_path / "out.h5").read(range(123))
            assert all(found[name].tobytes() == array.tobytes() for name, array in expected.items())


def test_npy_hdf5_and_a_folder_with_a_sample_a_file(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    arrays = [samples(4, (3,), "<f8", number) for number in range(7)]
    for number, array in enumerate(arrays):
        np.save(tmp_path / "one" / f"{number}.npy", array)
    with pytest.raises(errors.ArgumentError, match=r"one: 7 files with 4 rows in each array may be archives"):
        convert(tmp_path / "one", tmp_path / "out.h5")
    assert not (tmp_path / "out.h5").exists()
    assert convert(tmp_path / "one", tmp_path / "rows.h5", file_is_sample=False).n_samples == 28
    done = convert(tmp_path / "one", tmp_path / "out.h5", file_is_sample=True)
    assert (done.n_samples, done.fields) == (7, ("samples",))
    found = SampleDataset(tmp_path / "out.h5")
    assert found.read(range(7))["samples"].tobytes() == np.array(arrays).tobytes()
    files, rows = found.origin([6, 0, 6])
    assert files == [str(tmp_path / "one" / f"{n}.npy") for n in (6, 0, 6)] and rows.tolist() == [0, 0, 0]


def test_an_archive_of_archives_keeps_the_first_origin(tmp_path: Path) -> None:
    paths, _ = three(tmp_path)
    convert(paths[:2], tmp_path / "first.h5")
    convert([tmp_path / "first.h5", paths[2]], tmp_path / "second.h5", layout="samples:8")
    assert_by_origin(tmp_path / "second.h5", paths)
    with h5py.File(tmp_path / "second.h5") as file:
        provenance = json.loads(file["kinema/provenance"][()])
        assert file["kinema/origin/ranges"][()].tolist() == [[0, 0, 40], [1, 0, 41], [2, 0, 42]]
    assert [one["path"] for one in provenance["inputs"]] == [str(tmp_path / "first.h5"), paths[2]]
    assert all(one["fingerprint"] for one in provenance["inputs"])


def test_a_small_file_of_a_large_origin_is_refused(tmp_path: Path) -> None:
    """6 kB that claimed 80 GB were taken into memory."""
    paths, _ = three(tmp_path)
    convert(paths, tmp_path / "a.h5")
    cases: list[tuple[str, tuple[int, ...], str]] = [
        ("files", (10**10,), "S8"), ("ranges", (10**10, 3), "i8"), ("ranges", (3, 4), "i8"), ("files", (3,), "i8"),
        ("files", (), "S8"),
    ]  # fmt: skip
    for name, shape, dtype in cases:
        shutil.copy(tmp_path / "a.h5", tmp_path / "b.h5")
        with h5py.File(tmp_path / "b.h5", "r+") as file:
            del file[f"kinema/origin/{name}"]
            file.create_dataset(
                f"kinema/origin/{name}", shape, dtype, chunks=(1024, *shape[1:]) if 10**10 in shape else None
            )
        with pytest.raises(kn.CorruptFileError, match=rf"b\.h5: kinema/origin/{name} is .* for 123 samples"):
            convert(tmp_path / "b.h5", tmp_path / "c.h5", overwrite=True)


def test_names_within_groups(tmp_path: Path) -> None:
    arrays = {"a/x": samples(9, (3,), "<f8"), "b": samples(9, (2,), "<f4")}
    np.savez(tmp_path / "in.npz", **arrays)
    convert(tmp_path / "in.npz", tmp_path / "out.h5", fields=["a/x"])
    found = SampleDataset(tmp_path / "out.h5")
    assert found.fields == ("a/x",)
    assert found.read(range(9))["a/x"].tobytes() == arrays["a/x"].tobytes()
    for name in ("kinema", "kinema/x", "../x", "/x", "a"):
        np.savez(tmp_path / "bad.npz", **{name: arrays["b"], "a/x": arrays["a/x"]})
        with pytest.raises(errors.ArgumentError, match="called"):
            convert(tmp_path / "bad.npz", tmp_path / "bad.h5")


# -- other types -------------------------------------------------------------------------------------------------------


def test_a_type_of_fewer_digits_is_noted_with_the_largest_change(tmp_path: Path) -> None:
    paths, expected = three(tmp_path)
    for options in ({}, {"compression": "zstd"}):
        with pytest.warns(kn.Note, match="x is stored as float32: no value was moved by more than"):
            done = convert(paths, tmp_path / "out.h5", dtype={"x": "float32"}, overwrite=True, **options)  # type: ignore[arg-type]
        assert len(done.notes) == 1
        found = SampleDataset(tmp_path / "out.h5").read(range(123))
        assert found["x"].tobytes() == expected["x"].astype("<f4").tobytes()
        assert found["y"].tobytes() == expected["y"].tobytes()
        change = float(np.abs(expected["x"].astype("<f4") - expected["x"]).max())
        assert done.notes[0].endswith(f"{change:.3g}")


def test_the_largest_change_of_several_threads_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread has looked at the largest change so far when another thread finds a larger one."""
    np.save(tmp_path / "a.npy", np.zeros((4, 1)))
    (one,) = SampleDataset(tmp_path / "a.npy").stored("samples")
    conversion = Conversion(one, np.dtype("f4"))
    large, small = np.array([[1 + 3e-8]]).view(np.uint8), np.array([[1 + 1e-8]]).view(np.uint8)
    reduce, entered = np.fmax.reduce, []

    class Reducing:
        @staticmethod
        def reduce(change: Any, **options: Any) -> Any:
            if not entered:
                entered.append(True)
                thread = threading.Thread(target=conversion, args=(large,))
                thread.start()
                thread.join(60)
            return reduce(change, **options)

    monkeypatch.setattr(np, "fmax", Reducing)
    conversion(small)
    assert conversion.largest_change == pytest.approx(3e-8, rel=1e-6)


@pytest.mark.parametrize(
    ("array", "change"), [(np.array([[2**53 + 1], [5]]), "1"), (np.array([[1e-3 + 1j]]), "4.75e-11"), (np.eye(3), None)]
)
def test_the_change_of_other_values(array: NDArray[Any], change: str | None, tmp_path: Path) -> None:
    kind = "complex64" if array.dtype.kind == "c" else "float64" if array.dtype.kind == "i" else "float32"
    np.savez(tmp_path / "in.npz", x=array)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kn.Note)
        done = convert(tmp_path / "in.npz", tmp_path / "out.h5", dtype=kind)
    if change is None:
        assert done.notes == ()
    else:
        assert done.notes == (f"x is stored as {kind}: no value was moved by more than {change}",)


@pytest.mark.parametrize(
    ("array", "dtype", "what"),
    [
        (np.array([[1e300]]), "float32", "has 1e[+]300, which dtype=float32 cannot hold"),
        (np.array([[300]]), "int8", "has 300, which dtype=int8"),
        (np.array([[2**63]], "u8"), "int64", "has 9223372036854775808, which dtype=int64"),
        (np.array([[1.5]]), "int64", "x is float64, which dtype=int64"),
        (np.array([[1.5]]), "flot32", "dtype is a type of NumPy's"),
        (np.array([[1.5]]), {"z": "float32"}, "dtype names z, and the arrays are x"),
    ],
    ids=str,
)
def test_values_that_a_type_cannot_hold(array: NDArray[Any], dtype: Any, what: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=array)
    with pytest.raises(errors.ArgumentError, match=what):
        convert(tmp_path / "in.npz", tmp_path / "out.h5", dtype=dtype)
    assert os.listdir(tmp_path) == ["in.npz"]


# -- refusals ----------------------------------------------------------------------------------------------------------


class Evil:
    """Makes a file where it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path(tempfile.gettempdir()) / "kinema-unpickled",))


def damaged(path: Path, how: Callable[[bytearray], bytes]) -> None:
    path.write_bytes(how(bytearray(path.read_bytes())))


def flipped(data: bytearray) -> bytes:
    data[len(data) // 2] ^= 4
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "how", "kind", "what"),
    [
        ("a.npz", lambda data: bytes(data[: len(data) // 2]), kn.TruncatedFileError, r"a\.npz: byte \d+: .*cut off"),
        ("b.z.npz", lambda data: bytes(data[: len(data) // 2]), kn.TruncatedFileError, r"byte \d+: .*cut off"),
        ("a.npz", flipped, kn.CorruptFileError, r"a\.npz: byte \d+: member x is damaged: checksum, expected"),
        ("b.z.npz", flipped, kn.CorruptFileError, r"b\.z\.npz: byte \d+: member x cannot be decompressed"),
        ("c.h5", lambda data: bytes(data[:-3000]), kn.Error, r"c\.h5: "),
    ],
)
@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}], ids=str)
def test_damaged_sources(
    name: str, how: Callable[[bytearray], bytes], kind: type[Exception], what: str, options: Any, tmp_path: Path
) -> None:
    paths, _ = three(tmp_path)
    damaged(tmp_path / name, how)
    (tmp_path / "out.h5").write_bytes(b"was here")
    for verify in (True, False):
        with pytest.raises(kind, match=what):
            convert(paths, tmp_path / "out.h5", overwrite=True, verify=verify, **options)
    assert (tmp_path / "out.h5").read_bytes() == b"was here"
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "b.z.npz", "c.h5", "out.h5"]


def test_what_is_refused_by_name(tmp_path: Path) -> None:
    x = np.arange(12.0).reshape(4, 3)
    mark = Path(tempfile.gettempdir()) / "kinema-unpickled"
    mark.unlink(missing_ok=True)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "objects.npz", x=x, other=np.array([Evil()] * 4, object))
        with pytest.raises(kn.UnsupportedFormatError, match="pickled Python objects"):
            convert(tmp_path / "objects.npz", tmp_path / "out.h5")
    assert not mark.exists()
    np.savez(tmp_path / "ragged.npz", x=x, y=np.arange(5))
    np.savez(tmp_path / "wide.npz", x=np.zeros((4, 7)), y=np.arange(4))
    np.savez(tmp_path / "narrow.npz", x=x, y=np.arange(4))
    np.savez(tmp_path / "text.npz", x=x, y=np.array(["one"] * 4))
    np.savez(tmp_path / "none.npz", x=x[:0])
    np.savez(tmp_path / "order.npz", x=np.asfortranarray(x))
    for given, options, kind, what in (
        (["ragged.npz"], {}, errors.ArgumentError, r"ragged.npz: .*different numbers of samples \(x: 4, y: 5\)"),
        (["narrow.npz", "wide.npz"], {}, errors.ArgumentError, "wide.npz: x has samples of"),
        (["narrow.npz", "ragged.npz"], {}, errors.ArgumentError, "ragged.npz: .*different numbers"),
        (["text.npz"], {}, kn.UnsupportedFormatError, "y holds <U3, expected numbers"),
        (["none.npz"], {}, errors.ArgumentError, "has no samples"),
        (["order.npz"], {}, kn.UnsupportedFormatError, "Fortran order"),
        (["narrow.npz"], {"fields": ["z"]}, errors.ArgumentError, "there is no member z, only x, y"),
        (["missing.npz"], {}, kn.FileNotFound, "missing.npz"),
        (["narrow.npz"], {"layout": "frames"}, errors.ArgumentError, "layout is contiguous, samples"),
        (["narrow.npz"], {"layout": "samples:0"}, errors.ArgumentError, "layout is contiguous, samples"),
        (["narrow.npz"], {"layout": "contiguous", "compression": "zstd"}, errors.ArgumentError, "cannot be compressed"),
        (["narrow.npz"], {"compression": "zip"}, errors.ArgumentError, "compression is None or one of"),
        (["narrow.npz"], {"memory": "1 KiB"}, kn.MemoryLimitError, r"1024 bytes is too little: \d+ bytes are needed"),
        (["narrow.npz"], {"workers": 0}, errors.ArgumentError, "workers"),
    ):
        with pytest.raises(kind, match=what):
            convert([tmp_path / name for name in given], tmp_path / "out.h5", **options)  # type: ignore[arg-type]
    for output, what in (("out.npz", r"\.h5 or \.hdf5"), ("narrow.h5", "exists")):
        (tmp_path / "narrow.h5").touch()
        with pytest.raises(errors.ArgumentError, match=what):
            convert(tmp_path / "narrow.npz", tmp_path / output)
    convert(tmp_path / "narrow.npz", tmp_path / "own.h5")
    with pytest.raises(errors.ArgumentError, match=r"own\.h5"):
        convert([tmp_path / "own.h5"], tmp_path / "own.h5", overwrite=True)
    assert not [name for name in os.listdir(tmp_path) if "part-" in name or name == "out.h5"]


def test_what_was_written_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, _ = three(tmp_path)
    put = PlacedArchive.write

    def spoilt(self: PlacedArchive, name: str, first: int, rows: NDArray[np.uint8]) -> None:
        rows = rows.copy()
        rows[-1, 3] ^= first == 40 and name == "y"
        put(self, name, first, rows)

    monkeypatch.setattr(PlacedArchive, "write", spoilt)
    with pytest.raises(kn.CorruptFileError, match=r"out\.h5: y does not hold what was written, samples 40 to 80"):
        convert(paths, tmp_path / "out.h5")
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "b.z.npz", "c.h5"]
    assert not convert(paths, tmp_path / "out.h5", verify=False).verified


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=str)
def test_an_interrupt_leaves_nothing(options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, _ = three(tmp_path)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(paths, tmp_path / "out.h5", progress=interrupt, **options)
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "b.z.npz", "c.h5"]


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.random.default_rng(0).standard_normal((4000, 100)))
    code = (
        "import resource, kinema as kn, kinema.ml\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "for options in ({}, {'layout': 'samples:50'}, {'compression': 'gzip'}, {'checkpoint': 'run.ckpt'}):\n"
        "    try: kinema.ml.convert('in.npz', 'out.h5', **options)\n"
        "    except kn.FileIOError as error: print(error)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=100
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and all("out.h5: " in line and "cannot write" in line for line in lines), done
    assert [name for name in os.listdir(tmp_path) if name != "in.npz" and not name.startswith("out.part-")] in (
        [],
        ["run.ckpt"],
    )
    assert len(os.listdir(tmp_path)) in (1, 3)


def test_memory_is_bounded(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((30_000, 200)))
    np.savez(tmp_path / "b.npz", x=np.ones((30_000, 200)))
    code = (
        "import kinema.ml, sys\n"
        "from kinema.base.resources import peak_memory\n"
        "kinema.ml.convert('a.npz', 'w.h5', memory='8 MiB', workers=2)\n"
        "before = peak_memory()\n"
        "kinema.ml.convert(['a.npz', 'b.npz'] * 2, 'out.h5', memory='16 MiB', workers=2, **eval(sys.argv[1]))\n"
        "print(peak_memory() - before)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    for options in ("{}", "{'compression': 'lz4'}"):
        command = [sys.executable, "-c", code, f"{options} | {{'overwrite': True}}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=100)
        # 192 MB of samples
        assert int(done.stdout) < 32 << 20, done
        (tmp_path / "w.h5").unlink()


def test_a_source_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    for value in (1.0, 2.0, 3.0):
        np.savez(tmp_path / "new.npz", x=np.full((50, 10), value))
        os.replace(tmp_path / "new.npz", tmp_path / "in.npz")
        convert(tmp_path / "in.npz", tmp_path / "out.h5", overwrite=True)
        assert (SampleDataset(tmp_path / "in.npz").read(range(50))["x"] == value).all()
        assert (SampleDataset(tmp_path / "out.h5").read(range(50))["x"] == value).all()


# -- what is said ------------------------------------------------------------------------------------------------------


def test_a_plan_says_what_a_loop_reads_and_writes_nothing(tmp_path: Path) -> None:
    paths, _ = three(tmp_path, features=1000)
    before = sorted(os.listdir(tmp_path))
    text = str(plan_conversion(paths))
    assert "123 samples of 3 files" in text and "x 123 x 1000 float64, contiguous" in text
    assert "1.00 in exact random order" in text and "read in place, in any order" in text
    assert "1 file with deflated members" in text
    plan = plan_conversion(paths, layout="samples:41", compression="zstd")
    # all chunks are touched by a batch of all samples
    assert plan.fields[0].decoded_per_useful(123, 123) == pytest.approx(1.0, abs=1e-6)
    # and by one sample one of 41
    assert plan.fields[0].decoded_per_useful(1, 123) == pytest.approx(41)
    assert "chunks of 41 samples" in str(plan)
    assert "order='windowed'" in str(plan_conversion(paths * 30, layout="samples:41", compression="zstd"))
    assert sorted(os.listdir(tmp_path)) == before


def test_progress_and_the_result(tmp_path: Path) -> None:
    paths, _ = three(tmp_path)
    said: list[tuple[int, int]] = []
    done = convert(paths, tmp_path / "out.h5", progress=lambda done, total: said.append((done, total)))
    n_bytes = 123 * (33 + 2) * 8
    assert done.n_bytes == n_bytes and said[-1] == (2 * n_bytes, 2 * n_bytes)
    assert sorted(said) == said
    assert done.timings.keys() == {"read", "write", "compare"} and done.gib_per_second > 0
    assert "123 samples of 3 files" in str(done) and "read back and compared" in str(done)


def test_checksums_of_pieces_are_that_of_the_whole() -> None:
    random = np.random.default_rng(5)
    for lengths in ((0, 0), (1, 0), (0, 1), (1000, 1), (3, 100_001)):
        first, second = (random.bytes(n) for n in lengths)
        assert combined(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def test_the_error_of_a_thread_is_raised_and_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, _ = three(tmp_path)

    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("of a thread")

    monkeypatch.setattr(passes.WritePass, "_converted", fails)
    for options in ({}, {"compression": "lz4"}):
        with pytest.raises(ZeroDivisionError, match="of a thread"):
            kinema.ml.convert(paths, tmp_path / "out.h5", **options)  # type: ignore[arg-type]
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "b.z.npz", "c.h5"]
