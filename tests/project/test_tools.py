"""The lint scripts find what they are for, and the project itself is clean."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kinema.analysis.registry import ANALYSES

ROOT = Path(__file__).resolve().parents[2]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
        "use crate::{error::Error, index::{Index, table}};\nuse super::xtc;\nlet x = crate::pipeline::run();\n"
        "// use crate::comment;\n#[cfg(test)]\nmod tests { use crate::plan::Plan; }"
    )
    found = [path[:2] for path in layers.rust_paths(text)]
    assert found == [
        ["crate", "error"],
        ["crate", "index"],
        ["crate", "index"],
        ["super", "xtc"],
        ["crate", "pipeline"],
    ]
    assert layers.absolute(["super", "xtc"], ["format", "dcd"]) == ["format", "xtc"]


def test_a_wrong_dependency_of_the_core_is_reported(tmp_path: Path) -> None:
    formats = tmp_path / "crates/kinema-core/src/format"
    formats.mkdir(parents=True)
    (formats / "dcd.rs").write_text("use super::xtc::Xtc;\nuse crate::pipeline::run;\n")
    (formats / "xtc.rs").write_text("use crate::source::Source;\n")
    assert tool("check_layers").check(tmp_path) == [
        "crates/kinema-core/src/format/dcd.rs: format dcd may not use format xtc",
        "crates/kinema-core/src/format/dcd.rs: format may not use pipeline",
    ]


def test_a_wrong_dependency_of_the_cache_is_reported(tmp_path: Path) -> None:
    source = tmp_path / "crates/kinema-net/src"
    for folder in ("cache", "peer", "other"):
        (source / folder).mkdir(parents=True)
    (source / "cache/fetch.rs").write_text("use crate::peer::Client;\nuse super::block::Block;\n")
    (source / "peer/blocks.rs").write_text("use crate::cache::Nodes;\n")
    (source / "other/mod.rs").touch()
    assert tool("check_layers").check(tmp_path) == [
        "crates/kinema-net/src/cache/fetch.rs: cache may not use peer",
        "crates/kinema-net/src/other/mod.rs: module other has no row in tools/check_layers.py",
    ]


def test_the_core_may_not_depend_on_another_crate(tmp_path: Path) -> None:
    core = tmp_path / "crates/kinema-core"
    core.mkdir(parents=True)
    (core / "Cargo.toml").write_text('[package]\nname = "kinema-core"\n[dependencies]\nkinema-net.workspace = true\n')
    assert tool("check_layers").check(tmp_path) == [
        "crates/kinema-core/Cargo.toml: kinema-core may not depend on kinema-net"
    ]


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ('let x = name == "XTC";', True),
        ('let x = "XTC" != name;', True),
        ('let x = name == "xtc";', True),
        ('let x = name.eq_ignore_ascii_case("XTC");', True),
        ('let x = matches!(name, "DCD");', True),
        ('let x = matches!(name, Some("DCD"));', True),
        ('let x = matches!(name, "other" | "DCD");', True),
        ('let x = match name {\n    "DCD" => 1,\n    _ => 0,\n};', True),
        ('let x = match name {\n    Some("DCD") if y => 1,\n    _ => 0,\n};', True),
        ("let x = match part.format.info().name { _ => 0 };", True),
        ("let x = part.format.info().name == first;", True),
        ("let x = first != part.format.info().name;", True),
        ('let x = name == "XTCs";', False),
        ('let x = error.in_format("XTC");', False),
        ('// name == "XTC"\nlet x = 1;', False),
        ('#[cfg(test)]\nmod tests { fn x() { assert!(name == "XTC"); } }', False),
    ],
)
def test_a_comparison_with_the_name_of_a_format_is_reported(tmp_path: Path, code: str, wrong: bool) -> None:
    formats = tmp_path / "crates/kinema-core/src/format"
    (formats / "dcd").mkdir(parents=True)
    xtc = '#[cfg(test)]\nmod tests;\nconst NAME: &str = "XTC";\nstatic INFO: FormatInfo = FormatInfo { name: NAME };\n'
    (formats / "xtc.rs").write_text(xtc + 'fn f(name: &str) -> bool { name == "DCD" }\n')
    (formats / "dcd/mod.rs").write_text('static INFO: FormatInfo = FormatInfo { name: "DCD" };\n')
    other = tmp_path / "crates/kinema-python/src/other.rs"
    other.parent.mkdir(parents=True)
    other.write_text(f"fn f() {{\n{code}\n}}\n")
    found = tool("check_layers").check(tmp_path)
    assert len(found) == wrong
    assert all(line.startswith("crates/kinema-python/src/other.rs:") for line in found)


def package(folder: Path, modules: dict[str, str]) -> Path:
    """A project with these modules of the package; `a/b` is kinema.a.b."""
    for name, text in modules.items():
        file = folder / f"python/kinema/{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def write_layers(folder: Path, modules: dict[str, str]) -> Path:
    """A project with these modules, empty folders for all layers, and this one's contracts of import-linter."""
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    layers = tool("check_package").layers_of(ROOT).keys() - {"__main__"}
    empty = {f"{layer}/__init__": "" for layer in layers} | {"__init__": "", "__main__": ""}
    return package(folder, empty | {"base/__init__": "from kinema import _core"} | modules)


def layers_said(root: Path) -> str:
    """The verdict of import-linter on the order of the folders."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--contract", "layers", "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "python")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert (done.returncode == 0) == ("1 kept, 0 broken" in done.stdout), done.stdout + done.stderr
    return done.stdout


def test_an_import_of_a_higher_folder_is_reported(tmp_path: Path) -> None:
    down = {"cli/stopping": "from kinema.model import frame", "model/frame": "if TYPE_CHECKING:\n    import kinema.cli"}
    up = {"model/frame": "def f():\n    from kinema.formats import registry"}
    write_layers(tmp_path, {**down, "formats/registry": ""})
    assert "kinema.model is not allowed" not in layers_said(tmp_path)
    package(tmp_path, up)
    assert "kinema.model is not allowed to import kinema.formats" in layers_said(tmp_path)


def test_a_folder_without_a_layer_is_reported(tmp_path: Path) -> None:
    assert "novelty" in layers_said(write_layers(tmp_path, {"novelty/__init__": "", "novelty/one": ""}))


def test_the_name_of_a_higher_module_in_a_string_is_reported(tmp_path: Path) -> None:
    by_name = (
        "from importlib import import_module\nTABLE = {'Block': 'kinema.formats.xtc'}\nimport_module(TABLE['Block'])"
    )
    root = write_layers(
        tmp_path, {"model/frame": by_name, "trajectory/opening": by_name, "model/atoms": "A = 'kinema.cli'"}
    )
    assert tool("check_package").check(root) == [
        "python/kinema/model/frame.py:2: may not import kinema.formats.xtc, which lies above it"
    ]


def test_an_import_of_the_facade_below_it_is_reported(tmp_path: Path) -> None:
    modules = {
        "model/frame": "def f():\n    import kinema as kn",
        "model/atoms": "from kinema import _core, base, Block",
        "cli/app": "import kinema",
    }
    assert tool("check_package").check(write_layers(tmp_path, modules)) == [
        "python/kinema/model/atoms.py:1: imports Block of the facade kinema, which lies above it",
        "python/kinema/model/frame.py:2: imports all of the facade kinema, which lies above it",
    ]


def test_comparing_with_the_name_of_a_format_is_reported(tmp_path: Path) -> None:
    modules = {
        "formats/xtc/format": "class Xtc:\n    name = 'XTC'",
        "formats/registry": "format == 'XTC'",
        "files/convert": "if 'XTC' != traj.format:\n    f(format='XTC')",
        "report/report": "traj.format in ('DCD', 'XTC')",
    }
    assert tool("check_package").check(write_layers(tmp_path, modules)) == [
        f"python/kinema/{place}: compares with XTC; ask an attribute of its `Format`"
        for place in ("files/convert.py:1", "report/report.py:1")
    ]


def test_a_class_name_used_twice_is_reported(tmp_path: Path) -> None:
    modules = {
        "model/frame": "class Block: ...",
        "base/files": "def f():\n    class _Block: ...",
        "base/progress": "class Blocks: ...",
    }
    assert tool("check_package").check(write_layers(tmp_path, modules)) == [
        "class name Block is used 2 times: python/kinema/base/files.py:2, python/kinema/model/frame.py:1"
    ]


def test_a_crowded_folder_is_reported(tmp_path: Path) -> None:
    tools = tool("check_package")
    write_layers(tmp_path, {f"model/{name}": "" for name in range(15)})
    assert tools.check(tmp_path) == []
    package(tmp_path, {"model/one_more": ""})
    assert tools.check(tmp_path) == ["python/kinema/model: 16 modules, expected at most 15; split it"]


HEAVY_IMPORTS = {
    "zarr.py": "",
    "pandas.py": "import zarr\n",
    "MDAnalysis.py": "",
    "light.py": "import pandas\n",
    "tests/conftest.py": "import zarr\n",
    "tests/test_direct.py": "import os, pandas\nfrom MDAnalysis import __name__\nimport light\n",
    # the package is there already
    "tests/test_through.py": "import pytest\nimport light\nlight = pytest.importorskip('zarr')\n",
    "tests/test_lazy.py": "import pytest\ndef test_it():\n    import zarr\n"
    "def rows():\n    import zarr\n    return [1]\n"
    "@pytest.mark.parametrize('one', rows())\ndef test_rows(one): ...\n",
}


def test_heavy_imports_of_test_modules_are_reported(tmp_path: Path) -> None:
    for name, text in HEAVY_IMPORTS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    code = "import pathlib, sys, check_test_imports as one\nprint(*one.check(pathlib.Path(sys.argv[1])), sep='\\n')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "tools")])}
    words = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    said = "imports {} when tests are collected; import it in the test"
    assert done.stdout.splitlines() == [
        f"tests/conftest.py:1: {said.format('zarr')}",
        f"tests/test_direct.py:1: {said.format('pandas')}",
        f"tests/test_direct.py:2: {said.format('MDAnalysis')}",
        f"tests/test_direct.py:3: {said.format('pandas')}",
        f"tests/test_lazy.py:5: {said.format('zarr')}",
        f"tests/test_through.py:3: {said.format('zarr')}",
    ], done.stderr


def test_bytecode_of_test_modules_is_stored_once(tmp_path: Path) -> None:
    tools = tool("store_test_bytecode")
    (tmp_path / "tests/deep").mkdir(parents=True)
    for name in ("conftest", "test_a", "deep/test_b", "deep/helpers"):
        (tmp_path / f"tests/{name}.py").write_text("def test_it():\n    assert 1\n")
    assert [path.stem for path in tools.missing(tmp_path / "tests")] == ["conftest", "test_b", "test_a"]
    assert tools.store(tmp_path) == 3
    assert tools.store(tmp_path) == 0 == len(tools.missing(tmp_path / "tests"))
    changed = tmp_path / "tests/test_a.py"
    changed.write_text("def test_it():\n    assert 2, 'longer'\n")
    assert tools.missing(tmp_path / "tests") == [changed]
    assert sorted(map(len, tools.shares([changed] * 5, 2))) == [2, 3]


def test_the_gallery_has_a_command_and_a_formula_for_each_analysis() -> None:
    gallery = tool("site/gallery")
    assert set(gallery.OPTIONS) == set(ANALYSES)
    for name in ANALYSES:
        assert gallery.formula(name)
