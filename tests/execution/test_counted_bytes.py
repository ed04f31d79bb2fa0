"""Digests of what a checkpoint counts of a file: chosen cells, bytes that were changed, stored bytes that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinema.base.errors import CorruptFileError, FileNotFound, TruncatedFileError
from kinema.execution.checkpoint.counted import CountedBytes, packed, unpacked

MIB = 1 << 20


def test_every_byte_of_a_small_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "part"
    data = bytes(range(256)) * 20
    path.write_bytes(data)
    # those without a byte are left out
    counted = CountedBytes().digests(str(path), [(7, 7), (100, 2000), (2500, 4000)])
    assert [cell[:2] for cell in counted] == [(100, 2000), (2500, 4000)]
    CountedBytes.check(str(path), counted)
    for at in (100, 1999, 2500, 3999):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(CorruptFileError, match=rf"part: byte {100 if at < 2000 else 2500}: bytes .* were changed"):
            CountedBytes.check(str(path), counted)
    # the others may be changed, and there may be more
    path.write_bytes(b"x" * 100 + data[100:2000] + b"x" * 500 + data[2500:] + b"more")
    CountedBytes.check(str(path), counted)
    path.write_bytes(data[:3000])
    with pytest.raises(TruncatedFileError, match="part: byte 3000: the file is shorter than what was written of it"):
        CountedBytes.check(str(path), counted)
    path.unlink()
    with pytest.raises(FileNotFound, match="part"):
        CountedBytes.check(str(path), counted)


def test_of_a_large_file_some_cells_are_read_and_none_twice(tmp_path: Path) -> None:
    path = tmp_path / "part"
    with path.open("wb") as file:
        file.truncate(1000 * MIB)
    counting = CountedBytes()
    first = counting.digests(str(path), [(5, 200 * MIB)])
    assert first[0][:2] == (5, MIB) and first[-1][:2] == (199 * MIB, 200 * MIB)
    assert 32 <= len(first) <= 65
    path.write_bytes(b"")
    # all that is asked for again is known
    assert counting.digests(str(path), [(5, 200 * MIB)]) == first
    with path.open("wb") as file:
        file.truncate(1000 * MIB)
    later = counting.digests(str(path), [(5, 900 * MIB)])
    assert len(later) <= 65
    assert {cell[:2] for cell in later[:-1]} & {cell[:2] for cell in first[:-1]} == {
        cell[:2] for cell in first if cell[0] // MIB % 16 == 0
    }


@given(st.binary(max_size=60))
def test_stored_bytes_that_are_no_digests_are_an_error(data: bytes) -> None:
    try:
        found = unpacked(data)
    except (ValueError, RecursionError):
        return
    assert unpacked(packed(found)) == found


def test_stored_digests_come_back() -> None:
    counted = {"a.part": [(0, 5, "00ff")], "b.part": []}
    assert unpacked(packed(counted)) == counted
    for wrong in (b'{"a": [[5, 5, ""]]}', b'{"a": [[-1, 5, ""]]}', b'{"a": [[0, 99999999, ""]]}', b'{"a": 3}', b"[]"):
        with pytest.raises(ValueError, match=r"."):
            unpacked(wrong)
