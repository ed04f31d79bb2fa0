"""Templates of job files: every key with its meaning, from the declarations of options and analyses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kinema.analysis.registry import ANALYSES
from kinema.base.errors import ArgumentError
from kinema.cli.jobs.keys import RUN, TRAJECTORY, Key, keys_of
from kinema.cli.jobs.untrusted import SET_ALONE

_TOP = """\
# Job of `kinema run`: these analyses in one pass over the trajectory. Paths are relative to the folder in which the
# command is called. Keys that are commented out have their defaults, or nothing.
"""


def template(names: Sequence[str]) -> str:
    """A job file of these analyses, which can be run after its files are filled in."""
    lines = [_TOP, "[trajectory]", *_lines(TRAJECTORY, ""), "", "[run]", *_lines(RUN, "")]
    for name in names:
        analysis = ANALYSES[name]
        keys = keys_of(analysis)
        lines += ["", f"# {analysis.summary}", "[[analysis]]", f'name = "{name}"']
        lines += _lines(keys, name, needed=_one_of_several(analysis, keys))
    return "\n".join(lines) + "\n"


def _one_of_several(analysis: Any, keys: Mapping[str, Key]) -> str | None:
    """The first sufficient argument of an analysis that needs one of several; None if it needs none of them."""
    required = {key.name: key.example for key in keys.values() if key.argument is not None and key.required}
    others = [{key.name: key.example} for key in keys.values() if key.argument is not None and not key.required]
    for more in ({}, *others):
        try:
            analysis.check_arguments({**required, **more})
        except ArgumentError:
            continue
        return next(iter(more), None)
    return None


def _lines(keys: Mapping[str, Key], analysis: str, needed: str | None = None) -> Iterator[str]:
    for key in keys.values():
        example = key.example
        if key.name in ("output", "plot"):
            example = example.replace("NAME", analysis)
        # an analysis without its values is rarely wanted
        given = key.required or key.name in ("output", needed)
        # the help names options; a job file has keys
        text = re.sub(r"--([a-z][a-z-]*)", lambda flag: flag[1].replace("-", "_"), " ".join(key.help.split()))
        yield f"# {text}"
        if key.name in SET_ALONE:
            yield f"# With --set run.{key.name}={key.example} alone."
            continue
        yield f"{'' if given else '#'}{key.name} = {_written(example)}"


def _written(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_written(one)}" for name, one in value.items()) + "}"
    return str(value) if isinstance(value, int) else json.dumps(str(value), ensure_ascii=False)
