"""Which tests see a change, and which are too slow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .test_tools import tool

THERE = {"analysis", "cache", "cli", "execution", "formats", "library", "project", "runners", "transforms", "writing"}


@pytest.mark.parametrize(
    ("path", "seen_by"),
    [
        ("python/kinema/cli/common.py", ["cli", "library"]),
        ("python/kinema/runners/scheduler.py", ["execution", "library", "runners"]),
        ("python/kinema/base/input_files.py", ["cli", "library"]),
        ("crates/kinema-analysis/src/rmsd.rs", ["analysis", "library", "transforms"]),
        ("crates/kinema-net/src/cache/fetch.rs", ["cache", "library"]),
        ("tests/formats/h5md/test_format.py", ["formats"]),
        ("tests/conftest.py", sorted(THERE)),
        ("docs/testing.md", ["project"]),
        ("Makefile", ["project"]),
        ("benchmarks/run.py", []),
    ],
)
def test_folders_of_a_change(path: str, seen_by: list[str]) -> None:
    assert tool("changed_tests").folders([path], THERE) == seen_by


def test_every_part_of_the_package_has_tests() -> None:
    changed = tool("changed_tests")
    there = {path.name for path in (changed.ROOT / "tests").iterdir() if path.is_dir()}
    parts = [path.name for path in (changed.ROOT / "python/kinema").iterdir() if (path / "__init__.py").exists()]
    alone = [part for part in parts if len(changed.folders([f"python/kinema/{part}/x.py"], there)) < 2]
    assert alone == []


def test_a_slow_test_needs_a_reason(tmp_path: Path) -> None:
    check = tool("check_slow_tests").check
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").touch()
    (tmp_path / "tests/slow.toml").write_text('"tests/test_a.py::test_one" = "kills at each of 1000 moments"\n')
    assert check(tmp_path) == []
    kept = tmp_path / ".pytest_cache/v/kinema/slow"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"tests/test_a.py::test_one[x]": 31.0, "tests/test_a.py::test_other": 30.5}))
    [line] = check(tmp_path)
    assert line.startswith("tests/test_a.py::test_other took 30.5 s")
    # a run on a slow machine: 1.2 % of its seconds are 36
    kept.with_name("seconds").write_text("3000")
    assert check(tmp_path) == []
    kept.with_name("seconds").write_text("2000")
    assert len(check(tmp_path)) == 1
    (tmp_path / "tests/test_a.py").unlink()
    assert any("no such file" in line for line in check(tmp_path))
