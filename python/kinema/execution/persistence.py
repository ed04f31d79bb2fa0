"""`Persistence`: the files that a run writes during its passes: a checkpoint, and results per frame.

`run` calls it before and after each pass, and after an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from hashlib import blake2b

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.execution.checkpoint import Checkpoint
from kinema.execution.checkpoint.file import IdentityItem
from kinema.execution.checkpoint.manager import CheckpointManager
from kinema.execution.checkpoint.run_identity import items_of_pass, items_of_run
from kinema.execution.computation import Computation
from kinema.execution.results_file import ResultDataset, ResultFile, check_result_path
from kinema.model.selection.frames import FrameSelection
from kinema.runners import PieceLimit, Reduction
from kinema.runners.base import Job
from kinema.storage.output_checks import check_not_input
from kinema.storage.output_file import is_temporary_of

# most bytes that a worker process holds before it sends them, if rows go to a file or a checkpoint is saved
_HELD_BYTES = 4 << 20
_HELD_SECONDS = 1.0
_HELD_SHARE = 1 / 16  # share of the time between two saves
_LEAST_SECONDS = 0.05


def check_outputs(
    analyses: Sequence[Computation],
    checkpoint: Checkpoint | None,
    out: str | os.PathLike[str] | None,
    *,
    overwrite: bool,
) -> None:
    """Raises ArgumentError if a file of the run is one of its inputs; raises as `check_result_path` for `out`."""
    inputs = [path for one in analyses for path in (*one.trajectory.paths, *one.other_files)]
    if checkpoint is not None:
        check_not_input(checkpoint.name, *inputs)
    if out is not None:
        check_result_path(out, inputs, overwrite=overwrite)


class Persistence:
    """The checkpoint and the file of results of a run; either may be missing.

    `out`: file for results per frame.

    Raises ArgumentError for an analysis without results per frame, or a checkpoint of another run. Also raises as
    `CheckpointManager`.
    """

    def __init__(
        self,
        analyses: Sequence[Computation],
        frames: FrameSelection,
        checkpoint: Checkpoint | None,
        out: str | os.PathLike[str] | None,
    ) -> None:
        self._frames = frames
        self._checkpoint = checkpoint
        self._out = None if out is None else os.fspath(out)
        self._datasets = [] if out is None else _datasets(analyses, frames)
        self._items: list[IdentityItem] = []
        self._manager: CheckpointManager | None = None
        self._file: ResultFile | None = None
        if checkpoint is not None:
            self._items = items_of_run(analyses, frames, self._where_results_go(checkpoint))
            self._manager = CheckpointManager(checkpoint, self._items)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Context of all passes: saves on signals, and removes files that a later run could not continue."""
        with nullcontext() if self._manager is None else self._manager.saving():
            try:
                yield
            except BaseException:
                if self._file is not None and (self._manager is None or not self._manager.worth_resuming):
                    self._file.discard()
                raise
            finally:
                if self._file is not None:
                    self._file.close()

    def begin_pass(
        self, number: int, analyses: Sequence[Computation], jobs: Sequence[Job], plan: _core.Plan
    ) -> Reduction:
        """The tree of a pass, with the nodes of an earlier run."""
        items = items_of_pass(number, analyses, jobs, plan) if self._manager is not None else []
        done = [] if self._manager is None else self._manager.begin_pass(items, save=self._out is None)
        if self._out is not None:
            # without a checkpoint no run continues the file: any name that no other run has will do
            identity = repr([*map(tuple, self._items), *map(tuple, items)]).encode() if items else os.urandom(16)
            run = blake2b(identity, digest_size=16).hexdigest()
            self._file = ResultFile(self._out, self._frames, self._datasets, plan.leaf_frames, run)
            self._open_file(self._file, resume=bool(done))
        try:
            reduction = Reduction(
                plan,
                [kernel for kernel, _ in jobs],
                done=done,
                rows=None if self._file is None else self._file.write,
                poll=None if self._manager is None else self._manager.poll,
                limit=self._limit(),
            )
        except ValueError as error:
            # checksums hold, so only a defect or a hand-made file can cause this
            if self._manager is None or not done:
                raise
            raise self._manager.damaged(str(error)) from None
        if self._manager is not None:
            self._manager.is_running = True
        return reduction

    def _open_file(self, file: ResultFile, *, resume: bool) -> None:
        """Creates the file of results; with a checkpoint that names an earlier run's file, continues that file."""
        if self._manager is None:
            file.create()
            return
        earlier = self._manager.rows_file
        # another user's checkpoint may name any file: only a file of this output is removed or changed
        if earlier is not None and os.path.lexists(earlier) and not is_temporary_of(earlier, file.path):
            raise CorruptFileError(
                "the checkpoint names another file as that of its results, expected a temporary "
                f"file of {file.path}, found {earlier}; remove the checkpoint to start again",
                at=self._manager.path,
            )
        self._manager.counted = file.counted
        if resume:
            file.resume(earlier or file.path)
            for part in file.parts:
                # a complete file has the name of the output
                self._manager.check_counted(part, earlier if part == file.path else None)
        else:
            if earlier is not None:
                file.remove_unused(earlier)
            file.create()
            # the file is named before it is protected, so a kill in between leaves nothing that later runs keep
            self._manager.rows_file = file.protected_name
            self._manager.save_start()
            file.protect()
        self._manager.before_save = file.sync

    def save_after(self, error: BaseException, reduction: Reduction) -> None:
        """Saves the nodes of a pass that ended with an error."""
        if self._manager is not None:
            self._manager.save_after(error, reduction.tree)

    def end_pass(self, partials: Sequence[_core.Partial], last: bool) -> list[_core.KernelResults]:
        """The results of the pass, for each analysis: in memory, or in the finished file."""
        if self._manager is not None:
            self._manager.end_pass(partials, last)
        if self._file is None:
            return [partial.finish() for partial in partials]
        self._file.finish()
        if self._manager is not None:
            self._manager.before_save = None
        return self._file.arrays()

    def finish(self) -> None:
        """After the last pass: removes the checkpoint, or keeps it complete."""
        if self._manager is not None:
            self._manager.finish()

    def _limit(self) -> PieceLimit:
        seconds = _HELD_SECONDS
        if self._checkpoint is not None:
            seconds = max(_LEAST_SECONDS, self._checkpoint.interval * _HELD_SHARE)
        return PieceLimit(seconds, _HELD_BYTES if self._out is not None else 1 << 62)

    def _where_results_go(self, checkpoint: Checkpoint) -> str:
        if self._out is None:
            return "in memory"
        if os.path.abspath(self._out) == os.path.abspath(checkpoint.name):
            raise ArgumentError("out and checkpoint are two files; give two names", at=self._out)
        # relative, so that both files can be moved together
        folder = os.path.dirname(os.path.abspath(checkpoint.name))
        return f"in {os.path.relpath(self._out, folder)}"


def _datasets(analyses: Sequence[Computation], frames: FrameSelection) -> list[ResultDataset]:
    datasets: list[ResultDataset] = []
    for analysis in analyses:
        of_analysis = analysis._row_datasets(frames)
        if not of_analysis or analysis.n_passes != 1:
            why = "reads its frames several times here" if of_analysis else "has no results per frame"
            raise ArgumentError(
                f"{type(analysis).__name__} {why}, and out= writes rows as they come; run it without out= and write "
                "the results with .save()"
            )
        for dataset in of_analysis:
            same = sum(one.name == dataset.name or one.name.startswith(f"{dataset.name}_") for one in datasets)
            datasets.append(dataset if not same else _renamed(dataset, f"{dataset.name}_{same + 1}"))
    return datasets


def _renamed(dataset: ResultDataset, name: str) -> ResultDataset:
    return replace(dataset, name=name)
