"""`Subfiles`: the strategy "subfiles": each rank writes the atoms that it has into an H5MD file of its own.

`NAME.d/partNNNN-TAG.h5md` lie in a folder beside `NAME`, which is one virtual H5MD file on top of them, and has steps,
times, cells and atoms. Nothing is exchanged, so each rank must have the same atoms in all frames.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.errors import ArgumentError
from kinema.formats.h5md.write.encoding import ChunkEncoder
from kinema.formats.h5md.write.virtual_fields import MOST_RUNS, SubfileNames, VirtualPart, make_fields_virtual, runs_of
from kinema.writing.base import Writer
from kinema.writing.frames import FrameArrays
from kinema.writing.parallel.agreement import Agreement
from kinema.writing.parallel.exchange import Exchange, even_owners
from kinema.writing.parallel.frames import RankFrame
from kinema.writing.parallel.hdf5.on_root import Hdf5File
from kinema.writing.parallel.rank_file import FileRequest, FileState

__all__ = ["Subfiles"]

# of all atoms, or of the file on top
_NOT_OF_PARTS = ("atoms", "topology", "masses", "charges", "species", "ids", "bonds", "provenance", "resume_from")


class Subfiles(Hdf5File):
    """See the module."""

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        if request.mode == "a":
            raise ArgumentError("mode='a' is not for 'subfiles', whose files are made by the same ranks; use 'gather'")
        super().__init__(request, agreement)
        self._names = agreement.on_root(lambda: SubfileNames(request.path))
        # of this rank: what it has, sorted, and its file
        self._ids: NDArray[np.int64] | None = None
        self._part: Writer | None = None
        # of rank 0
        self._runs: list[list[tuple[int, int]]] = []
        self._kinds: dict[str, np.dtype[Any]] = {}

    def take_values(self, frame: RankFrame, row: int) -> None:
        """As `Hdf5File.take_values`."""
        if self._ids is None:
            self._ids = self._begin_part(frame)
        ids, error = np.asarray(frame.ids, np.int64), None
        order = np.argsort(ids, kind="stable")
        if not np.array_equal(ids[order], self._ids):
            error = ArgumentError(
                f"ids: rank {self.agreement.rank} gives other atoms than in the first frame, and with 'subfiles' the "
                "atoms of a rank are the same in all frames; use 'gather' where they move between ranks"
            )
        self.agreement.check(error)
        self._kinds = {name: values.dtype for name, values in frame.vectors.items()}
        failed: BaseException | None = None
        if self._part is not None:
            try:
                with self.agreement.timings.of("write"):
                    self._part.write(
                        **{name: values[order] for name, values in frame.vectors.items()},
                        cell=frame.cell, step=frame.step, time=frame.time,
                    )  # fmt: skip
            except BaseException as raised:
                failed = raised
        self.check(failed)

    def took(self) -> None:
        """As `Hdf5File.took`: rank 0 counts the frame."""

        def count() -> FileState:
            self.writer.write_announced(1, self._kinds, **self.stamps.taken(1))
            return self._state()

        flushed = self.state.n_flushed
        self._on_root(count)
        self.state = replace(self.state, n_flushed=flushed)

    def begin(self, first: FrameArrays) -> dict[str, ChunkEncoder]:
        """As `Hdf5File.begin`."""
        made = super().begin(first)
        self.writer.leave_fields()
        return made

    def bring(self) -> None:
        """As `Hdf5File.bring`: they are there."""

    def flush(self) -> None:
        """As `RankFile.flush`: frames are in the files of the ranks, which have temporary names."""
        part = self._part
        with self.agreement.timings.of("sync"):
            self.agreement.together(lambda: None if part is None else part.flush())
        self.state = replace(self.state, n_flushed=self.state.n_frames)

    def close(self) -> None:
        """As `RankFile.close`: the files of the ranks get their names, and then the one on top of them."""
        part = self._part

        def close_part() -> None:
            if part is not None:
                part.close()

        def close() -> FileState:
            with self.agreement.timings.of("sync"):
                self.writer.close(self._make_virtual)
            self._names.remove_others()
            return self._state()

        try:
            self.agreement.together(close_part)
            self._on_root(close)
        except BaseException:
            self.break_off()
            self._names.remove([self.agreement.rank])
            raise

    def abort(self) -> None:
        """As `RankFile.abort`."""
        if self._part is not None:
            self._part.abort()
        super().abort()

    # how

    def _begin_part(self, frame: RankFrame) -> NDArray[np.int64]:
        """Looks whether each atom is given once, and makes the file of this rank; its atoms, sorted. Collective."""
        n_atoms, size = self.state.n_atoms, self.agreement.size
        Exchange(self.agreement, n_atoms).route(frame.ids, even_owners(n_atoms, size, size))
        ids = np.sort(np.asarray(frame.ids, np.int64))
        mine = runs_of(ids)
        n_runs = int(self.agreement.gathered(np.array([len(mine)], np.int64)).sum())
        if n_runs > MOST_RUNS:
            raise ArgumentError(
                f"ids: the atoms of the ranks are {n_runs} runs of neighbours, and a virtual H5MD has at most "
                f"{MOST_RUNS}; give each rank atoms that lie together, or use strategy='gather'"
            )
        runs = self.agreement.comm.gather(mine)

        self.on_root(self._names.make_folder)
        self._part = self.agreement.together(lambda: self._new_part(ids, tuple(frame.vectors)))
        self._runs = runs or []
        return ids

    def _new_part(self, ids: NDArray[np.int64], fields: tuple[str, ...]) -> Writer | None:
        if not len(ids):
            return None
        given = {name: value for name, value in self.request.options.items() if name not in _NOT_OF_PARTS}
        layout = given.get("layout")
        if isinstance(layout, (tuple, list)) and len(layout) == 3:
            given["layout"] = (layout[0], min(layout[1], len(ids)), layout[2])
        given |= {"fields": fields, "ids": ids, "format": "H5MD"}
        return Writer(
            self._names.of(self.agreement.rank), len(ids), keep_partial=self.request.keep_partial,
            workers=self.request.workers or 1, **given,
        )  # fmt: skip

    def _make_virtual(self, path: str) -> None:
        """On rank 0: in the file that is whole but for the fields."""
        numbered = enumerate(self._runs)
        parts = [
            VirtualPart(self._names.relative(rank), 0, self.state.n_frames, runs) for rank, runs in numbered if runs
        ]
        kinds = {name: encoder.preparation.dtype for name, encoder in self.encoders.items()}
        make_fields_virtual(path, self.writer.group_name, parts, kinds)
