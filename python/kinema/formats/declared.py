"""Options as formats declare them: frozen dataclasses with a field for each option. Options are listed nowhere else.

The string below a field documents it: the values, an empty line, and the meaning. `tools/write_options.py` makes
`kinema.formats.options` from these.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, TypeVar

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class ReadingOptions:
    """Options of `kinema.open` for one format, besides the common ones; a format with options inherits from it."""

    old_names: ClassVar[Mapping[str, str]] = {}
    """Old names of options, with their new names."""

    def check(self) -> None:
        """Raises ArgumentError for an invalid value, before a file is opened."""


@dataclass(frozen=True)
class AxisReading(ReadingOptions):
    """Options of formats whose files declare once which quantities frames have."""

    axis: str | None = None
    """{"positions", "velocities", "forces"}

    The quantity whose steps define the frames, if quantities were written at different strides; by default the first of
    them that the file has. A quantity that the files lack is refused. Not for TRR, whose frames each declare their
    fields: choose frames with `frames=`."""


@dataclass(frozen=True, eq=False)
class WritingOptions:
    """Options of `kinema.Writer` for one format, besides the common ones; a format with options inherits from it."""

    old_names: ClassVar[Mapping[str, str]] = {}
    """Old names of options, with their new names."""


@dataclass(frozen=True, eq=False)
class RecordWriting(WritingOptions):
    """Options of formats whose frames are records."""

    resume_from: int | None = None
    """int

    With mode="a": the file is cut after the last frame whose step is not greater, as a restart needs it. ArgumentError
    if there is none."""

    fields: str | Sequence[str] | None = None
    """names out of "positions", "velocities", "forces"

    By default the fields of the first frame."""


@dataclass(frozen=True, eq=False)
class RanksWriting(WritingOptions):
    """Additional options of `kinema.Writer(comm=)`, for any format."""

    strategy: str = "auto"
    """str

    "auto", or one that `docs/parallel-writing.md` lists for the format."""

    hints: Mapping[str, object] | None = None
    """{name: value}

    With ROMIO's names: "cb_nodes" (ranks that write) and "cb_buffer_size" (bytes of a batch, 8 MiB by default) steer
    all strategies; all hints go to MPI with "mpiio" and "mpiio-collective"."""

    order: str = "sorted"
    """{"sorted", "given"}

    By number; or, in HISTORY and CONFIG files, as the atoms come: the atoms of each rank after the atoms of lower
    ranks, without an exchange of values."""

    verify: bool = False
    """bool

    Each rank reads what another has written, and compares checksums; a note says how. ArgumentError with "serial" of
    formats other than H5MD, because only rank 0 knows what was written."""

    buffer_frames: int | None = None
    """int

    Keep up to this number of frames and write them together; with "serial" and "direct" in a thread, while the program
    computes. Each takes the memory of this rank's share of a frame (of a whole frame on ranks that gather)."""


def names_of(declared: type) -> tuple[str, ...]:
    """Names of the options that a dataclass declares."""
    return tuple(one.name for one in dataclass_fields(declared))


def chosen(declared: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a dataclass declares, in its order."""
    return {name: options[name] for name in names_of(declared) if name in options}


def documented(table: str) -> Callable[[T], T]:
    """Decorator that adds a table of options to the docstring of a function or class, for `help()`."""

    def decorated(thing: T) -> T:
        # Python may have been told to leave docstrings out
        if thing.__doc__ is not None:
            thing.__doc__ = f"{thing.__doc__.rstrip()}\n\n{table}"
        return thing

    return decorated


def current_names(
    call: str, options: Mapping[str, Any], old_names: Mapping[str, str], *, warned_at: int = 0
) -> dict[str, Any]:
    """Options by their current names; raises ArgumentError for an option given under both names.

    `warned_at`: stack level of the user's call, counted from this one, to which a DeprecationWarning is attributed; 0:
    no warning.
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
    """The error for an undeclared option, with the nearest name."""
    close = difflib.get_close_matches(name, tuple(known), 1)
    return ArgumentError(f"{call}: no option {name}=" + (f", did you mean {close[0]}=?" if close else ""))
