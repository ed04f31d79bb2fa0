"""The package's messages in the words of the command line: options replace Python's arguments."""

import functools
import re
from collections.abc import Mapping
from typing import Any

# arguments, or values of them, whose option has another name
_ALIASES = {
    "overwrite": "--force",
    "compression": "--compress",
    "level": "--compress",
    "out": "--output",
    "units": "--input-units",
    "time_offset": "--t0",
    "stored=False": "--no-stored",
    "coordinates=False": "--headers-only",
}
# a value, as messages print it
_VALUE = r"""(?:\{[^}]*\}|"[^"]*"|'[^']*'|[\w.]+|)"""
# further values: "average", 'iterative' or 'reference'
_MORE = r"""((?:(?:, | or | and )(?:"[^"]*"|'[^']*'|None\b))*)"""


@functools.cache
def _options_of(path: tuple[str, ...]) -> Mapping[str, str]:
    from kinema.cli.app import parser_of

    command: Any = parser_of(path)
    for word in path:
        command = command.commands[word]
    options = [one for one in command.params if one.param_type_name == "option"]
    found = {one.name: max(one.opts, key=len) for one in options}
    found |= {f"{one.name}=False": max(one.secondary_opts, key=len) for one in options if one.secondary_opts}
    aliases = {name: option for name, option in _ALIASES.items() if option in found.values()}
    return aliases | found


def option_names(words: list[str]) -> Mapping[str, str]:
    """The options of the command that the words call, keyed by argument name or by "argument=value"."""
    from kinema.cli.app import path_of

    path = path_of(words)
    return _options_of(path) if path else {}


def rewrite_names(message: str, options: Mapping[str, str], path: str | None = None) -> str:
    """Rewrites `name=value`, names with an underscore, and a name at the start of the message as options.

    If the message gives the option itself, in brackets after the argument, that option is used. `path` is the file that
    the message is about: a message that begins with `path` does not begin with an argument.
    """
    if not options:
        return message
    message = re.sub(rf"(?<![\w./=-])\w+={_VALUE} \((--[^)]+)\)", r"\1", message)
    # most messages have few of them, and looking for all takes as long as opening a file
    options = {name: option for name, option in options.items() if name.partition("=")[0] in message}
    if not options:
        return message
    names = {name.partition("=")[0] for name in options}
    any_name = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    # no parts of paths
    before, after = r"(?<![\w./=-])", r"(?![\w./-])"

    def replaced(found: re.Match[str]) -> str:
        name, value, more = found[1], found[2], found[3]
        whole = options.get(f"{name}={value}")
        if whole is not None:
            return f"{whole}{more}"
        return _option(options[name], value) + re.sub(r"[\"']", "", more) if name in options else found[0]

    message = re.sub(rf"{before}({any_name})=({_VALUE})(?: or --\w+)?{_MORE}", replaced, message)
    options = {name: option for name, option in options.items() if "=" not in name}
    if not options:
        return message
    any_name = "|".join(sorted(map(re.escape, options), key=len, reverse=True))
    if path is None or not message.startswith(path):
        begins = rf"^({any_name})(?=: | (?:must|is|are|needs?|takes?|has to)\b)"
        message = re.sub(begins, lambda one: options[one[1]], message)
    return re.sub(rf"{before}({any_name}){after}", lambda one: options[one[1]] if "_" in one[1] else one[1], message)


def _option(option: str, value: str) -> str:
    # {"time": "ps"} is time=ps
    pairs = re.findall(r"""["']?(\w+)["']?: ["']?([^"',}]*)["']?""", value) if value.startswith("{") else []
    value = ",".join(f"{name}={one}" for name, one in pairs) or value.strip("\"'")
    return option if value in ("", "True") else f"{option} {'none' if value == 'None' else value}"
