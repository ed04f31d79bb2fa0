"""Writes python/kinema/formats/options.py of the options that formats declare. It changes nothing else.

With --check it writes nothing, and fails if the file differs.
"""

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

from kinema.files.conversion.outputs import DECIDED, ConvertingOptions
from kinema.formats.all_formats import FORMATS
from kinema.formats.declared import RanksWriting, ReadingOptions, names_of
from kinema.trajectory import opening

WRITTEN = Path(__file__).resolve().parent.parent / "python/kinema/formats/options.py"
WIDTH = 116
# those that a user of `convert` says there already, and that it names itself
_NAMED_BY_CONVERT = ("paths", "topology", "format")
_HEAD = '''\
"""Options of formats as keywords, for editors, type checkers and `help()`.

Written by tools/write_options.py from what each format declares: change it there, in `formats/NAME/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike, DTypeLike

    from kinema.cache.node_cache import NodeCacheChoice
    from kinema.execution.checkpoint import CheckpointChoice
    from kinema.files.conversion.compare import Verification
    from kinema.formats.external.writer import AtomsAsText
    from kinema.model.atom_table import Atoms
'''


@dataclass(frozen=True)
class Option:
    """A field of a declaration: its type as source text, what it takes, what it means."""

    name: str
    type: str
    kind: str
    text: str

    @property
    def said(self) -> tuple[str, str]:
        """Its documentation."""
        return self.kind, self.text


@cache
def _documented_fields(declared: type) -> dict[str, tuple[str, str]]:
    """The fields that a class itself has, with type and documentation."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(declared)))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    found_fields = {}
    for node, after in zip(found.body, [*found.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = inspect.cleandoc(after.value.value) if is_text else ""
            found_fields[node.target.id] = (ast.unparse(node.annotation), text)
    return found_fields


def options_of(declared: type) -> Iterator[Option]:
    """The options of a declaration; ValueError for one without documentation."""
    for name in names_of(declared):
        owner = next(one for one in declared.__mro__ if name in vars(one).get("__annotations__", {}))
        of_type, text = _documented_fields(owner)[name]
        kind, _, meaning = text.partition("\n\n")
        if not kind:
            raise ValueError(f"{owner.__name__}.{name} has no documentation")
        yield Option(name, of_type, " ".join(kind.split()), " ".join(meaning.split()))


def _reading() -> Iterator[tuple[str, type[ReadingOptions]]]:
    for one in FORMATS.values():
        # what MDAnalysis writes it reads
        if not one.written_through_mdanalysis:
            yield "files that MDAnalysis reads" if one.through_mdanalysis else one.name, one.reading


def _writing() -> Iterator[tuple[str, type]]:
    for one in FORMATS.values():
        if one.writing is not None:
            yield one.name, one.writing
        yield from ((f"{one.name} with {name}=True", of) for name, of in one.writing_variants.items())
    yield "comm=, of any format", RanksWriting


def _union(types: Iterable[str]) -> str:
    """Types as one, None last."""
    members: dict[str, None] = {}
    for one in types:
        node, parts = ast.parse(one, mode="eval").body, []
        while isinstance(node, ast.BinOp):
            parts.append(ast.unparse(node.right))
            node = node.left
        members |= dict.fromkeys([ast.unparse(node), *reversed(parts)])
    return " | ".join(sorted(members, key=lambda member: member == "None"))


def _typed(name: str, said: str, types: dict[str, str]) -> str:
    lines = [f"class {name}(TypedDict, total=False):", f'    """{said}"""', ""]
    return "\n".join([*lines, *(f"    {option}: {of_type}" for option, of_type in types.items())])


def _types(declarations: Iterable[tuple[str, type]], without: Iterable[str] = ()) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for _, declared in declarations:
        for option in options_of(declared):
            if option.name not in without:
                found.setdefault(option.name, []).append(option.type)
    return {name: _union(types) for name, types in found.items()}


def _types_of_open() -> dict[str, str]:
    """Arguments that `open` names, but for those that `convert` names as well."""
    parameters = inspect.signature(opening.open).parameters.values()
    named = [one for one in parameters if one.kind is one.KEYWORD_ONLY and one.name not in _NAMED_BY_CONVERT]
    return {one.name: str(one.annotation) for one in named}


def _wrapped(text: str, width: int, initial_indent: str, subsequent_indent: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=initial_indent, subsequent_indent=subsequent_indent, break_on_hyphens=False
    )


def _lines(options: list[Option]) -> Iterator[str]:
    """Options as docstrings of NumPy have them; neighbours that take the same, with nothing more to say, together."""
    at = 0
    while at < len(options):
        end = at + 1
        while end < len(options) and not options[at].text and options[end].said == options[at].said:
            end += 1
        names = ", ".join(one.name for one in options[at:end])
        said = f"{names} : {options[at].kind}"
        yield from _wrapped(said, WIDTH - 4, initial_indent=" " * 8, subsequent_indent=" " * 16)
        yield from _wrapped(options[at].text, WIDTH - 4, initial_indent=" " * 12, subsequent_indent=" " * 12)
        at = end


def _table(declarations: Sequence[tuple[str, type]]) -> list[str]:
    """The options of each format, with those that nearly all have before them; the longest list comes first."""
    owners: dict[Option, list[str]] = {}
    for name, declared in declarations:
        for option in options_of(declared):
            owners.setdefault(option, []).append(name)
    formats: dict[tuple[Option, ...], list[str]] = {}
    for name, declared in declarations:
        own = (one for one in options_of(declared) if not _is_nearly_all(owners[one], declarations))
        formats.setdefault(tuple(own), []).append(name)
    formats.pop((), None)
    shared = [one for one, names in owners.items() if _is_nearly_all(names, declarations)]
    lines = ["    Options by format", "    -----------------"]
    if shared:
        without = [name for name, _ in declarations if name not in owners[shared[0]]]
        lines += [f"    all formats but {' and '.join(without)}" if without else "    all formats", *_lines(shared)]
    said: dict[Option, str] = {}
    for options, names in sorted(formats.items(), key=lambda one: -len(one[0])):
        lines += _wrapped(", ".join(names), WIDTH, initial_indent="    ", subsequent_indent=" " * 8)
        lines += _lines([one if one not in said else replace(one, kind=f"as {said[one]}", text="") for one in options])
        said |= {one: names[0] for one in options if one not in said}
    return lines


def _is_nearly_all(names: list[str], declarations: Sequence[tuple[str, type]]) -> bool:
    return len(names) > 3 and len(declarations) - len(names) < 3


def _convert_options(declarations: Sequence[tuple[str, type]]) -> list[str]:
    """Options of `convert`, and the names of the options of each format."""
    formats: dict[tuple[str, ...], list[str]] = {}
    for name, declared in declarations:
        taken = tuple(one for one in names_of(declared) if one not in DECIDED)
        formats.setdefault(taken, []).append(name)
    lines = ["    Options", "    -------", *(line[4:] for line in _lines(list(options_of(ConvertingOptions))))]
    lines += ["", "    Options by format, as of `kinema.Writer`", "    ----------------------------------------"]
    for options, names in formats.items():
        lines += _wrapped(", ".join(names), WIDTH, initial_indent="    ", subsequent_indent=" " * 8)
        text = ", ".join(options) or "none"
        lines += _wrapped(text, WIDTH - 4, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return lines


def _constant(name: str, lines: list[str]) -> str:
    text = "\n".join(line.replace("\\", "\\\\") for line in lines)
    return f'{name} = """\\\n{text}\n"""'


def _mapping(name: str, of_type: str, values: Mapping[str, object]) -> str:
    words = {key: json.dumps(value) if isinstance(value, str) else repr(value) for key, value in values.items()}
    lines = (f"    {json.dumps(key)}: {word}," for key, word in words.items())
    return "\n".join([f"{name}: Mapping[str, {of_type}] = {{", *lines, "}"])


def written() -> str:
    """The file."""
    reading, writing = list(_reading()), list(_writing())
    to_convert = [one for one in writing if one[1] is not RanksWriting]
    of_convert = {**_types([("any format", ConvertingOptions)]), **_types_of_open(), **_types(reading)}
    for name, of_type in _types(to_convert, without=DECIDED).items():
        of_convert[name] = _union([of_convert[name], of_type]) if name in of_convert else of_type
    defaults = {one.name: one.default for _, declared in reading for one in fields(declared)}
    old_names = {old: new for _, declared in reading for old, new in declared.old_names.items()}
    parts = [
        _HEAD.rstrip(),
        _typed("OpenOptions", "Options of `kinema.open` that formats declare.", _types(reading)),
        _typed("WriteOptions", "Options of `kinema.Writer` that formats declare.", _types(writing)),
        _typed(
            "ConvertOptions",
            "Options of `kinema.convert`, of `kinema.open`, and those that formats declare.",
            of_convert,
        ),
        "\n\n".join(
            [
                _mapping("OPEN_DEFAULTS", "Any", defaults),
                _mapping("OPEN_OLD_NAMES", "str", old_names),
                _constant("OPEN_TABLE", _table(reading)),
                _constant("WRITE_TABLE", _table(writing)),
                _constant("CONVERT_TABLE", _convert_options(to_convert)),
            ]
        ),
    ]
    return "\n\n\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    """Writes the file, or with --check says that it differs."""
    text = written()
    if "--check" not in arguments:
        WRITTEN.write_text(text, encoding="utf-8")
        return 0
    if WRITTEN.read_text(encoding="utf-8") == text:
        return 0
    print("python/kinema/formats/options.py is not what the formats declare; python tools/write_options.py writes it")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
