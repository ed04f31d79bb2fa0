"""Makes a release: checks the tree, collects the changelog, builds wheel and sdist, and sets the tag last.

    make release          all of it; the files lie in dist/, and nothing is uploaded
    make release DRY=1    checks and builds; no file of the project changes, and no tag is set

Before that it checks that the tree is clean and on the branch main; Cargo.toml, the recipe of conda and CITATION.cff
have the same version; no tag has it; the changelog has something to say; SECURITY.md names an address.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# what may lie in changelog.d without being a line of the changelog
NO_FRAGMENTS = {"template.md.jinja", ".gitkeep"}


def version(root: Path) -> str:
    """The version, from Cargo.toml."""
    settings = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    found: str = settings["workspace"]["package"]["version"]
    return found


def wrong_files(root: Path) -> Iterator[str]:
    """Faults of the project's files that stop a release, one line each."""
    number = version(root)
    if not re.fullmatch(r"\d+\.\d+\.\d+", number):
        yield f"Cargo.toml: version {number}, expected MAJOR.MINOR.PATCH"
    for name, line in (("packaging/conda/recipe.yaml", f'version: "{number}"'), ("CITATION.cff", f"version: {number}")):
        lines = [one.strip() for one in (root / name).read_text(encoding="utf-8").splitlines()]
        if line not in lines:
            yield f"{name}: has no line {line!r}"
    if "MAINTAINERS:" in (root / "SECURITY.md").read_text(encoding="utf-8"):
        yield "SECURITY.md: put the address for reports where the line MAINTAINERS is"
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"## {number} (unreleased)" not in changelog and not _fragments(root):
        yield f"changelog.d: nothing to say of {number}"
    if f"## {number}\n" in changelog or re.search(rf"^## {re.escape(number)} \(\d", changelog, re.MULTILINE):
        yield f"CHANGELOG.md: {number} is released already; raise the version in Cargo.toml"


def wrong_tree(root: Path) -> Iterator[str]:
    """Faults of the repository's state that stop a release, one line each."""
    if changed := _git(root, "status", "--porcelain").splitlines():
        yield f"{len(changed)} changed files, such as {changed[0][3:]}; commit them"
    if (branch := _git(root, "rev-parse", "--abbrev-ref", "HEAD")) != "main":
        yield f"the branch is {branch}, expected main"
    if _git(root, "tag", "--list", f"v{version(root)}"):
        yield f"there is a tag v{version(root)}"


def _fragments(root: Path) -> list[Path]:
    return [one for one in sorted((root / "changelog.d").iterdir()) if one.name not in NO_FRAGMENTS]


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout.rstrip("\n")


def _run(*words: str) -> None:
    print("+", *words, flush=True)
    subprocess.run(words, cwd=ROOT, check=True)


def draft(root: Path, number: str) -> str:
    """The lines of changelog.d, sorted by kind, without a heading; "" if there are none."""
    if not _fragments(root):
        return ""
    words = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", number]
    text = subprocess.run(words, cwd=root, check=True, capture_output=True, text=True).stdout
    return text.partition("\n")[2].strip()


def add_fragments(changelog: str, number: str, day: date, text: str) -> str:
    """The changelog with a section of this version: what was written by hand as unreleased, then `text`."""
    start, mark, rest = changelog.partition("<!-- releases -->\n")
    if not mark:
        raise ValueError("CHANGELOG.md: has no line '<!-- releases -->'")
    heading, waiting = f"## {number} ({day})", f"\n## {number} (unreleased)\n"
    written = ""
    if rest.startswith(waiting):
        written, *older = re.split(r"(?m)^(?=## )", rest.removeprefix(waiting))
        rest = "".join(older)
    section = "\n\n".join(part for part in (heading, written.strip(), text) if part)
    return f"{start}{mark}\n{section}\n\n{rest.lstrip()}".rstrip() + "\n"


def release(dry: bool) -> None:
    """Builds, and unless it is `dry` writes the changelog, commits it and sets the tag."""
    number = version(ROOT)
    changelog = ROOT / "CHANGELOG.md"
    released = add_fragments(changelog.read_text(encoding="utf-8"), number, date.today(), draft(ROOT, number))
    if not dry:
        changelog.write_text(released, encoding="utf-8")
        for fragment in _fragments(ROOT):
            _run("git", "rm", "--quiet", str(fragment))
        _run("git", "commit", "--all", "--message", f"Release {number}")
    _run("make", "wheel", "sdist")
    if dry:
        print(f"{number} can be released; no file has changed, and there is no tag")
        return
    _run("git", "tag", "--annotate", f"v{number}", "--message", f"Kinema {number}")
    print(f"dist/ has {number}, and the tag is v{number}; push it and upload the files by hand")


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--dry", action="store_true", help="check and build; change no file, set no tag")
    arguments.add_argument("--check", action="store_true", help="check alone")
    given = arguments.parse_args()
    wrong = [*wrong_tree(ROOT), *wrong_files(ROOT)]
    for line in wrong:
        print(f"release: {line}", file=sys.stderr)
    # a trial shows what is missing and goes on to what can be tried
    if given.check or (wrong and not given.dry):
        return bool(wrong)
    release(given.dry)
    return 0


if __name__ == "__main__":
    sys.exit(main())
