"""Fixtures of the tests of caches and published files."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_key(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration folder of a user without a key."""
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder
