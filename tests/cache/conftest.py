"""Fixtures of the tests of caches and published files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kinema.cache.counts import CacheCounts, counts_of_all


@pytest.fixture
def own_key(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration folder of a user without a key."""
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder


@pytest.fixture
def counted() -> Callable[[], CacheCounts]:
    """A function that returns the counts since its last call."""
    last = counts_of_all()

    def counts_since_last() -> CacheCounts:
        nonlocal last
        now = counts_of_all()
        found, last = now - last, now
        return found

    return counts_since_last
