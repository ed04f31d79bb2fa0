"""Damaged blocks of a node cache: kinds of damage x when checksums are compared. Found damage is never served."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema import _core, ml
from kinema.cache import NodeCache
from kinema.cache import open as open_cached
from kinema.testing import random_walk, write_dcd
from kinema.testing.keepers import settle

BLOCK = 256 << 10
PIECE = 64 << 10
LIMIT = 64 << 20


def _bit(block: Path, blocks: list[Path]) -> None:
    with block.open("r+b") as file:
        file.seek(PIECE + 77)
        byte = file.read(1)
        file.seek(PIECE + 77)
        file.write(bytes([byte[0] ^ 4]))


def _zeros(block: Path, blocks: list[Path]) -> None:
    with block.open("r+b") as file:
        file.seek(PIECE)
        file.write(bytes(PIECE))


def _pieces_exchanged(block: Path, blocks: list[Path]) -> None:
    data = bytearray(block.read_bytes())
    data[:PIECE], data[PIECE : 2 * PIECE] = data[PIECE : 2 * PIECE], data[:PIECE]
    block.write_bytes(data)


def _cut(block: Path, blocks: list[Path]) -> None:
    block.write_bytes(block.read_bytes()[: BLOCK // 2])


def _checksum(block: Path, blocks: list[Path]) -> None:
    with block.open("r+b") as file:
        file.seek(BLOCK + 3)
        file.write(b"\xff\x00\xff")


def _copy_another_block(block: Path, blocks: list[Path]) -> None:
    block.write_bytes(blocks[0].read_bytes())


DAMAGES: dict[str, Callable[[Path, list[Path]], None]] = {
    "bit": _bit,
    "zeros": _zeros,
    "pieces": _pieces_exchanged,
    "cut": _cut,
    "checksum": _checksum,
    "another": _copy_another_block,
}
#: what is not seen without checksums of the content
OF_CONTENT = {"bit", "zeros", "pieces"}


def _blocks(root: Path) -> list[Path]:
    return sorted((root / "kinema-cache-1" / "blocks").glob("*/*"), key=lambda path: int(path.name, 16))


def _content(path: Path, size: int) -> bytes:
    content = random.Random(size).randbytes(size)
    path.write_bytes(content)
    settle(path)
    return content


def _whole(file: _core.CachedFile, content: bytes) -> bytes:
    return bytes(file.read_at(0, len(content)))


def _rows(file: _core.CachedFile, content: bytes) -> bytes:
    """In small reads, in an order of their own."""
    found, places = bytearray(len(content)), list(range(0, len(content), 30_001))
    random.Random(3).shuffle(places)
    for place in places:
        data = file.read_at(place, 30_001)
        found[place : place + len(data)] = data
    return bytes(found)


@pytest.mark.parametrize("read", [_whole, _rows])
@pytest.mark.parametrize("verify", ["never", "first", "always"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_block_is_fetched_again(
    tmp_path: Path, damage: str, verify: str, read: Callable[[_core.CachedFile, bytes], bytes]
) -> None:
    path, root = tmp_path / "data", tmp_path / "cache"
    content = _content(path, 3 * BLOCK + 1000)
    _core.NodeCache(str(root), LIMIT, BLOCK).open(str(path)).read_at(0, len(content))
    DAMAGES[damage](_blocks(root)[1], _blocks(root))
    _core.take_node_cache_troubles()
    # another process has another object
    cache = _core.NodeCache(str(root), LIMIT, BLOCK, verify)
    found = read(cache.open(str(path)), content)
    if verify == "never" and damage in OF_CONTENT:
        assert found != content, "it is what never means"
        assert _core.take_node_cache_troubles() == []
        return
    assert found == content
    counts = cache.counts()
    assert (counts["corrupt"], counts["refetched"], counts["bytes_source"]) == (1, 1, BLOCK)
    (told,) = _core.take_node_cache_troubles()
    assert told.startswith(f"{root}: a damaged block of the node cache was removed; its bytes are read from the file: ")
    assert cache.verify_all() == []


@pytest.mark.parametrize("verify", ["never", "first", "always"])
def test_damage_after_the_first_read_is_found_by_always(tmp_path: Path, verify: str) -> None:
    path, root = tmp_path / "data", tmp_path / "cache"
    content = _content(path, 2 * BLOCK)
    cache = _core.NodeCache(str(root), LIMIT, BLOCK, verify)
    file = cache.open(str(path))
    assert _whole(file, content) == content
    _bit(_blocks(root)[1], [])
    assert (_whole(file, content) == content) == (verify == "always")


def test_a_block_that_another_process_fetched_again_is_compared_again(tmp_path: Path) -> None:
    path, root = tmp_path / "data", tmp_path / "cache"
    content = _content(path, BLOCK)
    mine, other = (_core.NodeCache(str(root), LIMIT, BLOCK) for _ in range(2))
    assert _whole(mine.open(str(path)), content) == content
    mine.clear()
    assert _whole(other.open(str(path)), content) == content
    _bit(_blocks(root)[0], [])
    assert _whole(mine.open(str(path)), content) == content
    assert mine.counts()["corrupt"] == 1


def _samples(path: Path, cache: NodeCache) -> Any:
    return ml.SampleDataset(path, node_cache=cache, file_is_sample=False).read(np.arange(64)).copy()["samples"]


def _foreign(path: Path, cache: NodeCache) -> Any:
    with open_cached(path, cache) as file:
        return np.load(file)


def _trajectory(path: Path, cache: NodeCache) -> Any:
    return kn.open(path, node_cache=cache).read()


def _run(path: Path, cache: NodeCache) -> Any:
    traj = kn.open(path, node_cache=cache)
    analysis = kn.analysis.from_function(lambda frame: frame.positions, traj).run(runner="threads")
    assert analysis.record is not None and any("damaged" in note for note in analysis.record.notes)
    return analysis.results.values


@pytest.mark.parametrize("read", [_samples, _foreign, _trajectory, _run])
def test_whoever_reads_gets_a_note(tmp_path: Path, read: Callable[[Path, NodeCache], Any]) -> None:
    root = tmp_path / "cache"
    if read in (_samples, _foreign):
        path, expected = tmp_path / "x.npy", random_walk(64, 2000)
        np.save(path, expected)
    else:
        path, expected = tmp_path / "a.dcd", random_walk(100, 600)
        write_dcd(path, expected)
    settle(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NodeCache(root, LIMIT, BLOCK).fill(path)
    _bit(_blocks(root)[1], [])
    with pytest.warns(kn.Note, match="a damaged block of the node cache was removed; its bytes are read from the file"):
        found = read(path, NodeCache(root, LIMIT, BLOCK))
    np.testing.assert_array_equal(found, expected)


def test_the_former_name_is_noted(tmp_path: Path) -> None:
    with pytest.warns(kn.Note, match='verify="fetch" of a node cache is called verify="never" now'):
        assert NodeCache(tmp_path / "cache", verify="fetch").verify == "never"
    # it is kept in the folder
    assert NodeCache(tmp_path / "cache").verify == "never"
    assert NodeCache(tmp_path / "cache", verify="first").verify == NodeCache(tmp_path / "cache").verify == "first"
    assert NodeCache(tmp_path / "other").verify == "first"
    with pytest.raises(kn.ArgumentError, match="verify must be one of 'never', 'first', 'always', found 'often'"):
        NodeCache(tmp_path / "cache", verify="often")
