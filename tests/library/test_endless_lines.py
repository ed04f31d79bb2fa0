"""Text files with lines without an end: refused before a library takes such a line into memory."""

from __future__ import annotations

import bz2
import gzip
import os
from pathlib import Path

import pytest

import kinema as kn
from kinema.base.input_files import check_lines
from kinema.model.selection.gromacs_index import read_groups
from kinema.testing import random_walk, write_xtc

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

ENDLESS = "expected text in lines of less than 524288 bytes, found no end of a line in as many"


def _endless(path: Path, begin: bytes = b"", packed: object = None) -> Path:
    """`begin`, then 8 MiB of zeros: a hole, or packed."""
    if packed is None:
        path.write_bytes(begin)
        os.truncate(path, len(begin) + (8 << 20))
    else:
        path.write_bytes(packed(begin + bytes(8 << 20)))  # type: ignore[operator]
    return path


@pytest.mark.parametrize(("suffix", "packed"), [("", None), (".gz", gzip.compress), (".bz2", bz2.compress)])
def test_a_line_without_an_end_is_refused_with_its_byte(tmp_path: Path, suffix: str, packed: object) -> None:
    path = _endless(tmp_path / f"a.gro{suffix}", b"title\n" * 200_000, packed)
    with pytest.raises(kn.CorruptFileError, match=ENDLESS) as caught:
        check_lines(path, "file")
    assert caught.value.offset == 3 << 19
    assert str(caught.value).startswith(f"{path}: byte {3 << 19}: ")
    # beyond the bytes that are looked at
    check_lines(path, "file", 1 << 20)


def test_long_lines_and_ends_of_every_kind_are_text(tmp_path: Path) -> None:
    path = tmp_path / "a.psf"
    for end in (b"\n", b"\r\n", b"\r"):
        path.write_bytes((b"1" * 400_000 + end) * 12)
        check_lines(path, "file")
    path.write_bytes(b"1" * ((1 << 19) - 1))
    check_lines(path, "file")


def test_what_is_no_gzip_is_an_error_of_the_file(tmp_path: Path) -> None:
    for data in (b"nothing", gzip.compress(bytes(1 << 20))[:-900], gzip.compress(b"a" * 99)[:-8] + b"12345678"):
        (tmp_path / "a.gro.gz").write_bytes(data)
        with pytest.raises(kn.CorruptFileError, match=r"a\.gro\.gz: cannot be decompressed"):
            check_lines(tmp_path / "a.gro.gz", "file")


def test_files_that_mdanalysis_reads_are_looked_at_first(tmp_path: Path) -> None:
    for name in ("a.xyz", "a.lammpsdump", "a.gro", "a.pdb"):
        with pytest.raises(kn.CorruptFileError, match=ENDLESS):
            kn.open(_endless(tmp_path / name, b"2\n\n"), format="LAMMPSDUMP" if "dump" in name else None).scan()
    write_xtc(tmp_path / "a.xtc", random_walk(2, 12))
    for name in ("b.gro", "b.psf", "b.xyz", "b.prmtop", "b.pdb"):
        traj = kn.open(tmp_path / "a.xtc", _endless(tmp_path / name, b"12\n"), stored=False)
        with pytest.raises(kn.CorruptFileError, match=ENDLESS):
            traj.select("name CA")


def test_what_an_itp_file_includes_is_looked_at_first(tmp_path: Path) -> None:
    write_xtc(tmp_path / "a.xtc", random_walk(2, 12))
    (tmp_path / "b.itp").write_text('#include "c.itp"\n')
    (tmp_path / "c.itp").write_text('#include "b.itp"\n#include "d.itp"\n')
    os.mkfifo(tmp_path / "d.itp")
    for expected in (r"d\.itp: is a pipe \(FIFO\)", "is a character device", ENDLESS):
        traj = kn.open(tmp_path / "a.xtc", tmp_path / "b.itp", stored=False)
        with pytest.raises(kn.Error, match=expected):
            traj.select("name CA")
        (tmp_path / "d.itp").unlink()
        if "FIFO" in expected:
            (tmp_path / "d.itp").symlink_to("/dev/zero")
        else:
            _endless(tmp_path / "d.itp")


def test_an_index_file_that_memory_has_no_room_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _endless(tmp_path / "a.ndx", b"[ a ]\n1\n")
    monkeypatch.setattr("kinema.model.selection.gromacs_index.physical_memory", lambda: 8 << 20)
    with pytest.raises(kn.ArgumentError, match=r"too large for an index file, expected at most 1048576 bytes"):
        read_groups(path)
