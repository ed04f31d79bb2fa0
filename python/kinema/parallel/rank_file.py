"""`RankFile`: a file that all ranks write together by one strategy; what the strategies have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from kinema.base.errors import UnsupportedFormatError
from kinema.formats.strategies import Hints
from kinema.parallel.agreement import Agreement
from kinema.parallel.rank_frames import RankFrame

__all__ = ["FileRequest", "FileState", "RankFile"]


@dataclass(frozen=True)
class FileRequest:
    """What the user asks for, the same on all ranks but for `options` that rank 0 alone has (atoms, topology)."""

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
    """What all ranks know of the file.

    Attributes
    ----------
    n_frames, n_flushed : as of `kinema.Writer`
    temporary : the temporary file that holds frames which were flushed, or None
    is_broken : whether no frame is taken any more
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
    """A file of one strategy. All methods but `abort` are collective, and raise the same on all ranks.

    Attributes
    ----------
    state : FileState
        The same on all ranks.
    """

    state: FileState

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        self.request, self.agreement = request, agreement

    def take(self, frame: RankFrame) -> None:
        """Takes a frame. Nothing of it is taken where ArgumentError is raised."""
        raise NotImplementedError

    def flush(self) -> None:
        """Brings all frames into the file, and their number."""
        raise NotImplementedError

    def close(self) -> None:
        """Flushes, and gives a new file its name."""
        raise NotImplementedError

    def add_observable(self, name: str, value: Any, **options: Any) -> None:
        """As `kinema.Writer.add_observable`, of rank 0."""
        raise self._without_observables()

    def write_observable(self, name: str, value: Any, **options: Any) -> None:
        """As `kinema.Writer.write_observable`, of rank 0."""
        raise self._without_observables()

    def _without_observables(self) -> UnsupportedFormatError:
        path, format, strategy = self.request.path, self.request.format, self.request.strategy
        what = f"{path}: {format} files hold no observables with strategy {strategy!r}, H5MD files do with 'serial'"
        return UnsupportedFormatError(what, path=path, format=format)

    def abort(self) -> None:
        """Closes what this rank has open, without writing more; not collective."""
        raise NotImplementedError
