"""Numbers on the command line: each option states its range once, for typer and for comma-separated lists."""

import math
import re
from collections.abc import Sequence
from typing import Any

import typer

# the core's integer for numbers of frames, atoms and bytes
LARGEST = (1 << 63) - 1
# of workers, ranks and threads; a larger number is a typing error
MOST_WORKERS = 1 << 16


def whole(least: int, most: int) -> dict[str, Any]:
    """Arguments of `typer.Option` for a whole number of this range."""
    return {"parser": lambda text: whole_number(text, least, most), "metavar": "INTEGER"}


def whole_number(text: object, least: int, most: int) -> int:
    """The number. Raises typer.BadParameter for other text, and for a number out of range."""
    word = str(text)
    # longer words are out of every range, and Python refuses to parse very long ones
    if not re.fullmatch(r"[+-]?[0-9]{1,30}", word) or not least <= int(word) <= most:
        raise typer.BadParameter(f"expected a whole number from {least} to {most}, found {_short(word)}")
    return int(word)


def decimal(least: float, most: float, words: Sequence[str] = ()) -> dict[str, Any]:
    """Arguments of `typer.Option` for a number of this range, never NaN, or one of some words."""
    several = "".join(f" or {word}" for word in words)

    def parse(text: object) -> float | str:
        if text in words:
            return str(text)
        try:
            value = float(str(text))
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise typer.BadParameter(
                f"expected a number from {least:g} to {most:g}{several}, found {_short(str(text))}"
            )
        return value

    return {"parser": parse, "metavar": "|".join(["NUMBER", *words])}


def _short(word: str) -> str:
    return repr(word if len(word) <= 40 else f"{word[:40]}...")


COUNT = whole(1, LARGEST)
# negative: counted from the end
FRAME = whole(-LARGEST, LARGEST)
# ps
TIME = decimal(-1e18, 1e18)
