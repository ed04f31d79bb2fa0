"""`Subfiles`: the strategy "subfiles": each rank writes its atoms into an H5MD file of its own.

`NAME.d/partNNNN-TAG.h5md` lie in a folder beside `NAME`. `NAME` is a virtual H5MD file on top of them, with steps,
times, cells and atoms. Values are not exchanged, so each rank must have the same atoms in all frames.

All these files grow. The parts are flushed before the file on top, whose steps tell readers the number of frames, so
the files of a killed run can be read at once, and continued.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError, Error, FileNotFound, UnsupportedFormatError
from kinema.formats.given_frames import FrameArrays
from kinema.formats.h5md.write.virtual_fields import SubfileNames, check_runs, runs_of
from kinema.formats.h5md.writer import H5mdWriter
from kinema.formats.hdf5.encoding import ChunkEncoder
from kinema.formats.writer import Writer
from kinema.parallel.agreement import Agreement
from kinema.parallel.exchange import Exchange, even_owners
from kinema.parallel.hdf5.hdf5_file import Hdf5File
from kinema.parallel.hdf5.virtual_writer import VirtualFieldsWriter
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.rank_frames import RankFrame

# options for all atoms, or for the file on top
_NOT_OF_PARTS = ("atoms", "topology", "masses", "charges", "species", "ids", "bonds", "provenance", "resume_from")


class Subfiles(Hdf5File):
    """See the module."""

    writer_class = VirtualFieldsWriter
    _is_named = False

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        super().__init__(request, agreement)
        # for a file that is continued: runs of atoms of its parts, by their number
        self._names, self._known = self.call_on_root(self._known_parts)
        # this rank's atoms, sorted, and its file
        self._ids: NDArray[np.int64] | None = None
        self._part: Writer | None = None
        self._place: tuple[str, dict[str, str]] = ("", {})
        self._number = agreement.rank

    @property
    def writer(self) -> VirtualFieldsWriter:
        """Rank 0's writer."""
        assert isinstance(self._writer, VirtualFieldsWriter)
        return self._writer

    def take(self, frame: RankFrame) -> None:
        if self._ids is None:
            self._announce_parts(frame)
        super().take(frame)

    def take_values(self, frame: RankFrame, row: int) -> None:
        if self._ids is None:
            self._begin_part(frame, row)
        ids, error = np.asarray(frame.ids, np.int64), None
        order = np.argsort(ids, kind="stable")
        if self._ids is None or not np.array_equal(ids[order], self._ids):
            error = ArgumentError(
                f"ids: rank {self.agreement.rank} gives other atoms than in the first frame, and with 'subfiles' the "
                "atoms of a rank are the same in all frames; use 'gather' where they move between ranks"
            )
        self.agreement.check(error)
        failed: BaseException | None = None
        if self._part is not None:
            try:
                self._write_part(self._part, frame, order, row)
            except BaseException as raised:
                failed = raised
        self.check(failed)

    def took(self) -> None:
        """As `Hdf5File.took`: rank 0 counts the frame."""
        self.count(1)

    def begin(self, first: FrameArrays) -> dict[str, ChunkEncoder]:
        made = super().begin(first)
        if set(made) != set(first.fields):
            raise ArgumentError(f"the frame has {', '.join(first.fields)}, expected {', '.join(made)}")
        return made

    def bring(self) -> None:
        """As `Hdf5File.bring`: frames are in the files of the ranks before rank 0 counts them."""
        part = self._part
        with self.agreement.timings.measure("sync"):
            self._together(lambda: None if part is None else part.flush())
        if part is not None:
            assert isinstance(part, H5mdWriter)
            # the part has its name from the first flush on
            self._place = part.place_of_fields

    def found(self) -> Error | None:
        """As `SerialFile.found`, for the file of another rank."""
        assert self._verification is not None
        error: Error | None = self._verification.found(*self._place)
        return error

    def flush(self) -> None:
        if not self._is_without_frames():
            super().flush()

    def close(self) -> None:
        """As `RankFile.close`; a new file without frames is not made."""
        if self._is_without_frames():
            self.agreement.call_on_root(lambda: self.writer.abort())
            return
        self.bring()
        part, self._part = self._part, None

        def close_part() -> None:
            if part is not None:
                part.close()

        try:
            self._together(close_part)
        except BaseException:
            self._part = part
            raise
        super().close()
        self._is_named = True
        if self.request.mode == "w":
            self.call_on_root(self._names.remove_others)

    def abort(self) -> None:
        """As `RankFile.abort`. The file of this rank stays if the one on top does."""
        if self._part is not None:
            self._part.abort()
        super().abort()
        stays = self.request.mode == "a" or (self.request.keep_partial and self.state.n_flushed)
        if not stays and not self._is_named:
            self._names.remove([self._number])

    # how

    def _is_without_frames(self) -> bool:
        return self.call_on_root(lambda: self.writer.is_new)

    def _together(self, call: Any) -> None:
        try:
            self.agreement.together(call)
        except BaseException:
            self.break_off()
            raise

    def _known_parts(self) -> tuple[SubfileNames, dict[int, list[tuple[int, int]]]]:
        """On rank 0: the names of the parts, and for a file that is continued, the atoms of each part."""
        path = self.request.path
        if self.writer.is_new:
            return SubfileNames(path), {}
        parts = self.writer.known_parts()
        names = SubfileNames.existing(path, parts)
        if names is None:
            raise UnsupportedFormatError(
                f"cannot append: its files are not those that 'subfiles' writes, found {', '.join(parts)}",
                at=path,
                format="H5MD",
            )
        return names, {names.number_of(name): runs for name, runs in parts.items()}

    def _announce_parts(self, frame: RankFrame) -> None:
        """Checks that each atom is given once, and by the ranks of the existing parts. Collective."""
        agreement, n_atoms = self.agreement, self.state.n_atoms
        Exchange(agreement, n_atoms).route(frame.ids, even_owners(n_atoms, agreement.size, agreement.size))
        mine = runs_of(np.sort(np.asarray(frame.ids, np.int64)))
        check_runs(int(agreement.gathered(np.array([len(mine)], np.int64)).sum()), self.request.path)
        error = None
        if self._known and mine:
            number = next((number for number, runs in self._known.items() if sorted(runs) == mine), None)
            if number is None:
                error = ArgumentError(
                    f"ids: rank {agreement.rank} gives atoms that match no file of {self._names.folder}, and with "
                    "'subfiles' the ranks that continue a file have the same atoms as the ranks that made it"
                )
            self._number = self._number if number is None else number
        agreement.check(error)
        runs = agreement.comm.gather(mine)
        if runs is not None:
            self.writer.parts = {self._names.relative(rank): one for rank, one in enumerate(runs) if one}

    def _begin_part(self, frame: RankFrame, n_rows: int) -> None:
        """Makes this rank's file, or continues it after the frames that the file on top has. Collective."""
        ids = np.sort(np.asarray(frame.ids, np.int64))
        self.call_on_root(self._names.make_folder)
        last_step = self.call_on_root(lambda: self.sink.last_step)

        def begin() -> None:
            if len(ids):
                self._part = self._opened_part(ids, tuple(frame.vectors), n_rows, last_step)

        self._together(begin)
        self._ids = ids

    def _opened_part(
        self, ids: NDArray[np.int64], fields: tuple[str, ...], n_rows: int, last_step: int | None
    ) -> Writer:
        path = self._names.subfile_path(self._number)
        given = {name: value for name, value in self.request.options.items() if name not in _NOT_OF_PARTS}
        layout = given.get("layout")
        if isinstance(layout, (tuple, list)) and len(layout) == 3:
            given["layout"] = (layout[0], min(layout[1], len(ids)), layout[2])
        given |= {"fields": fields, "format": "H5MD"}
        if n_rows:
            if not os.path.exists(path):
                raise FileNotFound("the file of a rank is missing", at=path)
            # after a kill, there may be frames that the file on top does not have
            given["resume_from"] = last_step
        else:
            given["ids"] = ids
            with suppress(FileNotFoundError):
                os.unlink(path)
        part = Writer(path, len(ids), mode="a", workers=self.request.workers or 1, **given)
        if part.n_frames != n_rows:
            part.abort()
            what = f"{path}: H5MD frame {part.n_frames}: the file of a rank has other frames than the one on top"
            raise CorruptFileError(
                f"{what}, expected {n_rows}, found {part.n_frames}", path=path, format="H5MD", frame=part.n_frames
            )
        return part

    def _write_part(self, part: Writer, frame: RankFrame, order: NDArray[np.int64], row: int) -> None:
        vectors = {name: values[order] for name, values in frame.vectors.items()}
        with self.agreement.timings.measure("write"):
            part.write(**vectors, cell=frame.cell, step=frame.step, time=frame.time)
        if self._verification is not None:
            for name, values in vectors.items():
                self._verification.add(name, row, [self.encoders[name].prepared(values)])
