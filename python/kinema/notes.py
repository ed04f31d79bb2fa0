"""Notes: what a user must know although a call succeeded, such as something guessed, dropped, rounded or slow.

A note is a line of text. It is in `.notes` of the object that it is about, and `emit` gives it to the caller: as a
warning of the class `Note`, or to the `collected` block around the call. The command line prints each note once.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from kinema.printable import printable

__all__ = ["Note", "collected", "emit", "recorded", "returns_notes"]

P = ParamSpec("P")
R = TypeVar("R")


class Note(UserWarning):
    """The category of the warnings by which Kinema gives its notes.

    `warnings.simplefilter("ignore", kinema.Note)` silences them all; `.notes` of results has them nevertheless.
    """


# what takes the notes of the code that is running; None: they are warnings
_TAKER: ContextVar[Callable[[str], None] | None] = ContextVar("kinema_notes", default=None)


def emit(texts: Iterable[str]) -> None:
    """Gives notes to the innermost `collected` block, or warns with the place of the caller outside of the package."""
    for text in map(printable, texts):
        _give(_TAKER.get(), text)


def _give(take: Callable[[str], None] | None, text: str) -> None:
    if take is not None:
        take(text)
    else:
        warnings.warn(text, Note, stacklevel=_level_of_caller())


@contextmanager
def collected(show: Callable[[str], None] | None = None) -> Iterator[list[str]]:
    """Within the block notes are put into the list, each once, and are no warnings; `show` is called with each new one.

    Threads that the block starts are not part of it.
    """
    found: list[str] = []

    def take(text: str) -> None:
        if text not in found:
            found.append(text)
            if show is not None:
                show(text)

    token = _TAKER.set(take)
    try:
        yield found
    finally:
        _TAKER.reset(token)


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Within the block notes are put into the list, each once, and reach the caller as they would without it."""
    outer = _TAKER.get()
    with collected(lambda text: _give(outer, text)) as found:
        yield found


def returns_notes(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a function whose result is a dataclass with a field `notes`, a tuple of str.

    The result gets the notes that were emitted during the call before its own; then all are emitted, each once.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with collected() as found:
            result: Any = function(*args, **kwargs)
        notes = tuple(dict.fromkeys((*found, *result.notes)))
        emit(notes)
        noted: R = dataclasses.replace(result, notes=notes)
        return noted

    return called


def _level_of_caller() -> int:
    """The `stacklevel` for `emit` at which the first function outside of the package stands."""
    package = __name__.partition(".")[0]
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level
