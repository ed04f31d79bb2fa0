"""`RankFile`: a file that all ranks write together by one strategy; the common part of the strategies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from kinema.base.errors import UnsupportedFormatError
from kinema.formats.strategies import Hints
from kinema.parallel.agreement import Agreement
from kinema.parallel.rank_frames import RankFrame


@dataclass(frozen=True)
class FileRequest:
    """The user's request; the same on all ranks, except for `options` that only rank 0 has (atoms, topology)."""

    path: str
    n_atoms: int | None
    format: str
    strategy: str
    hints: Hints
    mode: Literal["w", "a"]
    overwrite: bool
    keep_partial: bool
    workers: int | None
    order: str
    verify: bool
    buffer_frames: int | None
    resume_from: int | None
    options: dict[str, Any]


@dataclass
class FileState:
    """State of the file that all ranks know.

    Attributes
    ----------
    n_frames, n_flushed : as in `kinema.Writer`
    temporary : the temporary file that holds flushed frames, or None
    is_broken : whether the file takes no more frames
    """

    n_atoms: int
    n_frames: int = 0
    n_flushed: int = 0
    fields: tuple[str, ...] | None = None
    notes: list[str] = field(default_factory=list)
    losses: tuple[str, ...] = ()
    temporary: str | None = None
    is_broken: bool = False


class RankFile:
    """A file of one strategy. All methods except `abort` are collective, and raise the same error on all ranks.

    `state`: the same on all ranks.
    """

    state: FileState

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        self.request, self.agreement = request, agreement

    def take(self, frame: RankFrame) -> None:
        """Takes a frame. If it raises ArgumentError, nothing of the frame is taken."""
        raise NotImplementedError

    def flush(self) -> None:
        """Brings all frames, and their number, into the file."""
        raise NotImplementedError

    def close(self) -> None:
        """Flushes, and gives a new file its name."""
        raise NotImplementedError

    def add_observable(self, name: str, value: Any, **options: Any) -> None:
        """As `kinema.Writer.add_observable`, on rank 0."""
        raise self._observables_error()

    def write_observable(self, name: str, value: Any, **options: Any) -> None:
        """As `kinema.Writer.write_observable`, on rank 0."""
        raise self._observables_error()

    def _observables_error(self) -> UnsupportedFormatError:
        path, format, strategy = self.request.path, self.request.format, self.request.strategy
        what = f"{path}: {format} files hold no observables with strategy {strategy!r}, H5MD files do with 'serial'"
        return UnsupportedFormatError(what, path=path, format=format)

    def abort(self) -> None:
        """Closes this rank's open files without writing more; not collective."""
        raise NotImplementedError
