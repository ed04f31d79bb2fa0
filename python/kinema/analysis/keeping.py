"""What is kept of a run besides its results in memory: a checkpoint, and results per frame in a file.

It runs nothing; `run` asks it before and after each round, and whenever something goes wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from typing import TYPE_CHECKING

from kinema import _core
from kinema.analysis.run_identity import items_of_round, items_of_run
from kinema.checkpoint import Checkpoint
from kinema.checkpoint.file import Item
from kinema.checkpoint.keeper import Keeper
from kinema.errors import ArgumentError
from kinema.frames import ResolvedFrames
from kinema.result_file import Quantity, ResultFile, check_result_path
from kinema.runners import Gathering, PieceLimit
from kinema.runners.base import Job

if TYPE_CHECKING:
    from kinema.analysis.base import Analysis

__all__ = ["Keeping"]

# what a worker process may hold back where rows go to a file, and where a checkpoint is saved
_HELD_BYTES = 4 << 20
_HELD_SECONDS = 1.0
_HELD_SHARE = 1 / 16  # of the time between two saves
_LEAST_SECONDS = 0.05


class Keeping:
    """The checkpoint and the file of a run, either of which may be missing.

    Parameters
    ----------
    analyses : list of Analysis
    frames : the frames of the run
    checkpoint : Checkpoint, optional
    out : path, optional
        Where results per frame go.

    Raises
    ------
    ArgumentError
        For an analysis without results per frame, a checkpoint of another run. Also what `Keeper` and
        `check_result_path` raise.
    """

    def __init__(
        self,
        analyses: Sequence[Analysis],
        frames: ResolvedFrames,
        checkpoint: Checkpoint | None,
        out: str | os.PathLike[str] | None,
    ) -> None:
        self._frames = frames
        self._checkpoint = checkpoint
        self._out = None if out is None else check_result_path(out)
        self._quantities = [] if out is None else _quantities(analyses, frames)
        self._items: list[Item] = []
        self._keeper: Keeper | None = None
        self._file: ResultFile | None = None
        if checkpoint is not None:
            self._items = items_of_run(analyses, frames, self._where_results_go(checkpoint))
            self._keeper = Keeper(checkpoint, self._items)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Around all rounds: heeds signals, and leaves nothing behind that cannot be gone on with."""
        with nullcontext() if self._keeper is None else self._keeper.watching():
            try:
                yield
            except BaseException:
                if self._file is not None and (self._keeper is None or not self._keeper.worth_keeping):
                    self._file.discard()
                raise
            finally:
                if self._file is not None:
                    self._file.close()

    def begin_round(
        self, number: int, analyses: Sequence[Analysis], jobs: Sequence[Job], plan: _core.Plan
    ) -> Gathering:
        """The tree of a round, with what an earlier run has gathered in it."""
        items = items_of_round(number, analyses, jobs, plan) if self._keeper is not None else []
        done = [] if self._keeper is None else self._keeper.begin_round(items)
        if self._out is not None:
            # without a checkpoint nobody goes on in the file: any name that no other run has
            told = repr([*map(tuple, self._items), *map(tuple, items)]).encode() if items else os.urandom(16)
            run = blake2b(told, digest_size=16).hexdigest()
            self._file = ResultFile(self._out, self._frames, self._quantities, plan.leaf_frames, run)
            if done:
                self._file.resume()
            else:
                self._file.create()
            if self._keeper is not None:
                self._keeper.before_save = self._file.sync
        try:
            return Gathering(
                plan,
                [kernel for kernel, _ in jobs],
                done=done,
                rows=None if self._file is None else self._file.write,
                look=None if self._keeper is None else self._keeper.look,
                limit=self._limit(),
            )
        except ValueError as error:
            # checksums hold, so this takes a defect or a file that was made by hand
            if self._keeper is None or not done:
                raise
            raise self._keeper.damaged(str(error)) from None

    def save_after(self, error: BaseException, gathering: Gathering) -> None:
        """Saves what an error has left of a round."""
        if self._keeper is not None:
            self._keeper.save_after(error, gathering.tree)

    def end_round(self, partials: Sequence[_core.Partial], last: bool) -> list[_core.Found]:
        """What the round has found, for each analysis: in memory, or in the finished file."""
        if self._keeper is not None:
            self._keeper.end_round(partials, last)
        if self._file is None:
            return [partial.finish() for partial in partials]
        self._file.finish()
        if self._keeper is not None:
            self._keeper.before_save = None
        return self._file.arrays()

    def finish(self) -> None:
        """The results are there: the checkpoint is not needed any more."""
        if self._keeper is not None:
            self._keeper.finish()

    def _limit(self) -> PieceLimit:
        seconds = _HELD_SECONDS
        if self._checkpoint is not None:
            seconds = max(_LEAST_SECONDS, self._checkpoint.interval * _HELD_SHARE)
        return PieceLimit(seconds, _HELD_BYTES if self._out is not None else 1 << 62)

    def _where_results_go(self, checkpoint: Checkpoint) -> str:
        if self._out is None:
            return "in memory"
        if os.path.abspath(self._out) == os.path.abspath(checkpoint.name):
            raise ArgumentError(f"{self._out}: out and checkpoint are two files; give two names", path=self._out)
        # so that both can be moved together
        folder = os.path.dirname(os.path.abspath(checkpoint.name))
        return f"in {os.path.relpath(self._out, folder)}"


def _quantities(analyses: Sequence[Analysis], frames: ResolvedFrames) -> list[Quantity]:
    found: list[Quantity] = []
    for analysis in analyses:
        quantity = analysis._per_frame(frames) if analysis.n_rounds == 1 else None
        if quantity is None:
            raise ArgumentError(
                f"{type(analysis).__name__} has no results per frame, which out= writes; run it without out= and write "
                "the results with .save()"
            )
        same = sum(one.name == quantity.name or one.name.startswith(f"{quantity.name}_") for one in found)
        found.append(quantity if not same else _renamed(quantity, f"{quantity.name}_{same + 1}"))
    return found


def _renamed(quantity: Quantity, name: str) -> Quantity:
    return Quantity(name, quantity.unit, quantity.columns, quantity.title, quantity.provenance)
