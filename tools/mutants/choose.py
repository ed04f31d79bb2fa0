"""Chooses the patches of tests/mutants, by a seed. They are kept; this is how others are chosen, or the same again.

python -m mutants.choose python      in an environment with cosmic-ray
python -m mutants.choose rust        with cargo-mutants; each is built once, and those that do not build are left out

As many for each module, and of each kind of fault within it; never two of one line.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mutants.modules import FOLDER, ROOT, Module, modules
from mutants.tree import Tree

SEED = 40
PYTHON_EACH = 16
RUST_EACH = 20


class Fault(NamedTuple):
    """A fault that can be chosen; `diff` makes its patch, or says that there is none."""

    kind: str
    path: str
    line: int
    diff: Callable[[], str | None]


def main(words: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="mutants.choose", description=__doc__)
    parser.add_argument("language", choices=["python", "rust"])
    parser.add_argument("--seed", type=int, default=SEED)
    asked = parser.parse_args(words)
    folder = FOLDER / asked.language
    folder.mkdir(exist_ok=True)
    of_module, each = (_python, PYTHON_EACH) if asked.language == "python" else (_rust, RUST_EACH)
    for module in modules(asked.language):
        chosen = _choose(of_module(module), each, random.Random(f"{asked.seed} {module.name}"))
        print(f"{module.name}: {len(chosen)} patches", flush=True)
        for number, (fault, diff) in enumerate(chosen, 1):
            path = Path(fault.path)
            stem = path.stem if path.stem != "mod" else path.parent.name
            name = f"{module.name}-{number:02d}-{stem}-{fault.line}-{fault.kind}.patch"
            (folder / name).write_text(diff, encoding="utf-8")
    return 0


def _choose(found: list[Fault], number: int, by: random.Random) -> list[tuple[Fault, str]]:
    """Chooses `number` faults, of all kinds in turn, in the order of files and lines."""
    of_kind: dict[str, list[Fault]] = defaultdict(list)
    for one in found:
        of_kind[one.kind].append(one)
    for those in of_kind.values():
        by.shuffle(those)
    chosen: dict[tuple[str, int], tuple[Fault, str]] = {}
    while len(chosen) < number and any(of_kind.values()):
        kinds = sorted(kind for kind, those in of_kind.items() if those)
        by.shuffle(kinds)
        for kind in kinds:
            one = of_kind[kind].pop()
            if len(chosen) < number and (one.path, one.line) not in chosen and (diff := one.diff()):
                chosen[one.path, one.line] = one, diff
    return [chosen[place] for place in sorted(chosen)]


def _python(module: Module) -> list[Fault]:
    from mutants.python_candidates import candidates

    found: list[Fault] = []
    for path in sorted(path for name in module.files for path in _files(ROOT / name, "*.py")):
        source = path.read_text(encoding="utf-8")
        for one in candidates(path.relative_to(ROOT).as_posix(), source):
            found.append(Fault(one.kind, one.path, one.line, partial(one.diff, source)))
    return found


def _files(place: Path, pattern: str) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob(pattern))


def _rust(module: Module) -> list[Fault]:
    patterns = [word for name in module.files for word in ("--file", name if name.endswith(".rs") else f"{name}/**")]
    listed = subprocess.run(
        ["cargo", "mutants", "--list", "--diff", "--json", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    tree = Tree()
    found: list[Fault] = []
    for one in json.loads(listed.stdout):
        diff = _name_files(one["diff"], one["file"])
        found.append(Fault(_kind(one), one["file"], one["span"]["start"]["line"], partial(_built, tree, diff)))
    return found


def _built(tree: Tree, diff: str) -> str | None:
    """The patch, if the crate builds with it."""
    with tree.planted(diff):
        words = ["cargo", "check", "--package", "kinema-core", "--lib", "--quiet"]
        done = subprocess.run(words, cwd=tree.folder, env=tree.environment(), capture_output=True, check=False)
    return diff if done.returncode == 0 else None


OPERATORS = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), "comparison"),
    **dict.fromkeys(("+", "-", "*", "/", "%", "+=", "-=", "*=", "/=", "%="), "arithmetic"),
    **dict.fromkeys(("&", "|", "^", "<<", ">>", "&=", "|=", "^=", "<<=", ">>="), "bits"),
    **dict.fromkeys(("&&", "||"), "and-or"),
}


def _kind(mutant: dict[str, str]) -> str:
    """By the operator, or by what cargo-mutants calls the genre: FnValue is fn-value."""
    named = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", mutant["genre"]).lower()
    return OPERATORS.get(mutant["replacement"], named)


def _name_files(diff: str, path: str) -> str:
    """The diff with the two names that git expects; cargo-mutants gives the mutant a name in words."""
    lines = diff.splitlines(keepends=True)
    lines = [line.replace(" /* ~ changed by cargo-mutants ~ */", "") for line in lines]
    start = next(at for at, line in enumerate(lines) if line.startswith("@@"))
    return "".join([f"--- a/{path}\n", f"+++ b/{path}\n", *lines[start:]])


if __name__ == "__main__":
    sys.exit(main())
