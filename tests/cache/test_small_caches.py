"""Caches that are too small, and full disks: bytes from the source are those that are read, and a note says why."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema import _core, ml
from kinema.cache import NodeCache
from kinema.cli import main
from kinema.testing.keepers import settle

BLOCK = 256 << 10
ROW = 4 << 10
N_BLOCKS = 64
#: of a block with its checksums
STORED = BLOCK + 8704
#: bytes from the source for each byte that is given
MOST = 1.2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.write_bytes(random.Random(1).randbytes(N_BLOCKS * BLOCK))
    settle(made)
    return made


def _read_rows(file: _core.CachedFile, content: bytes, places: list[int]) -> None:
    for place in places:
        assert file.read_at(place, ROW) == content[place : place + ROW]


def _random(seed: int) -> list[int]:
    places = list(range(0, N_BLOCKS * BLOCK, ROW))
    random.Random(seed).shuffle(places)
    return places


def _ascending_reads(seed: int) -> list[int]:
    return list(range(0, N_BLOCKS * BLOCK, ROW))


def _windowed_reads(seed: int) -> list[int]:
    """All rows of three blocks at a time, mixed."""
    mixed, places = random.Random(seed), []
    for first in range(0, N_BLOCKS, 3):
        window = list(range(first * BLOCK, min(first + 3, N_BLOCKS) * BLOCK, ROW))
        mixed.shuffle(window)
        places += window
    return places


@pytest.mark.parametrize("n_blocks", [4, 8, 12])
@pytest.mark.parametrize("order", [_random, _ascending_reads, _windowed_reads])
def test_a_cache_that_is_too_small_takes_no_more_than_is_read(
    tmp_path: Path, path: Path, order: Callable[[int], list[int]], n_blocks: int
) -> None:
    content = path.read_bytes()
    _core.take_node_cache_troubles()
    # a folder is told of once in a process, and pytest may give two tests the same one
    folder = tmp_path / f"cache-{order.__name__}-{n_blocks}"
    cache = _core.NodeCache(str(folder), n_blocks * STORED, BLOCK)
    file = cache.open(str(path))
    for epoch in range(2):
        _read_rows(file, content, order(epoch))
    counts = cache.counts()
    assert counts["bytes_read"] == 2 * len(content)
    assert counts["bytes_source"] <= MOST * counts["bytes_read"], counts
    told = _core.take_node_cache_troubles()
    if order is _random:
        assert len(told) == 1 and "too small for what is read" in told[0] and "raise limit=" in told[0]
        # what is there is used
        assert counts["bytes_hit"] > 0 and counts["evicted"] < 10 * n_blocks
    else:
        # blocks are used before they are removed
        assert told == [] and counts["bytes_direct"] == 0
        assert counts["bytes_source"] == 2 * len(content)


def test_a_cache_that_is_large_enough_fetches_each_byte_once(tmp_path: Path, path: Path) -> None:
    content = path.read_bytes()
    cache = _core.NodeCache(str(tmp_path / "cache"), (N_BLOCKS + 1) * STORED, BLOCK)
    for epoch in range(2):
        _read_rows(cache.open(str(path)), content, _random(epoch))
    counts = cache.counts()
    assert (counts["bytes_source"], counts["bytes_direct"], counts["evicted"]) == (len(content), 0, 0)


def test_after_reads_at_random_a_file_that_is_read_in_order_is_cached_again(tmp_path: Path, path: Path) -> None:
    content = path.read_bytes()
    cache = _core.NodeCache(str(tmp_path / "cache"), 8 * STORED, BLOCK)
    file = cache.open(str(path))
    _read_rows(file, content, _random(1))
    assert cache.counts()["bytes_direct"] > 0
    # each block is read twice in a row
    twice = [place for block in range(N_BLOCKS) for place in 2 * list(range(block * BLOCK, (block + 1) * BLOCK, ROW))]
    for _ in range(4):
        _read_rows(file, content, twice)
    before = cache.counts()
    _read_rows(file, content, twice)
    counts = cache.counts()
    assert counts["bytes_source"] - before["bytes_source"] < 1.3 * len(content)


@pytest.mark.parametrize("order", ["random", "windowed"])
def test_a_loader_with_a_cache_that_is_too_small(tmp_path: Path, order: str, counted: Any) -> None:
    x = np.random.default_rng(1).normal(size=(2048, 512)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    settle(tmp_path / "x.npy")
    cache = NodeCache(tmp_path / "cache", 6 * STORED, BLOCK)
    data = ml.SampleDataset(tmp_path / "x.npy", node_cache=cache, file_is_sample=False)
    counted()
    loader = ml.Loader(data, 32, order=order, seed=1, tensors=False, next_epoch=False)
    for _ in range(2):
        seen = [batch.ids.copy() for batch in loader if (batch["samples"] == x[batch.ids]).all()]
        assert sorted(np.concatenate(seen).tolist()) == list(range(2048))
    found = counted()
    # and once what fills the cache
    assert found.bytes_source <= MOST * found.bytes_read + cache.limit, found


def test_what_is_staged_is_stored_whatever_was_read(tmp_path: Path, path: Path) -> None:
    content, root = path.read_bytes(), tmp_path / "cache"
    cache = _core.NodeCache(str(root), 8 * STORED, BLOCK)
    _read_rows(cache.open(str(path)), content, _random(1))
    other = tmp_path / "other"
    other.write_bytes(random.Random(2).randbytes(6 * BLOCK))
    settle(other)
    done = NodeCache(root, 8 * STORED, BLOCK).fill(other)
    assert (done["fetched_blocks"], done["not_stored"]) == (6, 0)


def test_a_fill_that_stores_nothing_ends_with_the_reason(tmp_path: Path, path: Path, capsys: Any) -> None:
    root = tmp_path / "cache"
    NodeCache(root, "64 MiB", BLOCK)
    # no file may be as long as a block
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (BLOCK // 2, hard))
    try:
        with pytest.raises(SystemExit) as ended:
            main(["cache", "fill", str(path), "--node-cache", str(root), "--block", str(BLOCK)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"{root}: nothing was stored in the node cache: a block could not be stored: File too large" in said


def test_a_data_set_notes_a_small_cache(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(2048, 1024)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    settle(tmp_path / "x.npy")
    cache = NodeCache(tmp_path / "cache", 4 * STORED, BLOCK)
    data = ml.SampleDataset(tmp_path / "x.npy", node_cache=cache, file_is_sample=False)

    def read() -> None:
        for one in np.random.default_rng(2).permutation(2048):
            data.read([one])

    with pytest.warns(kn.Note, match="the node cache is too small for what is read"):
        read()
