"""The lint of prose finds each of its patterns in all three languages, knows their good uses, and keeps the budget."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

# name of a pattern: sentences that it finds, sentences of good use
SENTENCES: dict[str, tuple[list[str], list[str]]] = {
    "behind": (
        ["The atoms behind the header.", "Behind it there is a marker."],
        ["The server runs behind a firewall.", "Nodes behind the same router.", "Nothing is left behind."],
    ),
    "goes on": (
        ["The run goes on with frame 5.", "A file that is gone on with.", "Workers may go on."],
        ["It shows what is going on.", "Notes go on stderr."],
    ),
    "so many": (
        ["A pool of so many threads.", "So many frames a block."],
        ["There are so many files that the folder is slow.", "Twice so many frames as before."],
    ),
    "anew": (["The index is made anew."], ["A new index is made."]),
    "another one": (
        ["The other ones stay.", "It takes another one."],
        ["They call one another.", "It is another one-line change."],
    ),
    "Of ...": (
        ["Of a file that has grown.", "It stops. Of the frames it keeps all."],
        ["Most of the frames.", "Of course it stops."],
    ),
    "where for if": (
        [
            "None where there is no cell.",
            "It is sorted where it has a key.",
            "Raises ArgumentError where a name is empty.",
        ],
        ["The folder where it is kept.", "It says where they are.", "NaN where there is no value."],
    ),
    "those of": (
        ["Those of the function.", "The sum of those of the ranks.", "More than those of which one is kept."],
        ["The values are the same as those of MDAnalysis.", "The bits are those of one core."],
    ),
    "What, Who ...": (
        ["What a worker has.", "It stops. Who wants more waits.", "Whoever writes a file locks it."],
        ["What is a leaf? A run of frames.", "It shows what is kept."],
    ),
    "is no ...": (
        ["The file is no trajectory.", "Values that are no numbers."],
        ["There is no cell.", "There can be no cell.", "It is no longer kept.", "It is no more than a copy."],
    ),
    "has not a": (["The row has not all atoms.", "They have not the key."], ["The frame has not been read."]),
    "but for": (
        ["The same but for the time."],
        ["Not for itself but for others.", "It is fast, but for few files only."],
    ),
}

CASES = [
    pytest.param(name, sentence, expected, id=f"{name}: {sentence}")
    for name, (bad, good) in SENTENCES.items()
    for sentences, expected in ((bad, True), (good, False))
    for sentence in sentences
]


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import check_prose
    finally:
        sys.path.pop(0)
    return check_prose


def names(prose: ModuleType, path: str, source: str) -> set[str]:
    return {hit.pattern.name for hit in prose.hits_in(path, source)}


def places(prose: ModuleType, path: str, source: str) -> list[tuple[int, str]]:
    return [(hit.line, hit.words) for hit in prose.hits_in(path, source)]


def test_each_pattern_has_sentences(prose: ModuleType) -> None:
    assert [pattern.name for pattern in prose.PATTERNS] == list(SENTENCES)


@pytest.mark.parametrize(("name", "sentence", "expected"), CASES)
def test_patterns_and_good_uses(prose: ModuleType, name: str, sentence: str, expected: bool) -> None:
    wanted = {name} if expected else set()
    assert names(prose, "a.md", f"- {sentence}\n") == wanted
    for path in ("a.py", "a.pyi"):
        assert names(prose, path, f'def f():\n    """{sentence}"""\n') == wanted
    assert names(prose, "a.rs", f"/// {sentence}\nfn f() {{}}\n") == wanted


def test_headings(prose: ModuleType) -> None:
    page = "# What a change needs\n\n## What is stored\n\n## Of files\n\n## Who may read\n"
    assert [line for line, _ in places(prose, "a.md", page)] == [3, 5, 7]


def test_code_in_markdown_is_not_prose(prose: ModuleType) -> None:
    page = (
        "First `anew` and\n`so many\nframes`.\n\n```python\n# behind\n```\n\n| `anew` | made anew |\n\nIt goes\non.\n"
    )
    assert places(prose, "a.md", page) == [(9, "anew"), (11, "goes on")]


def test_texts_of_python(prose: ModuleType) -> None:
    source = (
        '"""A module.\n\nIt is made\nanew."""\n'
        "behind = 1  # a name of code is none, a comment is: behind it\n"
        'raise ValueError(f"{behind} is made " "anew")\n'
        "# a comment of so\n# many frames\n"
        'kind = "anew-made"\n'
    )
    assert places(prose, "a.py", source) == [
        (4, "anew"),
        (5, "behind"),
        (6, "anew"),
        (7, "so many"),
        (9, "anew"),
    ]


def test_texts_of_rust(prose: ModuleType) -> None:
    source = (
        "//! Made anew.\n"
        'let behind = "http://host/a"; // behind it\n'
        'Err(format!("{behind} is made \\\n    anew"))\n'
        "/* so many */ let quote = '\"';\n"
        "/// It goes\n/// on.\n"
        "/// ```\n/// // behind in an example\n/// ```\n"
        "fn f<'a>(behind: &'a str) {}\n"
    )
    assert places(prose, "a.rs", source) == [
        (1, "anew"),
        (2, "behind"),
        (4, "anew"),
        (5, "so many"),
        (6, "goes on"),
    ]


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("README.md", "README.md"),
        ("docs/convert.md", "docs"),
        ("docs/internals/run.md", "docs/internals"),
        ("python/kinema/files/h5md/elements.py", "python/kinema/files"),
        ("python/kinema/__init__.py", "python/kinema"),
        ("crates/kinema-core/src/format/dcd.rs", "crates/kinema-core"),
        ("tests/cache/test_command.py", "tests/cache"),
    ],
)
def test_folder_of_a_budget(prose: ModuleType, path: str, folder: str) -> None:
    assert prose.folder_of(path) == folder


def test_a_budget_only_falls(prose: ModuleType) -> None:
    hits = {
        "docs": list(prose.hits_in("docs/a.md", "Made anew, anew.")),
        "tests/new": list(prose.hits_in("tests/new/a.py", "# behind it\n")),
    }
    assert prose.compare(hits, {"docs": 3, "gone": 1, "tests/new": 1}) == ([], {"docs": 2, "tests/new": 1})
    wrong, lower = prose.compare(hits, {"docs": 1})
    assert lower == {"docs": 1}
    assert wrong[0] == 'docs/a.md:1: anew: "anew": archaic; write: again, from scratch'
    assert wrong[2] == "docs: 2 hits, expected at most 1"
    assert wrong[-1] == "tests/new: 1 hits, expected at most 0"


def test_files_that_are_read(prose: ModuleType, tmp_path: Path) -> None:
    for name in (
        "docs/a.md",
        "docs/style.md",
        "crates/x/target/b.md",
        "other/b.md",
        "tools/.hidden/b.md",
        "docs/a.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Made anew.\n")
    (tmp_path / "CHANGELOG.md").write_text("Made anew.\n")
    (tmp_path / prose.BUDGET).write_text('"CHANGELOG.md" = 1\n')
    assert prose.check(tmp_path) == [
        'docs/a.md:1: anew: "anew": archaic; write: again, from scratch',
        "docs: 1 hits, expected at most 0",
    ]
    (paths,) = prose.all_hits(tmp_path, [tmp_path / "CHANGELOG.md"]).values()
    assert [hit.path for hit in paths] == ["CHANGELOG.md"]


def test_no_budget_is_for_a_folder_that_is_gone(prose: ModuleType) -> None:
    budget = tomllib.loads((ROOT / prose.BUDGET).read_text())
    assert [folder for folder in budget if not (ROOT / folder).exists()] == []
