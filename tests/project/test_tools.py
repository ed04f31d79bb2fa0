"""The lint scripts find what they are for, and the project itself is clean."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
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


@pytest.mark.parametrize("name", ["check_layers", "check_package", "check_error_messages"])
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


def package(folder: Path, modules: dict[str, str]) -> Path:
    """A project with these modules of the package; `a/b` is kinema.a.b."""
    for name, text in modules.items():
        file = folder / f"python/kinema/{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_a_wrong_layer_of_the_package_is_reported(tmp_path: Path) -> None:
    modules = {
        "cli/stopping": "from kinema.selection import topology\n",
        "selection/topology": "def f():\n    from ..cli import stopping\n",
        "runners/dask/client": "import kinema.runners.mpi.root\n",
        "runners/mpi/root": "if TYPE_CHECKING:\n    import kinema.cli.stopping\n",
        "novelty": "",
    }
    root = package(tmp_path, modules)
    assert tool("check_package").check(root) == [
        "python/kinema/novelty.py: novelty has no room in tools/check_package.py",
        "python/kinema/runners/dask/client.py:1: runners.dask may not import runners.mpi (runners.mpi.root)",
        "python/kinema/selection/topology.py:2: selection may not import cli (cli.stopping)",
        "circle of imports: cli.stopping -> selection.topology -> cli.stopping",
    ]


@pytest.mark.parametrize(
    "way_back",
    [
        "from kinema.frame import Block",
        "from kinema import frame",
        "import kinema.frame as frame",
        "def f():\n    from .frame import Block",
        "from importlib import import_module\nTABLE = {'Block': 'kinema.frame'}\nimport_module(TABLE['Block'])",
    ],
)
def test_a_circle_of_imports_is_reported(tmp_path: Path, way_back: str) -> None:
    tools = tool("check_package")
    root = package(
        tmp_path, {"frame": "from kinema import files", "files": "import kinema.progress", "progress": way_back}
    )
    assert list(tools.check_circles(root)) == ["circle of imports: files -> progress -> frame -> files"]
    package(tmp_path, {"progress": "if TYPE_CHECKING:\n    from kinema.frame import Block"})
    assert list(tools.check_circles(root)) == []


def test_the_package_itself_may_be_part_of_a_circle(tmp_path: Path) -> None:
    modules = {"frame": "def f():\n    import kinema as kn", "__init__": "from kinema.frame import Block"}
    root = package(tmp_path, modules)
    assert list(tool("check_package").check_circles(root)) == ["circle of imports: __init__ -> frame -> __init__"]


def test_a_class_name_used_twice_is_reported(tmp_path: Path) -> None:
    modules = {
        "frame": "class Block: ...",
        "files": "def f():\n    class _Block: ...",
        "progress": "class Blocks: ...",
    }
    root = package(tmp_path, modules)
    assert tool("check_package").check(root) == [
        "class name Block is used 2 times: python/kinema/files.py:2, python/kinema/frame.py:1"
    ]


def test_a_crowded_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tool("check_package")
    package(tmp_path, {f"selection/{name}": "" for name in ("__init__", *range(15))})
    assert tools.check(tmp_path) == []
    package(tmp_path, {"selection/one_more": ""})
    (found,) = tools.check(tmp_path)
    assert found.startswith("python/kinema/selection: 16 modules, expected at most 15")
    monkeypatch.setitem(tools.LARGER_FOLDERS, "python/kinema/selection", "one file for each format")
    assert tools.check(tmp_path) == []


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
