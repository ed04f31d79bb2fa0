"""Reading job files: TOML of bounded size, and the path of each key for messages. Nothing of a file is executed."""

from __future__ import annotations

import re
import sys
import tomllib
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import read_regular

MOST_BYTES = 1 << 18
# in a dotted key: the parser's time grows with the square
_MOST_PARTS = 100
_LONGEST_SETTING = 1000

# an unclosed string ends at the end of its line or of the text, where the parser stops
_QUOTED_OR_COMMENT = re.compile(
    r"""\"{3}(?:\\.|[^\\])*?(?:\"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?|\#[^\n]*""", re.DOTALL
)
_BETWEEN_KEYS = re.compile(r"[\n=,{}\[\]]")

Place = tuple[str | int, ...]


@dataclass(frozen=True, eq=False)
class JobText:
    """A parsed job file, not checked yet.

    `name`: the file, or "stdin".
    `settings`: keys whose values `--set` gave, as the words that lead to them: ("analysis", 0, "select").
    """

    name: str
    data: dict[str, Any]
    settings: frozenset[Place] = frozenset()

    def is_set(self, place: Place) -> bool:
        """Whether `--set` gave the value of a key."""
        return place in self.settings

    def error(self, place: Place, what: str) -> ArgumentError:
        """An error that names a key, or a table, by its path, as `--set` takes it."""
        path = ".".join(map(_part, place))
        return ArgumentError(f"{'--set ' if self.is_set(place) else ''}{path}: {what}", at=self.name)


def read_text(path: str) -> JobText:
    """Parses the file, or stdin for "-". ArgumentError if it is not TOML or would take the parser long."""
    name = "stdin" if path == "-" else path
    packed = sys.stdin.buffer.read(MOST_BYTES + 1) if path == "-" else read_regular(path, "job file", MOST_BYTES)
    if len(packed) > MOST_BYTES:
        raise ArgumentError(f"the job file is too large, expected at most {MOST_BYTES:,} bytes", at=name)
    try:
        text = packed.decode("utf-8")
    except UnicodeDecodeError as error:
        line = packed[: error.start].count(b"\n") + 1
        raise ArgumentError(f"{name}: line {line}: expected text in UTF-8, found byte {packed[error.start]}") from None
    if any(words.count(".") >= _MOST_PARTS for words in _BETWEEN_KEYS.split(_QUOTED_OR_COMMENT.sub("_", text))):
        raise ArgumentError(f"expected keys of at most {_MOST_PARTS} parts, found a longer one", at=name)
    try:
        return JobText(name, tomllib.loads(text))
    except RecursionError:
        raise ArgumentError("values are nested too deeply", at=name) from None
    except ValueError as error:  # also for numbers that Python refuses to read
        raise ArgumentError(f"expected TOML: {error}", at=name) from None


def with_settings(text: JobText, settings: list[str]) -> JobText:
    """The job with values of `--set run.workers=4`, `--set analysis.0.select='name CA'`: TOML, or else text."""
    places = set(text.settings)
    for setting in settings:
        name, equals, value = setting.partition("=")
        place: Place = tuple(int(word) if word.isdecimal() else word for word in name.strip().split("."))
        if not equals or len(setting) > _LONGEST_SETTING or len(place) < 2:
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
        places.add(place)
    return JobText(text.name, text.data, frozenset(places))


def _part(word: str | int) -> str:
    """A part of a key's path; quoted and cut if it is not a bare key of TOML."""
    return str(word) if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", str(word)) else shown(word)


def shown(value: object) -> str:
    """A value for messages."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
