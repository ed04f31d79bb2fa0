"""Options that take several values, separated by commas."""

import typer

from kinema.base.errors import ArgumentError
from kinema.cli import numbers


def list_of_words(text: str) -> tuple[str, ...]:
    """Comma-separated words, each once."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def list_of_numbers(option: str, text: str) -> tuple[int, ...]:
    """Numbers of workers or ranks, each once. Raises ArgumentError that names the option."""
    words = list_of_words(text)
    try:
        found = [numbers.whole_number(word, 1, numbers.MOST_WORKERS) for word in words]
    except typer.BadParameter:
        found = []
    if not found:
        raise ArgumentError(
            f"{option} takes whole numbers from 1 to {numbers.MOST_WORKERS}, with commas between, found {text!r}"
        )
    return tuple(dict.fromkeys(found))


def named_words(option: str, text: str, takes: str = "NAME=VALUE") -> dict[str, str]:
    """{"cb_nodes": "4"} from "cb_nodes=4". Raises ArgumentError that says what the option takes."""
    found: dict[str, str] = {}
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not (name and equals and value) or name in found:
            raise ArgumentError(f"{option} takes {takes}, each once, with commas between, found {text!r}")
        found[name] = value
    return found
