"""Checks that a commit changes text alone: docstrings and comments, and messages too if asked.

    tools/check_text_only.py main..HEAD              each commit of the range
    tools/check_text_only.py --messages HEAD~1..HEAD text between quotes may differ as well

The syntax trees of a Python file without docstrings must be equal before and after; so must the tokens of a Rust file
without comments. With `--messages` every string literal counts as the same one; what stands between braces in an
f-string is still compared. Files of other kinds must be pages (`.md`), and none may appear, vanish or move, but pages.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

RUST_TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n]* )
  | (?P<block> /\* )
  | (?P<text> b?r(?P<hashes>\#*)".*?"(?P=hashes) | b?"(?:[^"\\]|\\.)*" )
  | (?P<character> b?'(?:[^'\\]|\\[^u]|\\u\{[0-9a-fA-F_]+\})' )
  | (?P<word> '?\w+ )
  | (?P<sign> \S )
    """,
    re.VERBOSE | re.DOTALL,
)
BLOCK_EDGE = re.compile(r"/\*|\*/")


class _WithoutText(ast.NodeTransformer):
    """Takes the docstrings out of a tree; with `messages` it empties all other strings, but not bytes."""

    def __init__(self, messages: bool) -> None:
        self.messages = messages

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:]
        return super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("") if self.messages and isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        if not self.messages:
            return super().generic_visit(node)
        # in any order: another sentence may name the same values elsewhere
        values = [ast.dump(self.visit(one)) for one in node.values if isinstance(one, ast.FormattedValue)]
        return ast.JoinedStr([ast.Constant(one) for one in sorted(values)])


def python_code(text: str, messages: bool = False) -> str:
    """All of a Python source but its comments and docstrings, in a form to compare."""
    return ast.dump(_WithoutText(messages).visit(ast.parse(text)))


def rust_code(text: str, messages: bool = False) -> list[str]:
    """The tokens of a Rust source without its comments. Raises ValueError if a comment does not end."""
    return list(_rust_tokens(text, messages))


def _rust_tokens(text: str, messages: bool) -> Iterator[str]:
    place = 0
    while match := RUST_TOKEN.search(text, place):
        place = match.end()
        if match["block"]:
            depth = 1
            while depth:
                edge = BLOCK_EDGE.search(text, place)
                if edge is None:
                    raise ValueError("a comment does not end")
                depth += 1 if edge[0] == "/*" else -1
                place = edge.end()
        elif match["text"] and messages:
            # names of values between braces stay, in any order
            yield from ("text", *sorted(re.findall(r"\{[^{}]*\}", match["text"])))
        elif not match["comment"]:
            yield match[0]


def complaints(commit: str, messages: bool) -> list[str]:
    """Changes of a commit that are not text, one line each."""
    wrong = []
    for line in _git("diff", "--name-status", "--no-renames", f"{commit}~1", commit).splitlines():
        how, name = line.split("\t")
        kind = Path(name).suffix
        if kind == ".md":
            continue
        if how != "M" or kind not in (".py", ".pyi", ".rs"):
            wrong.append(f"{commit[:10]} {name}: is neither a page nor a changed source")
            continue
        code = rust_code if kind == ".rs" else python_code
        before, after = (_git("show", f"{revision}:{name}") for revision in (f"{commit}~1", commit))
        if code(before, messages) != code(after, messages):
            wrong.append(f"{commit[:10]} {name}: code differs")
    return wrong


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("commits", help="a range, as for `git log`: main..HEAD")
    arguments.add_argument("--messages", action="store_true", help="string literals may differ too")
    given = arguments.parse_args()
    commits = _git("rev-list", "--no-merges", "--reverse", given.commits).split()
    wrong = [line for commit in commits for line in complaints(commit, given.messages)]
    print("\n".join(wrong) or f"{len(commits)} commits change text alone")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
