"""Errors: classes, places, pickling, and what bad files give."""

import os
import pickle

import pytest

import kinema as kn
from kinema.base import errors
from kinema.testing import dcd_bytes, random_walk

KINDS = {
    "NotFound": FileNotFoundError,
    "PermissionDenied": PermissionError,
    "Io": OSError,
    "Truncated": EOFError,
    "Corrupt": ValueError,
    "Unsupported": ValueError,
    "InvalidArgument": ValueError,
    "OutOfRange": IndexError,
    "MemoryLimit": MemoryError,
    "Cancelled": kn.CancelledError,
    "Internal": RuntimeError,
    "SomethingNew": kn.InternalError,
}


@pytest.mark.parametrize("kind", KINDS)
def test_classes(kind):
    error = errors.make(kind, "a.xtc: what, expected 1, found 2", "a.xtc", "XTC", 3, 4)
    assert isinstance(error, kn.Error)
    assert isinstance(error, KINDS[kind])
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert type(one) is type(error)
        assert str(one) == "a.xtc: what, expected 1, found 2"
        assert (one.path, one.format, one.frame, one.offset) == ("a.xtc", "XTC", 3, 4)
    assert errors.make(kind, "short").path is None


def test_every_kind_of_the_core_is_known():
    from pathlib import Path

    source = Path(__file__).parents[2] / "crates" / "kinema-core" / "src" / "error.rs"
    body = source.read_text().split("pub enum ErrorKind {")[1].split("}")[0]
    kinds = {line.strip().rstrip(",") for line in body.splitlines() if line.strip() and "///" not in line}
    assert kinds == set(errors._CLASSES)


@pytest.mark.parametrize("suffix", ["xtc", "dcd"])
def test_files_that_cannot_be_read(tmp_path, suffix):
    with pytest.raises(FileNotFoundError, match=f"none.{suffix}") as missing:
        kn.open(tmp_path / f"none.{suffix}")
    assert missing.value.path == str(tmp_path / f"none.{suffix}")
    folder = tmp_path / f"folder.{suffix}"
    folder.mkdir()
    with pytest.raises(kn.Error, match="directory"):
        kn.open(folder)
    empty = tmp_path / f"empty.{suffix}"
    empty.touch()
    with pytest.raises(kn.Error, match="empty"):
        kn.open(empty).read()
    text = tmp_path / f"text.{suffix}"
    text.write_text("REMARK this is a PDB file\nATOM 1\n" * 20)
    with pytest.raises(kn.Error, match=rf"text\.{suffix}") as wrong:
        kn.open(text).read()
    assert isinstance(wrong.value, ValueError)
    for raised in (missing, wrong):
        assert "\n" not in str(raised.value)
        assert not str(raised.value).endswith(".")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_that_may_not_be_read(tmp_path):
    path = tmp_path / "closed.dcd"
    path.write_bytes(dcd_bytes(random_walk(2, 3)))
    path.chmod(0)
    with pytest.raises(PermissionError):
        kn.open(path)


def test_truncated_file(tmp_path):
    data = dcd_bytes(random_walk(4, 10))
    path = tmp_path / "cut.dcd"
    path.write_bytes(data[:-5])
    with pytest.raises(kn.TruncatedFileError, match="drop"):
        kn.open(path, on_truncated="error").read()
    traj = kn.open(path)
    with pytest.warns(kn.Note, match=rf"cut\.dcd: DCD frame 3, byte {len(data) - 144}: .*left out"):
        assert traj.n_frames == 3
    assert traj.parts[0].truncation


@pytest.mark.parametrize("n_atoms", [2**31 - 1, 2**28, -1, 0])
def test_absurd_numbers_of_atoms(tmp_path, n_atoms):
    """Nothing is allocated for what a header claims before the file's size is checked."""
    data = bytearray(dcd_bytes(random_walk(1, 3)))
    place = data.index(b"MADE FOR A TEST") + 80 + 4 + 4
    data[place : place + 4] = n_atoms.to_bytes(4, "little", signed=True)
    dcd = tmp_path / "absurd.dcd"
    dcd.write_bytes(data)
    xtc = tmp_path / "absurd.xtc"
    xtc.write_bytes((1995).to_bytes(4, "big") + n_atoms.to_bytes(4, "big", signed=True) + bytes(200))
    for path in (dcd, xtc):
        try:
            found = kn.open(path, stored=False).read()
        except kn.Error as error:
            assert not isinstance(error, kn.InternalError)
        else:
            # a header that may be true, of a file that ends within its first frame
            assert found.shape == (0, n_atoms, 3)
