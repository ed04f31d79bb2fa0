"""Notes: facts that a user must know although a call succeeded, such as a value guessed, dropped or rounded.

A note is a line of text. It is in `.notes` of the object that it is about, and `emit` gives it to the caller: as a
warning of the class `Note`, or to the `collected` block around the call. The command line prints each note once.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from kinema.base.printable import counted, printable

P = ParamSpec("P")
R = TypeVar("R")


class Note(UserWarning):
    """The category of the warnings by which Kinema gives its notes.

    `warnings.simplefilter("ignore", kinema.Note)` silences all notes; `.notes` of results still has them.
    """


# function that takes the notes of the running code; None: notes are warnings
_TAKER: ContextVar[Callable[[str], None] | None] = ContextVar("kinema_notes", default=None)


# notes that are warnings only once in a process, and whether each has been one
_ONCE: dict[str, bool] = {}
# code between the user's line and Kinema: the standard library, and packages that call Kinema for the user
_NOT_OF_USERS = {*sys.stdlib_module_names, __name__.partition(".")[0], "MDAnalysis", "dask", "distributed", "torch"}


def emit_once(texts: Iterable[str]) -> None:
    """As `emit`, for notes that are true of a file at every opening: the same text is a warning once in a process."""
    found = list(texts)
    for text in map(printable, found):
        _ONCE.setdefault(text, False)
    emit(found)


def emit(texts: Iterable[str]) -> None:
    """Gives notes to the innermost `collected` block, or warns with the line of the user."""
    for text in map(printable, texts):
        _give(_TAKER.get(), text)


def _give(take: Callable[[str], None] | None, text: str) -> None:
    if take is not None:
        take(text)
    elif not _ONCE.get(text, False):
        if text in _ONCE:
            _ONCE[text] = True
        warnings.warn(text, Note, stacklevel=_level_of_user())


@contextmanager
def collected(show: Callable[[str], None] | None = None) -> Iterator[list[str]]:
    """Context that puts notes into the list, each once, instead of warning; `show` is called with each new note.

    Notes of threads that the block starts are not collected.
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
    """Context that puts notes into the list, each once; they also reach the caller as they would without it."""
    outer = _TAKER.get()
    with collected(lambda text: _give(outer, text)) as found:
        yield found


def returns_notes(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a function whose result is a dataclass with a field `notes`, a tuple of str.

    The result gets the notes emitted during the call, followed by its own; then all are emitted, each once.
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


def merge_file_notes(notes: Iterable[str], names: Sequence[str]) -> tuple[str, ...]:
    """The notes of one call on the files that it made, "NAME: ...". If notes on several files differ only in numbers,
    only the note on the first file is kept."""
    found: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        name = next((one for one in names if note.startswith(f"{one}: ")), None)
        # the amount of rounding differs from file to file
        kind = note if name is None else re.sub(r"\d[\d.,]*(e[+-]?\d+)?", "#", note[len(name) :])
        found.setdefault(kind, []).append(note)
    return tuple(
        one[0] if len(one) == 1 else f"{one[0]} (likewise {counted(len(one) - 1, 'more file')})"
        for one in found.values()
    )


def _level_of_user() -> int:
    """The `stacklevel` for `_give` of the user's innermost function, or of the outermost function of all."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_OF_USERS:
        frame, level = frame.f_back, level + 1
    return level
