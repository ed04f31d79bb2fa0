"""Events of the node cache in traces: their numbers are those of its counts."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

import kinema as kn
from kinema import _core
from kinema.cache import NodeCache
from kinema.cache.counts import counts_of_all
from kinema.report import summarise
from kinema.testing import random_walk, write_dcd
from kinema.testing.keepers import settle

BLOCK = 64 << 10


def events_in(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """How many events of the cache there are in the journals of all processes, by name, and their bytes."""
    events, sizes = Counter[str](), Counter[str]()
    for journal in folder.glob("*.pfw"):
        for line in journal.read_text().splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("cat") == "cache":
                events[event["name"]] += 1
                sizes[event["name"]] += event["args"]["size"]
    return events, sizes


def test_events_have_the_numbers_of_the_counts(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(12 * BLOCK))
    settle(path)
    cache = _core.NodeCache(str(tmp_path / "cache"), 6 * BLOCK, BLOCK)
    with kn.trace(tmp_path / "trace"):
        file = cache.open(str(path))
        # all of each block: the cache is read around if much of what it fetches is not read
        for place in (0, 1000, BLOCK - 5, *range(0, 12 * BLOCK, BLOCK // 2)):
            file.read_at(place, BLOCK // 2)
    counts = cache.counts()
    events, sizes = events_in(tmp_path / "trace")
    assert events["cache.hit"] == counts["hits"] > 10
    assert sizes["cache.hit"] == counts["bytes_hit"]
    assert events["cache.miss"] == counts["misses"] == events["cache.fetch"] == 12
    assert sizes["cache.hit"] + sizes["cache.miss"] == counts["bytes_read"]
    assert sizes["cache.fetch"] == counts["bytes_source"] == 12 * BLOCK
    assert events["cache.evict"] == counts["evicted"] >= 6


@pytest.mark.processes
def test_events_and_summary_of_workers_have_the_numbers_of_the_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(2000, 150))
    settle(path)
    cache = NodeCache(tmp_path / "node", limit="1 GiB", block=BLOCK)
    for warm in (False, True):
        before, folder = counts_of_all(), tmp_path / f"trace-{warm}"
        with kn.trace(folder):
            kn.analysis.RMSF(kn.open(path, stored=False, node_cache=cache), align="average").run(
                runner="processes", workers=2
            )
        counts = counts_of_all() - before
        assert len(list(folder.glob("*.pfw"))) == 3
        events, sizes = events_in(folder)
        assert (events["cache.hit"], sizes["cache.hit"]) == (counts.hits, counts.bytes_hit)
        assert events["cache.miss"] == counts.misses
        assert sizes["cache.fetch"] == counts.bytes_source == (0 if warm else path.stat().st_size)
        found = summarise(folder).cache
        assert found is not None
        assert (found.hits, found.misses, found.evictions) == (counts.hits, counts.misses, 0)
        assert (found.bytes_hit, found.bytes_fetched) == (counts.bytes_hit, counts.bytes_source)
    assert counts.misses == 0 < counts.hits
