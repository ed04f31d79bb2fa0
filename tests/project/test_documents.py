"""Documents that are made from the code are current, and what they name exists."""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.formats.format import Format
from kinema.formats.registry import formats

ROOT = Path(__file__).resolve().parents[2]
PAGES = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("docs/**/*.md"))]
# those for readers of the code
OF_THE_CODE = ["ARCHITECTURE.md", *(name for name in PAGES if name.startswith("docs/internals/"))]
SOURCES = ("crates", "python", "tests", "tools", "docs", "fuzz/fuzz_targets", "benchmarks")


@pytest.mark.parametrize("name", ["formats", "analyses"])
def test_page_is_current(name: str) -> None:
    tool = runpy.run_path(str(ROOT / f"tools/write_{name}_page.py"))
    current = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    assert current == tool[f"{name}_page"](), f"run: python tools/write_{name}_page.py"


def test_options_as_keywords_are_current() -> None:
    tool = runpy.run_path(str(ROOT / "tools/write_options.py"))
    assert tool["written"]() == tool["WRITTEN"].read_text(encoding="utf-8"), "run: python tools/write_options.py"


def test_quotes_of_files_are_current() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
    tool = runpy.run_path(str(ROOT / "tools/write_quotes.py"))
    quotes = {quote for text in texts.values() for _, quote, _ in tool["QUOTE"].findall(text)}
    assert {
        "python/kinema/analysis/structure/rgyr.py",
        "crates/kinema-analysis/src/analyses/structure/rgyr.rs",
    } <= quotes
    assert [name for name, text in texts.items() if text != tool["quoted"](text)] == [], (
        "run: python tools/write_quotes.py"
    )
    # the lines that the page adds to lists are in them
    page = texts["add-a-kernel.md"]
    for line, file in (
        (
            "from kinema.analysis.structure.rgyr import RadiusOfGyration as RadiusOfGyration",
            "python/kinema/analysis/analyses.pyi",
        ),
        ("mod rgyr;", "crates/kinema-analysis/src/analyses/structure/mod.rs"),
        ("rgyr::KERNEL", "crates/kinema-analysis/src/registry.rs"),
    ):
        assert line in page and line in (ROOT / file).read_text(encoding="utf-8")


def test_the_format_of_the_how_to_page_says_what_formats_say() -> None:
    page = (ROOT / "docs/add-a-format.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0], names)
    said = [name for name in vars(names["Plain"]) if not name.startswith("__")]
    assert len(said) >= 4
    assert [name for name in said if not hasattr(Format, name)] == []


def test_readme_lists_the_formats() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for known in (one for one in formats() if not one.slow):
        row = f"| {known.name} | {'yes' if known.reads else 'no'} | {'yes' if known.writes else 'no'} |"
        assert row in readme


@pytest.mark.parametrize(
    "name", ["README.md", "docs/tutorial.md", "docs/phrasebook.md", "docs/accounting.md", "docs/convert.md"]
)
def test_python_in_documents_names_what_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if not isinstance(node, ast.Attribute):
                continue
            path = ast.unparse(node).split(".")
            if path[0] != "kn" or "(" in "".join(path):  # what a call returns is for other tests
                continue
            found: object = kn
            for part in path[1:]:
                found = getattr(found, part)


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", *PAGES])
def test_links_and_folders_exist(name: str) -> None:
    path = ROOT / name
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", path.read_text(encoding="utf-8")):
        there = path.parent / target if target else path
        assert there.exists(), target
        if heading:
            assert heading in anchors(there.read_text(encoding="utf-8")), f"{target}#{heading}"


def anchors(text: str) -> set[str]:
    """The anchors of headings, as GitHub makes them, and those that keep the names of earlier headings."""
    kept = re.findall(r'<a id="([^"]+)"></a>', text)
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {*kept, *(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)}


def test_anchors_of_earlier_headings_are_not_those_of_others() -> None:
    kept = 0
    for name in ["README.md", *PAGES]:
        text = (ROOT / name).read_text(encoding="utf-8")
        found = re.findall(r'<a id="([^"]+)"></a>', text)
        assert len(found) == len(set(found)), name
        assert not set(found) & anchors(re.sub(r"<a id=[^>]*></a>", "", text)), name
        kept += len(found)
    assert kept >= 30


@pytest.fixture(scope="module")
def tree() -> list[str]:
    """The paths of all files of the project, each with a slash before it."""
    return [
        *(f"/{path.name}" for path in ROOT.iterdir() if path.is_file()),
        *(f"/{path.relative_to(ROOT).as_posix()}" for folder in SOURCES for path in (ROOT / folder).rglob("*.*")),
    ]


@pytest.mark.parametrize("name", OF_THE_CODE)
def test_paths_in_pages_of_the_code_exist(name: str, tree: list[str]) -> None:
    """`runners/base.py` ends the path of a file, `runners/mpi/` is a folder, `FILE::NAME` is a test or a class."""
    quoted = re.findall(r"`([^`\s]+)`", (ROOT / name).read_text(encoding="utf-8"))
    files = [found for one in quoted if (found := re.fullmatch(r"([\w./-]+\.(?:pyi?|rs|toml|csv))(?:::(\w+))?", one))]
    folders = [one for one in quoted if re.fullmatch(r"(?:[\w-]+/)+", one)]
    assert files
    for path, member in (found.groups() for found in files):
        places = [place for place in tree if place.endswith(f"/{path}")]
        assert places, path
        if member:
            (place,) = places
            code = (ROOT / place.removeprefix("/")).read_text(encoding="utf-8")
            assert re.search(rf"\b(?:def|class|fn) {member}\b", code), f"{path}::{member}"
    for folder in folders:
        assert any(f"/{folder}" in place for place in tree), folder


def test_architecture_is_short() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 200, "what is true of one topic belongs to docs/internals"
    assert [line for line in lines if len(line) > 120] == []


def test_options_in_documents_exist() -> None:
    rooms = (ROOT / "python/kinema/cli", ROOT / "python/kinema/analysis")
    code = "".join(file.read_text(encoding="utf-8") for room in rooms for file in room.rglob("*.py"))
    known = set(re.findall(r'(?<=["/])--?[a-z][a-z0-9-]*(?=["/])', code))
    for name in ("README.md", "docs/tutorial.md", "docs/phrasebook.md", "docs/repair.md", "docs/convert.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for line in re.findall(r"^\$? ?kinema .*$", text, re.MULTILINE):
            for option in re.findall(r"(?<= )(--?[a-z][a-z0-9-]*)", line.split("#")[0]):
                assert option in known, option


def test_one_version() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert kn.__version__ == cargo["workspace"]["package"]["version"]
    assert f"## {kn.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_scripts_that_let_dask_start_workers_have_a_guard() -> None:
    """Workers that Dask starts run the script again: what starts them stands below `if __name__ == "__main__":`."""
    guarded = 0
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in re.findall(r"^```python\n(.*?)^```$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            for statement in ast.parse(block).body:
                text = ast.unparse(statement)
                if re.search(r"\b(Client|LocalCluster)\((n_workers|\))", text):
                    assert text.startswith("if __name__ == '__main__':"), f"{path.name}: {text}"
                    guarded += 1
    assert guarded
