"""Events of the node cache in traces: their numbers are those of its counts."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import kinema as kn
from kinema import _core
from kinema.testing.keepers import settle

BLOCK = 64 << 10


def test_events_have_the_numbers_of_the_counts(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(12 * BLOCK))
    settle(path)
    cache = _core.NodeCache(str(tmp_path / "cache"), 6 * BLOCK, BLOCK)
    with kn.trace(tmp_path / "trace"):
        file = cache.open(str(path))
        for place in (0, 1000, BLOCK - 5, *range(0, 12 * BLOCK, BLOCK // 2)):
            file.read_at(place, 10_000)
    counts = cache.counts()
    events, sizes = Counter[str](), Counter[str]()
    for journal in (tmp_path / "trace").glob("*.pfw"):
        for line in journal.read_text().splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("cat") == "cache":
                events[event["name"]] += 1
                sizes[event["name"]] += event["args"]["size"]
    assert events["cache.hit"] == counts["hits"] > 10
    assert sizes["cache.hit"] == counts["bytes_hit"]
    assert events["cache.miss"] == counts["misses"] == events["cache.fetch"] == 12
    assert sizes["cache.hit"] + sizes["cache.miss"] == counts["bytes_read"]
    assert sizes["cache.fetch"] == counts["bytes_source"] == 12 * BLOCK
    assert events["cache.evict"] == counts["evicted"] >= 6
