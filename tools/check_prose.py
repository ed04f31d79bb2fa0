"""Finds sentences that read as if translated: docs, docstrings, comments and messages, in Markdown, Python and Rust.

Each folder has a budget of hits in tools/prose_budget.toml. More hits are an error; `--write` lowers the budget to the
hits of today and never raises it. With paths, the script lists all hits in these files and folders. docs/style.md
shows what to write instead.
"""

import argparse
import ast
import io
import os
import re
import sys
import tokenize
import tomllib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

BUDGET = "tools/prose_budget.toml"
FIRST_LINE = "# hits of tools/check_prose.py that each folder may have; they only fall\n"
ROOTS = ["docs", "python", "crates", "tests", "tools", "benchmarks", "examples", "fuzz", "packaging"]
# folders of builds and of what fuzzing and benchmarks leave
BUILT = {"target", "results", "work", "build", "dist"}
# two files quote the patterns, one has the words of others
LEFT_OUT = {"docs/style.md", "tests/project/test_check_prose.py", "THIRD-PARTY-LICENCES.md"}
# folders whose sub-folders have budgets of their own
PARTED = {"python/kinema": 3}

START = r"(?:^(?:#+ )?|(?<=[.!?:] ))"


class Pattern:
    """A row of the table of patterns."""

    def __init__(self, name: str, words: str, reason: str, instead: str, good: str = "(?!)") -> None:
        self.name, self.reason, self.instead = name, reason, instead
        self.words, self.good = re.compile(words.replace("START", START)), re.compile(good)

    def find(self, prose: str) -> Iterator[tuple[int, int]]:
        """The spans of all hits; a hit that overlaps a good use is none."""
        found = [match.span() for match in self.words.finditer(prose)]
        # most prose has no hit: good uses are looked for after the hits
        good = [use.span() for use in self.good.finditer(prose)] if found else []
        for start, end in found:
            if not any(a < end and start < b for a, b in good):
                yield start, end


def table() -> list[Pattern]:
    """The table of patterns."""
    rows = tomllib.loads(Path(__file__).with_name("prose_patterns.toml").read_text())["pattern"]
    return [Pattern(**row) for row in rows]


PATTERNS = table()

FENCE = re.compile(r"(?:```|~~~)")
# items of lists, quotations, rows of tables; headings keep their marks for the patterns
MARK = re.compile(r"(?=#{1,6}\s)|(?:[-*+>]|\d+[.)])\s+|\|")
INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
RUST = re.compile(
    r"(?P<comment>//[^\n]*)|/\*(?P<block>.*?)\*/"
    r'|\br(?P<hashes>#*)"(?P<raw>.*?)"(?P=hashes)|"(?P<text>(?:\\.|[^"\\])*)"'
    r"|'(?:\\.[^']*|[^\\'])'",
    re.DOTALL,
)


@dataclass(frozen=True)
class Hit:
    path: str
    line: int
    pattern: Pattern
    words: str

    def __str__(self) -> str:
        one = self.pattern
        return f'{self.path}:{self.line}: {one.name}: "{self.words}": {one.reason}; write: {one.instead}'


def paragraphs(text: str, line: int = 1) -> Iterator[list[tuple[int, str]]]:
    """Numbered lines of each paragraph, item or cell; code blocks are left out."""
    block: list[tuple[int, str]] = []
    indent: int | None = None
    fenced = False
    for number, raw in enumerate(text.split("\n"), start=line):
        words = raw.strip()
        here = len(raw) - len(raw.lstrip())
        mark = MARK.match(words)
        fence = FENCE.match(words) is not None
        if block and (fenced or fence or not words or mark or (indent is not None and here != indent)):
            yield block
            block = []
        fenced ^= fence
        if not words or fenced or fence:
            indent = None
        elif words.startswith("|"):
            yield from ([(number, cell.strip())] for cell in words.split("|") if cell.strip())
        else:
            # the first line of a docstring, and of an item, is indented less than the next
            indent = here if block else None
            block.append((number, words[mark.end() :] if mark else words))
    if block:
        yield block


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring, other string with a space, and comment."""
    inner: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inner.update(ast.walk(node))
            parts = [one.value if isinstance(one, ast.Constant) else "{}" for one in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner:
            yield node.lineno, node.value
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = ((token.start, token.string.lstrip("#:")) for token in tokens if token.type == tokenize.COMMENT)
    yield from joined(comments)


def rust_texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string and comment."""
    comments = []
    for match in RUST.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        if match["comment"]:
            column = match.start() - source.rfind("\n", 0, match.start())
            comments.append(((line, column), match["comment"].lstrip("/!")))
        elif text := match["block"] or match["raw"] or match["text"]:
            yield line, PLACEHOLDER.sub("{}", text.replace("\\\n", "\n"))
    yield from joined(comments)


def joined(comments: Iterable[tuple[tuple[int, int], str]]) -> Iterator[tuple[int, str]]:
    """Comments of one column on lines that follow each other, as one text."""
    first, last, column, lines = 0, 0, 0, list[str]()
    for (line, here), text in comments:
        if lines and (line, here) == (last + 1, column):
            lines.append(text)
        else:
            if lines:
                yield first, "\n".join(lines)
            first, column, lines = line, here, [text]
        last = line
    if lines:
        yield first, "\n".join(lines)


TEXTS = {".md": lambda source: [(1, source)], ".py": python_texts, ".pyi": python_texts, ".rs": rust_texts}


def hits_in(path: str, source: str) -> Iterator[Hit]:
    """All hits in one file, by line."""
    found = []
    for first, text in TEXTS[Path(path).suffix](source):
        for block in paragraphs(text, first):
            words = " ".join(line for _, line in block)
            starts = [0]
            for _, line in block:
                starts.append(starts[-1] + len(line) + 1)
            prose = INLINE_CODE.sub(lambda code: "_" * len(code[0]), words)
            for pattern in PATTERNS:
                for start, end in pattern.find(prose):
                    at = block[bisect_right(starts, start) - 1][0]
                    found.append(Hit(path, at, pattern, words[start : min(end, start + 40)]))
    return iter(sorted(found, key=lambda hit: hit.line))


def folder_of(path: str) -> str:
    """The folder whose budget counts hits in `path`."""
    *folders, name = path.split("/")
    depth = next((depth for folder, depth in PARTED.items() if path.startswith(f"{folder}/")), 2)
    return "/".join(folders[:depth]) or name


def files(root: Path) -> Iterator[Path]:
    """All files that may hold prose."""
    yield from root.glob("*.md")
    for top in ROOTS:
        for folder, folders, names in os.walk(root / top):
            folders[:] = [name for name in folders if name not in BUILT and not name.startswith(".")]
            yield from (Path(folder) / name for name in names)


def all_hits(root: Path, below: Iterable[Path] = ()) -> dict[str, list[Hit]]:
    """Hits of each folder, in all files or in those of `below`."""
    hits = defaultdict[str, list[Hit]](list)
    for file in sorted(files(root)):
        path = file.relative_to(root).as_posix()
        wanted = not below or any(file.is_relative_to(one) for one in below)
        if wanted and file.suffix in TEXTS and path not in LEFT_OUT:
            hits[folder_of(path)] += hits_in(path, file.read_text())
    return {folder: found for folder, found in hits.items() if found}


def compare(hits: dict[str, list[Hit]], budget: dict[str, int]) -> tuple[list[str], dict[str, int]]:
    """Complaints about folders with more hits than their budget, and the budget that has become possible."""
    wrong = []
    for folder, found in sorted(hits.items()):
        if len(found) > budget.get(folder, 0):
            wrong += [*map(str, found), f"{folder}: {len(found)} hits, expected at most {budget.get(folder, 0)}"]
    lower = {folder: min(most, len(hits.get(folder, ()))) for folder, most in sorted(budget.items())}
    return wrong, {folder: most for folder, most in lower.items() if most}


def check(root: Path) -> list[str]:
    """All complaints about the project in `root`, one line each."""
    return compare(all_hits(root), tomllib.loads((root / BUDGET).read_text()))[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "paths", nargs="*", type=Path, help="list the hits in these files and folders, whatever their budget"
    )
    parser.add_argument("--write", action="store_true", help="lower the budget to the hits of today")
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    if arguments.paths:
        hits = all_hits(root, [path.resolve() for path in arguments.paths])
        found = [hit for folder in hits.values() for hit in folder]
        print("\n".join(map(str, found)) or "prose: no hits")
        return 0
    budget = tomllib.loads((root / BUDGET).read_text())
    wrong, lower = compare(all_hits(root), budget)
    if arguments.write:
        lines = [FIRST_LINE, *(f'"{folder}" = {most}\n' for folder, most in lower.items())]
        (root / BUDGET).write_text("".join(lines))
    elif lower != budget:
        print(f"prose: lower the budget from {sum(budget.values())} to {sum(lower.values())} hits with --write")
    print("\n".join(wrong) or "prose: all folders within their budgets")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
