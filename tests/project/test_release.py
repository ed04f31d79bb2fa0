"""A release is refused while something of it is missing; files for the code host are valid."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools/release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files that a release looks at, as they must be, in a clean repository."""
    for name in ("Cargo.toml", "packaging/conda/recipe.yaml", "CITATION.cff", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "SECURITY.md").write_text("Write to security at this project's address.\n")
    (tmp_path / "changelog.d").mkdir()
    shutil.copy(ROOT / "changelog.d/template.md.jinja", tmp_path / "changelog.d")
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "all")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, timeout=60)


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_complete_project_can_be_released(release: ModuleType, project: Path) -> None:
    assert [*release.wrong_tree(project), *release.wrong_files(project)] == []


@pytest.mark.parametrize(
    ("name", "old", "new", "wrong"),
    [
        ("Cargo.toml", 'version = "0.1.0"', 'version = "0.1.0rc1"', "MAJOR.MINOR.PATCH"),
        ("packaging/conda/recipe.yaml", 'version: "0.1.0"', 'version: "0.0.9"', "recipe.yaml: has no line"),
        ("CITATION.cff", "version: 0.1.0", "version: 0.0.9", "CITATION.cff: has no line"),
        ("SECURITY.md", "Write", "MAINTAINERS: write", "put the address"),
        ("CHANGELOG.md", "## 0.1.0 (unreleased)", "## 0.1.0", "is released already"),
        ("CHANGELOG.md", "## 0.1.0 (unreleased)", "## 0.0.9", "nothing to say of 0.1.0"),
    ],
)
def test_what_a_file_lacks_is_said(
    release: ModuleType, project: Path, name: str, old: str, new: str, wrong: str
) -> None:
    replace(project / name, old, new)
    assert any(wrong in line for line in release.wrong_files(project))


def test_a_tree_that_is_not_clean_is_refused(release: ModuleType, project: Path) -> None:
    (project / "CITATION.cff").write_text("")
    assert list(release.wrong_tree(project)) == ["1 changed files, such as CITATION.cff; commit them"]


def test_another_branch_and_a_tag_that_exists_are_refused(release: ModuleType, project: Path) -> None:
    git(project, "checkout", "--quiet", "-b", "other")
    git(project, "tag", "v0.1.0")
    assert list(release.wrong_tree(project)) == ["the branch is other, expected main", "there is a tag v0.1.0"]


@pytest.mark.parametrize(
    ("waiting", "first"), [("", ""), ("## 0.2.0 (unreleased)\n\nBy hand.\n\n", "By hand.\n\n")], ids=["next", "first"]
)
def test_lines_of_the_changelog_are_collected(release: ModuleType, project: Path, waiting: str, first: str) -> None:
    shutil.copy(ROOT / "pyproject.toml", project)
    (project / "changelog.d/12.added.md").write_text("`kinema rdf` computes radial distribution functions.\n")
    (project / "changelog.d/+boxes.fixed.md").write_text("Boxes of zero volume are refused.\n")
    changelog = f"# Changelog\n\n<!-- releases -->\n\n{waiting}## 0.1.0\n\nThe first.\n"
    assert release.add_fragments(changelog, "0.2.0", date(2030, 1, 1), release.draft(project, "0.2.0")) == (
        f"# Changelog\n\n<!-- releases -->\n\n## 0.2.0 (2030-01-01)\n\n{first}"
        "### Added\n\n- `kinema rdf` computes radial distribution functions. (#12)\n\n"
        "### Fixed\n\n- Boxes of zero volume are refused.\n\n"
        "## 0.1.0\n\nThe first.\n"
    )


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_files_for_the_code_host_are_valid(schema: str, files: str) -> None:
    paths = [str(path) for path in sorted(ROOT.glob(files))]
    assert paths
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *paths]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_target_that_the_workflow_makes_is_there() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    makefile = (ROOT / "Makefile").read_text()
    targets = {line.split("make ")[1].strip() for line in workflow.splitlines() if "run: make " in line}
    assert targets and all(f"\n{target}:" in makefile for target in targets), targets
