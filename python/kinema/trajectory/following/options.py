"""`FollowOptions`: how frames of files that are being written are waited for and given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from kinema.base.choices import ON_REWIND, check_choice
from kinema.base.errors import ArgumentError
from kinema.cache.waiting import POLL

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from kinema.model.selection.atoms import AtomChoice

__all__ = ["FollowOptions", "checked_options"]


class FollowOptions(TypedDict, total=False):
    """Options of `Trajectory.follow`.

    Attributes
    ----------
    over : {"frames", "blocks"}
        What it gives: a `Frame` at a time as the iteration does, or a `Block` of all that is new, as `blocks`.
    select, fields, dtype, memory, workers
        As of `Trajectory.blocks`; by default all fields of the file.
    on_rewind : {"error", "restart"}
        Where a frame that was given is no longer in the file, or is another one, as after a restart from an earlier
        checkpoint: RewoundError, which names the first such frame; or a note, and all frames from 0 on again.
    poll : float
        Seconds between two looks at the files, 0.1 by default. On local file systems inotify says when to look.
    end : path
        A file whose being there says that nothing will be written any more; by default, of one file NAME, either of
        NAME.end and NAME.ready.
    events : bool
        False: inotify is not used.
    """

    over: Literal["frames", "blocks"]
    select: AtomChoice
    fields: str | Sequence[str]
    dtype: DTypeLike
    memory: int | str
    workers: int | None
    on_rewind: Literal["error", "restart"]
    poll: float
    end: str | os.PathLike[str] | None
    events: bool


_DEFAULTS: FollowOptions = {
    "over": "frames",
    "select": None,
    "fields": "positions",
    "dtype": "float32",
    "memory": "64 MiB",
    "workers": None,
    "on_rewind": "error",
    "poll": POLL,
    "end": None,
    "events": True,
}


def checked_options(given: Mapping[str, Any]) -> FollowOptions:
    """All options, with their defaults; ArgumentError for one that is none, and for values that cannot be meant."""
    for name in given.keys() - _DEFAULTS.keys():
        raise ArgumentError(f"follow has no option {name!r}, expected one of {', '.join(_DEFAULTS)}")
    options: Any = {**_DEFAULTS, **{name: value for name, value in given.items() if value is not None}}
    check_choice("over", options["over"], ("frames", "blocks"))
    check_choice("on_rewind", options["on_rewind"], ON_REWIND)
    if not 0.001 <= options["poll"] < float("inf"):
        raise ArgumentError(f"poll must be at least 0.001 s and finite, found {options['poll']:g}")
    chosen: FollowOptions = options
    return chosen
