"""Reading job files: bounded TOML, and the line of each key. Nothing of a file is executed."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.base.input_files import read_regular
from kinema.base.values import dataclass

__all__ = ["JobText", "Place", "read_text", "shown", "with_settings"]

# of a file, and what keeps the parser's work in proportion to it
MOST_BYTES = 1 << 18
_MOST_NESTED = 16
_LONGEST_WORD = 1000
# before the name of a key, in the place of its line
_SET = "--set "

_TOKEN = re.compile(
    r"""(?P<text>\"{3}(?:\\.|[^\\])*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')|(?P<comment>\#[^\n]*)"""
    r"""|(?P<mark>[\n\[\]{}=,])|(?P<word>[^"'\#\n\[\]{}=,]+|.)""",
    re.DOTALL,
)

Place = tuple[str | int, ...]


@dataclass(frozen=True, eq=False)
class JobText:
    """A job file as it stands.

    Attributes
    ----------
    name : str
        The file, or "stdin".
    data : dict
        Its tables.
    lines : dict
        "line 3" of each table and key, by the words that lead to it: ("analysis", 0, "select").
    """

    name: str
    data: dict[str, Any]
    lines: dict[Place, str] = field(default_factory=dict)

    def is_set(self, place: Place) -> bool:
        """Whether `--set` gave the value of a key."""
        return self.lines.get(place, "").startswith(_SET)

    def error(self, place: Place, what: str) -> ArgumentError:
        """An error at a key, or at the table that lacks one."""
        while place and place not in self.lines:
            place = place[:-1]
        return ArgumentError(f"{self.name}: {self.lines.get(place, 'line 1')}: {what}", path=self.name)


def read_text(path: str) -> JobText:
    """The file, or stdin for "-". ArgumentError with the line for what is no TOML, or too much of it."""
    name = "stdin" if path == "-" else path
    packed = sys.stdin.buffer.read(MOST_BYTES + 1) if path == "-" else read_regular(path, "job file", MOST_BYTES)
    if len(packed) > MOST_BYTES:
        raise ArgumentError(f"{name}: the job file is too large, expected at most {MOST_BYTES:,} bytes", path=name)
    try:
        text = packed.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = packed[: error.start].count(b"\n") + 1
        raise ArgumentError(f"{name}: line {line}: expected text in UTF-8, found byte {packed[error.start]}") from None
    statements = list(_statements(text, name))
    try:
        data = tomllib.loads(text)
    except ValueError as error:  # also of numbers that Python refuses to read
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error), re.DOTALL)
        what, line_of = (found[1], found[2]) if found else (str(error), None)
        at = line_of or text.count("\n") + 1
        raise ArgumentError(f"{name}: line {at}: expected TOML, found: {what}", path=name) from None
    return JobText(name, data, _lines(statements))


def with_settings(text: JobText, settings: list[str]) -> JobText:
    """The same with values of `--set run.workers=4`, `--set analysis.0.select='name CA'`: TOML, or else text."""
    lines = dict(text.lines)
    for setting in settings:
        name, equals, value = setting.partition("=")
        place: Place = tuple(int(word) if word.isdecimal() else word for word in name.strip().split("."))
        if not equals or len(setting) > _LONGEST_WORD or len(place) < 2:
            raise ArgumentError(f"--set takes TABLE.KEY=VALUE, as in run.workers=4, found {setting[:60]!r}")
        try:
            parsed = tomllib.loads(f"it = {value}")["it"]
        except (ValueError, RecursionError):
            parsed = value
        where: Any = text.data
        for word in place[:-1]:
            if isinstance(where, list) and isinstance(word, int) and word < len(where):
                where = where[word]
            elif isinstance(where, dict):
                where = where.setdefault(str(word), {})
            else:
                where = None
        if not isinstance(where, dict):
            raise ArgumentError(f"--set {name}: there is no such table in {text.name}; analyses are counted from 0")
        where[str(place[-1])] = parsed
        lines[place] = f"{_SET}{name}"
    return JobText(text.name, text.data, lines)


def _statements(text: str, name: str) -> Iterator[tuple[int, str, bool]]:
    """Line and words of each key, and of each header of a table (True); what would take the parser long is refused."""
    line, depth, words = 1, 0, ""
    begun, behind_equals = 1, False
    for token in _TOKEN.finditer(text):
        word = token[0]
        if token["word"] and len(word) > _LONGEST_WORD:
            raise _refused(name, line, f"a word of at most {_LONGEST_WORD} characters, found {len(word)}")
        if word == "\n" and depth == 0:
            if words.startswith("["):
                yield begun, words, True
            words, behind_equals = "", False
        elif word == "=" and depth == 0 and not behind_equals:
            yield begun, words, False
            behind_equals = True
        elif not (token["comment"] or behind_equals):
            if not words:
                begun = line
            words = (words + word).lstrip()
            if len(words) > _LONGEST_WORD:
                raise _refused(name, begun, f"a name of at most {_LONGEST_WORD} characters")
        if behind_equals:
            depth += (word in "[{") - (word in "]}") if token["mark"] else 0
            if depth > _MOST_NESTED:
                raise _refused(name, line, f"values nested {_MOST_NESTED} deep at most")
            depth = max(depth, 0)
        line += word.count("\n")
    if words.startswith("["):
        yield begun, words, True


def _refused(name: str, line: int, expected: str) -> ArgumentError:
    return ArgumentError(f"{name}: line {line}: expected {expected}", path=name)


def _lines(statements: list[tuple[int, str, bool]]) -> dict[Place, str]:
    lines: dict[Place, str] = {}
    table: Place = ()
    numbers: dict[Place, int] = {}

    def counted(names: tuple[str, ...]) -> Place:
        """With the number of the entry in the place of a list of tables."""
        place: Place = ()
        for name in names:
            place = (*place, name)
            if place in numbers:
                place = (*place, numbers[place])
        return place

    for line, words, is_header in statements:
        if is_header:
            is_list = words.startswith("[[")
            names = _names(words.strip().strip("[]"))
            if is_list:
                whole = (*counted(names[:-1]), names[-1])
                lines.setdefault(whole, f"line {line}")
                numbers[whole] = numbers.get(whole, -1) + 1
            table = counted(names)
            lines.setdefault(table, f"line {line}")
        else:
            lines.setdefault((*table, *_names(words)), f"line {line}")
    return lines


def _names(words: str) -> tuple[str, ...]:
    """The parts of a dotted key, as TOML has them."""
    found: Any = tomllib.loads(f"{words} = 0")
    names: list[str] = []
    while isinstance(found, dict):
        ((name, found),) = found.items()
        names.append(name)
    return tuple(names)


def shown(value: object) -> str:
    """A value for messages."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
