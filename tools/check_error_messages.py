"""Checks the form of error messages: lower case at the start, no full stop at the end, one line.

It reads only literal messages: arguments of `Error::new`, `Error::corrupt` and `Error::io` in Rust, and of the
classes of `kinema.base.errors` in Python. Other output of a program is not checked.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

RUST_CALL = re.compile(
    r"Error::(?:new\(\s*(?:ErrorKind::\w+|\w+)\s*,\s*|corrupt\(\s*|io\(\s*)&?(?:format!\(\s*)?"
    r'"((?:[^"\\]|\\.)*)"',
    re.DOTALL,
)
# how a string literal continues on the next line
RUST_CONTINUATION = re.compile(r"\\\n\s*")


def complaint(message: str) -> str | None:
    """Complaint about the form of a message, or None; `{}` stands for a placeholder."""
    first = re.split(r"[\s,:;]", message, maxsplit=1)[0]
    # XTC, MDAnalysis, H5MD: names keep their capitals; an ordinary word has none after its first letter
    ordinary_word = first[:1].isupper() and first[1:].isalpha() and first[1:].islower()
    if not message:
        return "is empty"
    if ordinary_word or first in ("A", "I"):
        return "starts with a capital"
    if message.rstrip() != message or "\n" in message:
        return "ends with white space or has a line break"
    if message.endswith(".") and not message.endswith("..."):
        return "ends with a full stop"
    return None


def rust_messages(text: str) -> Iterator[tuple[int, str]]:
    """Line and literal message of every error that is made in a Rust source."""
    for match in RUST_CALL.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, RUST_CONTINUATION.sub("", match.group(1))


def literal(node: ast.expr) -> str | None:
    """The text of a string or f-string with `{}` for its placeholders; None if it is not a literal."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = literal(node.left), literal(node.right)
        return None if left is None and right is None else (left or "{}") + (right or "{}")
    return None


def error_classes(errors: Path) -> set[str]:
    """Names of all classes of kinema/base/errors.py."""
    return {node.name for node in ast.parse(errors.read_text()).body if isinstance(node, ast.ClassDef)}


def python_messages(text: str, classes: set[str]) -> Iterator[tuple[int, str]]:
    """Line and literal message of every kinema error that is made in a Python source."""
    # most of the time goes into syntax trees
    if not any(name in text for name in classes):
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        message = literal(node.args[0]) if name in classes else None
        if message is not None:
            yield node.lineno, message


def check(root: Path) -> list[str]:
    """All messages of the project in `root` that are not in form, one line each."""
    wrong = []
    for file in sorted((root / "crates").glob("*/src/**/*.rs")):
        for line, message in rust_messages(file.read_text()):
            if why := complaint(message):
                wrong.append(f"{file.relative_to(root)}:{line}: message {why}: {message!r}")
    package = root / "python/kinema"
    classes = error_classes(package / "base" / "errors.py")
    for file in sorted(package.rglob("*.py")):
        for line, message in python_messages(file.read_text(), classes):
            if why := complaint(message):
                wrong.append(f"{file.relative_to(root)}:{line}: message {why}: {message!r}")
    return wrong


if __name__ == "__main__":
    found = check(Path(__file__).resolve().parent.parent)
    print("\n".join(found) or "error messages: all in form")
    sys.exit(1 if found else 0)
