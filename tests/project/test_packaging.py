"""The conda recipe says what pyproject.toml says, make knows its targets, the trial of wheels refuses bad ones.

Nothing is built here.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPE = (ROOT / "packaging/conda/recipe.yaml").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# other names in conda-forge
CONDA_NAMES = {"matplotlib": "matplotlib-base"}


@pytest.fixture
def smoke() -> ModuleType:
    spec = importlib.util.spec_from_file_location("smoke_wheel", ROOT / "tools/smoke_wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def listed(section: str) -> set[str]:
    """The items of a list of the recipe, for example of `run`."""
    found = re.search(rf"^  {section}:\n((?:    .*\n)+)", RECIPE, re.MULTILINE)
    assert found is not None
    return set(re.findall(r"^    - (.*)$", found.group(1), re.MULTILINE))


def conda_name(requirement: str) -> str:
    name, versions = re.fullmatch(r"([\w.-]+)(.*)", requirement).groups()  # type: ignore[union-attr]
    return f"{CONDA_NAMES.get(name.lower(), name.lower())} {versions}".strip()


def test_the_recipe_has_the_projects_requirements() -> None:
    expected = {conda_name(requirement) for requirement in PROJECT["project"]["dependencies"]}
    assert listed("run") == expected | {f"python {PROJECT['project']['requires-python']}"}
    assert {conda_name(requirement) for requirement in PROJECT["build-system"]["requires"]} <= listed("host")


def test_the_recipe_has_the_version() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert f'version: "{cargo["workspace"]["package"]["version"]}"' in RECIPE
    assert (ROOT / "packaging/conda" / "build.sh").exists()


def test_each_target_of_make_has_one_recipe() -> None:
    targets = re.findall(r"^([a-z][\w-]*):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"setup", "test", "lint", "wheel", "fuzz-long"} <= set(targets)
    words = ["make", "--dry-run", "--always-make", *targets]
    planned = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (planned.returncode, planned.stderr) == (0, "")
    assert all(part in planned.stdout for part in ("tools/build_wheel.py", "fuzz/run.sh 3600"))


def test_the_recipes_files_exist() -> None:
    files = set(re.findall(r"[\w/-]+\.dcd", RECIPE))
    assert files
    for file in files:
        assert (ROOT / file).exists()


def wheel_with(folder: Path, changed: dict[str, bytes | None]) -> Path:
    files: dict[str, bytes | None] = {
        "kinema/py.typed": b"",
        "kinema/_core.pyi": b"",
        "kinema/cli/__init__.py": b"",
        "kinema/_core.abi3.so": b"\x7fELF",
        "kinema-0.1.0.dist-info/licenses/LICENSE": b"",
    }
    path = folder / "kinema-0.1.0-cp311-abi3-manylinux2014_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (files | changed).items():
            if content is not None:
                archive.writestr(name, content)
    return path


def test_contents_of_a_good_wheel(smoke: ModuleType, tmp_path: Path) -> None:
    smoke.check_contents(wheel_with(tmp_path, {}))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("kinema/py.typed", None, "lacks kinema/py.typed"),
        ("kinema/_core.pyi", None, "lacks kinema/_core.pyi"),
        ("kinema/__pycache__/cli.cpython-311.pyc", b"", "does not belong there"),
        ("kinema/_core.abi3.so", f"\0{ROOT}/crates/lib.rs\0".encode(), "names the folder"),
        ("kinema-0.1.0.dist-info/sboms/a.json", f"{Path.home()}/.cargo".encode(), "names the folder"),
    ],
)
def test_what_a_wheel_must_not_be(
    smoke: ModuleType, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    with pytest.raises(smoke.Failed, match=re.escape(message)):
        smoke.check_contents(wheel_with(tmp_path, {name: content}))


def test_a_wheel_for_one_python_is_refused(smoke: ModuleType) -> None:
    with pytest.raises(smoke.Failed, match="cp311-abi3"):
        smoke.check_platform(Path("kinema-0.1.0-cp312-cp312-manylinux2014_x86_64.whl"))


def test_a_command_that_fails_is_told(smoke: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(smoke.Failed, match="ended with 3"):
        smoke.run([sys.executable, "-c", "raise SystemExit(3)"], {}, tmp_path)
