"""`FollowOptions`: how to wait for frames of files that are being written, and how to yield them."""

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


class FollowOptions(TypedDict, total=False):
    """Options of `Trajectory.follow`.

    Attributes
    ----------
    over : {"frames", "blocks"}
        Yield one `Frame` at a time, as iteration does, or a `Block` of all new frames, as `blocks` does.
    select, fields, dtype, memory, workers
        As in `Trajectory.blocks`; by default all fields of the file.
    on_rewind : {"error", "restart"}
        If a yielded frame is no longer in the file, or has changed, as after a restart from an earlier checkpoint:
        raise RewoundError, which names the first such frame; or emit a note and yield all frames again from 0.
    poll : float
        Seconds between two looks at the files, 0.1 by default. On local file systems inotify says when to look.
    end : path
        A file that exists once nothing more will be written; by default, for a single file NAME, either of NAME.end and
        NAME.ready.
    events : bool
        False: do not use inotify.
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
    """All options, with their defaults. Raises ArgumentError for unknown options and for invalid values."""
    for name in given.keys() - _DEFAULTS.keys():
        raise ArgumentError(f"follow has no option {name!r}, expected one of {', '.join(_DEFAULTS)}")
    options: Any = {**_DEFAULTS, **{name: value for name, value in given.items() if value is not None}}
    check_choice("over", options["over"], ("frames", "blocks"))
    check_choice("on_rewind", options["on_rewind"], ON_REWIND)
    if not 0.001 <= options["poll"] < float("inf"):
        raise ArgumentError(f"poll must be at least 0.001 s and finite, found {options['poll']:g}")
    chosen: FollowOptions = options
    return chosen
