"""Prints the test folders of what changed since the branch main, or in the last commit on main itself.

Changes that are not committed count, and so do new files. A part of the package without a row in OTHER has the test
folder of its own name; tests/library sees all.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]

# test folders of parts of the package that have none of their own name, or more than that
OTHER: dict[str, tuple[str, ...]] = {
    "analysis": ("analysis", "transforms"),
    "base": ("cli", "tracing"),
    "demo": ("cli",),
    "files": ("writing", "formats", "cli"),
    "model": ("selection",),
    "parallel": ("writing",),
    "report": ("profile",),
    "runners": ("runners", "execution"),
    "storage": ("writing", "formats", "cache"),
    "testing": ("analysis", "formats", "writing"),
    "trajectory": ("selection", "following", "transforms"),
}
CRATES: dict[str, tuple[str, ...]] = {
    "kinema-core": ("formats", "writing", "cache"),
    "kinema-net": ("cache",),
    "kinema-analysis": ("analysis", "transforms"),
    "kinema-python": ("formats", "analysis"),
}


def git(*words: str) -> list[str]:
    """The lines that a git command prints."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def changed_files() -> list[str]:
    """Paths that differ from where this branch left main; on main, from the commit before the last."""
    base = git("merge-base", "HEAD", "main")[0]
    if base == git("rev-parse", "HEAD")[0]:
        base = "HEAD~1"
    return [*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")]


def folders(paths: Iterable[str], there: set[str]) -> list[str]:
    """The folders of `there` (names of test folders) that see changes in `paths`, sorted."""
    found: set[str] = set()
    for path in paths:
        match PurePosixPath(path).parts:
            case ("tests", folder, _, *_):
                found.add(folder)
            case ("tests", _):
                return sorted(there)
            case ("python", "kinema", part, _, *_):
                found.update(("library", *OTHER.get(part, (part,))))
            case ("python", *_):
                found.add("library")
            case ("crates", crate, *_):
                found.update(("library", *CRATES.get(crate, ())))
            case ("docs" | "tools", *_) | (_,):
                found.add("project")
    return sorted(found & there)


if __name__ == "__main__":
    there = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("**/test_*.py"))}
    chosen = folders(changed_files(), there)
    if not chosen:
        print("nothing that tests see has changed", file=sys.stderr)
    print(*(f"tests/{folder}" for folder in chosen))
