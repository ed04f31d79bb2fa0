"""Messages of the package in the words of the command line: options in the place of Python's arguments."""

import functools
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["in_options", "option_names"]

# arguments that are options of another name
_ALIASES = {"overwrite": "--force", "compression": "--compress"}
# a value, as messages print them
_VALUE = r"""(?:\{[^}]*\}|"[^"]*"|'[^']*'|[\w.]+|)"""


@functools.cache
def _options_of(path: tuple[str, ...]) -> Mapping[str, str]:
    from kinema.cli.app import parser_of

    command: Any = parser_of(path)
    for word in path:
        command = command.commands[word]
    found = {one.name: max(one.opts, key=len) for one in command.params if one.param_type_name == "option"}
    aliases = {name: option for name, option in _ALIASES.items() if option in found.values()}
    return found | aliases


def option_names(words: list[str]) -> Mapping[str, str]:
    """The options of the command that the words call, by the name of their argument."""
    from kinema.cli.app import path_of

    path = path_of(words)
    return _options_of(path) if path else {}


def in_options(message: str, options: Mapping[str, str]) -> str:
    """The message with `name=value`, names with an underscore, and a name at its beginning as options.

    Where the message itself has the option behind the argument, in brackets, that is taken.
    """
    if not options:
        return message
    message = re.sub(rf"(?<![\w./=-])\w+={_VALUE} \((--[^)]+)\)", r"\1", message)
    # most messages have few of them, and to look for all takes as long as to open a file
    options = {name: option for name, option in options.items() if name in message}
    if not options:
        return message
    any_name = "|".join(sorted(map(re.escape, options), key=len, reverse=True))
    # no parts of paths
    before, after = r"(?<![\w./=-])", r"(?![\w./-])"
    message = re.sub(
        rf"""{before}({any_name})=("[^"]*"|'[^']*'|[\w.]+|)(?: or --\w+)?""",
        lambda found: _option(options[found[1]], found[2]),
        message,
    )
    message = re.sub(rf"^({any_name})(?= (?:must|is|are|needs?|takes?|has to)\b)", lambda one: options[one[1]], message)
    return re.sub(rf"{before}({any_name}){after}", lambda one: options[one[1]] if "_" in one[1] else one[1], message)


def _option(option: str, value: str) -> str:
    value = value.strip("\"'")
    return option if value in ("", "True") else f"{option} {'none' if value == 'None' else value}"
