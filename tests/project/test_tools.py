"""The lint scripts find what they are for, and the project itself is clean."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["check_layers", "check_error_messages"])
def test_the_project_is_clean(name: str) -> None:
    assert tool(name).check(ROOT) == []


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("wrong magic number, expected {}, found {}", False),
        ("{path}: no such file; check the name", False),
        ("XTC files end here", False),
        ("MDAnalysis cannot read this", False),
        ("Wrong magic number", True),
        ("no such file.", True),
        ("", True),
        ("two\nlines", True),
    ],
)
def test_form_of_messages(message: str, wrong: bool) -> None:
    assert (tool("check_error_messages").complaint(message) is not None) == wrong


def test_messages_are_found_in_both_languages() -> None:
    messages = tool("check_error_messages")
    rust = 'Err(Error::new(\n    ErrorKind::Corrupt,\n    format!("Bad {x} \\\n        here"),\n))'
    assert list(messages.rust_messages(rust)) == [(1, "Bad {x} here")]
    python = 'raise ArgumentError(f"{path}: Bad" f" {more}.", path=path)'
    assert list(messages.python_messages(python, {"ArgumentError"})) == [(1, "{}: Bad {}.")]


def test_use_trees_are_unfolded() -> None:
    layers = tool("check_layers")
    text = (
        "use crate::{error::Error, index::{Index, table}};\nuse super::xtc;\nlet x = crate::engine::run();\n"
        "// use crate::comment;\n#[cfg(test)]\nmod tests { use crate::plan::Plan; }"
    )
    found = [path[:2] for path in layers.rust_paths(text)]
    assert found == [["crate", "error"], ["crate", "index"], ["crate", "index"], ["super", "xtc"], ["crate", "engine"]]
    assert layers.absolute(["super", "xtc"], ["format", "dcd"]) == ["format", "xtc"]


def test_a_wrong_dependency_is_told(tmp_path: Path) -> None:
    layers = tool("check_layers")
    formats = tmp_path / "crates/kinema-core/src/format"
    formats.mkdir(parents=True)
    (formats / "dcd.rs").write_text("use super::xtc::Xtc;\nuse crate::engine::run;\n")
    (formats / "xtc.rs").write_text("use crate::source::Source;\n")
    package = tmp_path / "python/kinema"
    package.mkdir(parents=True)
    (package / "topology.py").write_text("def f():\n    from kinema.cli import main\n")
    (package / "novelty.py").write_text("")
    found = layers.check(tmp_path)
    assert "crates/kinema-core/src/format/dcd.rs: format dcd may not use format xtc" in found
    assert "crates/kinema-core/src/format/dcd.rs: format may not use engine" in found
    assert "python/kinema/topology.py:2: topology may not import cli" in found
    assert "python/kinema/novelty.py: module novelty has no row in tools/check_layers.py" in found
    assert len(found) == 4
