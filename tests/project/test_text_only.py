"""`tools/check_text_only.py` tells a change of text from a change of code, in both languages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "check_text_only.py"

PYTHON = '''"""Old."""
def size(n):
    """Old."""
    # old
    raise ValueError(f"no {n} of {len(n)}", "old")
'''
RUST = """//! Old.
/* old /* nested */ */
fn size<'a>(n: &'a str) -> String { // old
    format!("no {n}, // old", n = n.trim_end_matches('"')) + r#"old " \\"#
}
"""


def repository(folder: Path, name: str, before: str, after: str) -> Path:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, timeout=60)

    git("init", "--quiet")
    for text in ("", before, after):
        (folder / name).write_text(text)
        git("add", name)
        git("commit", "--quiet", "--allow-empty", "--message", "one")
    return folder


@pytest.mark.parametrize(
    ("name", "before", "old", "new", "is_text", "is_message"),
    [
        ("a.py", PYTHON, '"""Old."""', '"""New."""', True, True),
        ("a.py", PYTHON, "# old", "# new", True, True),
        ("a.py", PYTHON, '"old"', '"new"', False, True),
        ("a.py", PYTHON, "no {n} of {len(n)}", "{len(n)} has no {n}", False, True),
        ("a.py", PYTHON, "{len(n)}", "{n}", False, False),
        ("a.py", PYTHON, "size(n)", "size(m)", False, False),
        ("a.rs", RUST, "Old.", "New.", True, True),
        ("a.rs", RUST, "{ // old", "{ // it's new", True, True),
        ("a.rs", RUST, "/* nested */", "nested", True, True),
        ("a.rs", RUST, "no {n}, // old", "without {n}", False, True),
        ("a.rs", RUST, "no {n}", "no {m}", False, False),
        ("a.rs", RUST, "'\"'", "'x'", False, False),
        ("a.rs", RUST, "<'a>", "<'b>", False, False),
        ("a.md", "old", "old", "new", True, True),
        ("a.toml", "old", "old", "new", False, False),
    ],
)
def test_text_is_told_from_code(
    tmp_path: Path, name: str, before: str, old: str, new: str, is_text: bool, is_message: bool
) -> None:
    assert old in before
    folder = repository(tmp_path, name, before, before.replace(old, new))
    for words, passes in (([], is_text), (["--messages"], is_message)):
        done = subprocess.run(
            [sys.executable, TOOL, *words, "HEAD~1..HEAD"], cwd=folder, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == (0 if passes else 1), done.stdout + done.stderr
        assert passes or f" {name}: " in done.stdout


def test_a_file_that_appears_is_no_change_of_text(tmp_path: Path) -> None:
    folder = repository(tmp_path, "a.py", PYTHON, PYTHON)
    (folder / "b.py").write_text(PYTHON)
    for words in (["add", "b.py"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "b"]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=60)
    done = subprocess.run(
        [sys.executable, TOOL, "HEAD~1..HEAD"], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and "b.py: is neither a page" in done.stdout
