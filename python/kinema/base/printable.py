"""Printing of text and numbers.

Printed text from files and names has no control characters, which a terminal would obey. Printed numbers have only
their significant digits: most times are float32, or multiples of one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# relative rounding of float32: time steps are stored as float32, and times are their multiples
_RELATIVE_ERROR = 2.0**-23
_ABSOLUTE_ERROR = 0.01
_ALL_DIGITS = 15
# powers of ten between which numbers are written without an exponent
_PLAIN = (1e-5, 1e15)
_EXPONENTS = 6
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def printable(text: object) -> str:
    """The text in one line; characters that Unicode calls not printable are escaped: `\\x1b`, `\\n`, `\\udcff`."""
    found = str(text)
    if found.isprintable():
        return found
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in found)


def printable_lines(text: object) -> str:
    """As `printable`, for text of several lines, whose line breaks stay."""
    return "\n".join(map(printable, str(text).split("\n")))


def plot_text(text: object) -> str:
    """As `printable`, for pictures of matplotlib: a `$` in the text is drawn, and does not start mathematics."""
    return printable(text).replace("$", r"\$")


def plot_label(label: str) -> str:
    """A label of an axis as pictures show it: Å for angstrom, raised exponents; otherwise as `plot_text`."""
    raised = re.sub(r"\^(-?\d)", lambda found: found[1].translate(_RAISED), label.replace("angstrom", "Å"))
    return plot_text(raised)


def are_float32(values: NDArray[Any]) -> bool:
    """Whether all values are exactly float32, like times of formats that store them so."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
    return bool(np.array_equal(single.astype(np.float64), values, equal_nan=True))


def counted(number: int, name: str) -> str:
    """A number with a noun, as in "1 worker", "2 workers", "47,681 atoms"."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def html_table(title: str, rows: Iterable[Sequence[object]]) -> str:
    """An HTML table for notebooks, with a title."""
    from html import escape

    cells = ("".join(f"<td>{escape(printable(str(cell)))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><caption>{escape(printable(title))}</caption><tbody>{body}</tbody></table>"


def align_columns(rows: Sequence[Sequence[str]], *, left: int = 1, indent: str = "  ") -> list[str]:
    """Lines with aligned columns: the first `left` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        indent
        + "  ".join(
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def three_digits(value: float) -> str:
    """A number of a table with three significant digits, as in "1030", "12.3", "0.00123"; "-" if it is not finite."""
    if not math.isfinite(value):
        return "-"
    rounded, exponent = f"{value:.2e}".split("e")
    if value == 0 or not -_EXPONENTS < int(exponent) < _EXPONENTS:
        return "0" if value == 0 else f"{value:.2e}"
    return f"{float(rounded) * 10.0 ** int(exponent):.{max(0, 2 - int(exponent))}f}"


def shortest(value: float, digits: int | None = None) -> str:
    """A number for messages: "0.1", "1234567.5", "98" for 97.9999914.

    The text has the fewest digits that agree with the value within the rounding of float32 (and within 0.01); with
    `digits`, at most that many: a difference of two numbers has fewer significant digits.
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    tolerance = min(_RELATIVE_ERROR * abs(value), _ABSOLUTE_ERROR)
    rounded = (float(f"{value:.{count}g}") for count in range(1, (digits or _ALL_DIGITS) + 1))
    number = value
    for number in rounded:
        if abs(number - value) <= tolerance:
            break
    if _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return str(np.format_float_positional(number, trim="-"))
    return str(np.format_float_scientific(number, trim="-"))
