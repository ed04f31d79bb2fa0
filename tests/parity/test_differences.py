"""The page of differences has what Kinema and its peers find now."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools/write_differences.py"


def test_the_page_of_differences_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mdtraj")
    monkeypatch.syspath_prepend(TOOL.parent)
    tool = runpy.run_path(str(TOOL))
    written = tool["PAGE"].read_text(encoding="utf-8")
    if tool["versions"]() not in written:
        pytest.skip("the page was written with other versions of MDAnalysis or MDTraj")
    rows = tool["rows"]()
    assert all(row.numbers[0] for row in rows)
    # a difference has a reason
    assert not [row.what for row in rows if any(row.numbers[1:]) and not row.why]
    table = [line for line in written.splitlines() if re.match(r"\| (\w+, \w+|bulk|slab) \|", line)]
    assert [row.written() for row in rows] == table, "run: python tools/write_differences.py"
