"""Options as formats declare them: frozen dataclasses with a field for each option. Nothing else says which there are.

The string below a field documents it: what the option takes, an empty line, and what it means. `tools/write_options.py`
makes `kinema.formats.options` of these.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, TypeVar

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass

__all__ = [
    "AxisReading",
    "RanksWriting",
    "ReadingOptions",
    "RecordWriting",
    "WritingOptions",
    "chosen",
    "current_names",
    "documented",
    "names_of",
    "unknown_option",
]

T = TypeVar("T")


@dataclass(frozen=True)
class ReadingOptions:
    """What `kinema.open` takes for a format beside the arguments of all; a format that takes any inherits from it."""

    old_names: ClassVar[Mapping[str, str]] = {}
    """Options by the names that they had before."""

    def check(self) -> None:
        """Raises ArgumentError for a value that no option takes, before a file is opened."""


@dataclass(frozen=True)
class AxisReading(ReadingOptions):
    """What formats take whose files say once which quantities frames have."""

    axis: str | None = None
    """{"positions", "velocities", "forces"}

    The quantity whose steps are the frames, where they were written at different strides; by default the first of them
    that is there. One that the files do not have is refused. Not for TRR, each frame of which says
    what it has: choose frames with `frames=`."""


@dataclass(frozen=True, eq=False)
class WritingOptions:
    """What `kinema.Writer` takes for a format beside the arguments of all; a format that takes any inherits from it."""

    old_names: ClassVar[Mapping[str, str]] = {}
    """Options by the names that they had before."""


@dataclass(frozen=True, eq=False)
class RecordWriting(WritingOptions):
    """What formats of records take."""

    resume_from: int | None = None
    """int

    With mode="a": the file is cut behind the last frame whose step is not greater, as a restart needs it.
    ArgumentError if there is none."""

    fields: str | Sequence[str] | None = None
    """names out of "positions", "velocities", "forces"

    By default those of the first frame."""


@dataclass(frozen=True, eq=False)
class RanksWriting(WritingOptions):
    """What `kinema.Writer(comm=)` takes besides, for any format."""

    strategy: str = "auto"
    """str

    "auto", or one that `docs/parallel-writing.md` lists for the format."""

    hints: Mapping[str, object] | None = None
    """{name: value}

    With ROMIO's names: "cb_nodes" (ranks that write) and "cb_buffer_size" (bytes of a batch, 8 MiB by default) steer
    all strategies; all hints go to MPI with "mpiio" and "mpiio-collective"."""

    order: str = "sorted"
    """{"sorted", "given"}

    By number; or, in HISTORY and CONFIG files, as the atoms come: those of each rank behind those of the ranks before
    it, without an exchange of values."""

    verify: bool = False
    """bool

    Each rank reads what another has written, and compares checksums; a note says how. ArgumentError with "serial" of
    other formats than H5MD, where rank 0 alone knows what was written."""

    buffer_frames: int | None = None
    """int

    Keep up to so many frames and write them together; with "serial" and "direct" in a thread, while the program
    computes. Each takes the memory of this rank's share of a frame (of a whole frame on ranks that gather)."""


def names_of(declared: type) -> tuple[str, ...]:
    """The options that a dataclass declares."""
    return tuple(one.name for one in dataclass_fields(declared))


def chosen(declared: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that a dataclass declares, in its order."""
    return {name: options[name] for name in names_of(declared) if name in options}


def documented(table: str) -> Callable[[T], T]:
    """Decorator: `help()` of a function or class shows a table of options behind what it says itself."""

    def decorated(thing: T) -> T:
        # without, where Python is told to leave docstrings out
        if thing.__doc__ is not None:
            thing.__doc__ = f"{thing.__doc__.rstrip()}\n\n{table}"
        return thing

    return decorated


def current_names(
    call: str, options: Mapping[str, Any], old_names: Mapping[str, str], *, warned_at: int = 0
) -> dict[str, Any]:
    """Options by the names that they have now; ArgumentError for one with both names.

    `warned_at`: how many calls above this one the user's is, who gets a DeprecationWarning; 0: nobody does.
    """
    named = dict(options)
    for old, new in old_names.items():
        if old in named:
            if new in named:
                raise ArgumentError(f"{call}: {old}= is the old name of {new}=; give one of them")
            if warned_at:
                said = f"{call}: the argument {old}= is called {new}= now"
                warnings.warn(said, DeprecationWarning, stacklevel=1 + warned_at)
            named[new] = named.pop(old)
    return named


def unknown_option(call: str, name: str, known: Iterable[str]) -> ArgumentError:
    """The error for an option that nothing declares, with the nearest name."""
    close = difflib.get_close_matches(name, tuple(known), 1)
    return ArgumentError(f"{call}: no option {name}=" + (f", did you mean {close[0]}=?" if close else ""))
