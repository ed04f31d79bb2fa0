"""`Hdf5File`: the common part of strategies for H5MD: rank 0's ordinary writer makes the file and ends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import Error
from kinema.formats.frame_sink import StoredFrames
from kinema.formats.given_frames import EncodedRows, FrameArrays, check_rising
from kinema.formats.h5md.writer import H5mdWriter
from kinema.formats.hdf5.encoding import ChunkEncoder
from kinema.parallel.agreement import Agreement
from kinema.parallel.hdf5.verification import RowVerification
from kinema.parallel.rank_file import FileRequest, FileState
from kinema.parallel.rank_frames import RankFrame
from kinema.parallel.serial import SerialFile


@dataclass
class Stamps:
    """Steps, times and cells of frames that were taken but not yet given to rank 0's writer."""

    steps: list[int]
    times: list[float | None]
    cells: list[NDArray[np.float64] | None]

    @classmethod
    def none(cls) -> Stamps:
        """Empty stamps."""
        return cls([], [], [])

    def __len__(self) -> int:
        return len(self.steps)

    def taken(
        self, n_frames: int, kinds: Mapping[str, np.dtype[Any]], *chunks: Mapping[str, EncodedRows]
    ) -> StoredFrames:
        """Removes the first frames and returns them for `FrameSink.stored`; `kinds` as in `StoredFrames`."""
        steps, self.steps = self.steps[:n_frames], self.steps[n_frames:]
        times, self.times = self.times[:n_frames], self.times[n_frames:]
        cells, self.cells = self.cells[:n_frames], self.cells[n_frames:]
        return StoredFrames(
            n_frames,
            kinds,
            None if cells[0] is None else np.stack(cells),  # type: ignore[arg-type]
            np.array(steps, np.int64),
            None if times[0] is None else np.array(times, np.float64),
            chunks,
        )


def first_arrays(frame: RankFrame, step: int) -> FrameArrays:
    """A frame without atoms: its fields, types and stamps serve to make data sets and to check frames."""
    return FrameArrays(
        {name: np.empty((1, 0, 3), values.dtype) for name, values in frame.vectors.items()},
        None if frame.cell is None else frame.cell[None],
        np.array([step], np.int64),
        None if frame.time is None else np.array([frame.time]),
    )


class Hdf5File(SerialFile):
    """A file that rank 0's writer makes and ends; a strategy brings the values of fields into it.

    `encoders`: {"positions": ChunkEncoder, ...}, on all ranks.
    `kinds`: {"positions": dtype, ...}; types of the last frame's values.
    """

    # class by which ranks verify each other's data
    _verifies_by: Any = RowVerification

    def __init__(self, request: FileRequest, agreement: Agreement) -> None:
        self.stamps = Stamps.none()
        self.encoders: dict[str, ChunkEncoder] = {}
        super().__init__(replace(request, buffer_frames=None), agreement)
        self.kinds: dict[str, np.dtype[Any]] = {}
        self._asked_buffer = request.buffer_frames
        self._verification = self._verifies_by(agreement, request) if request.verify else None
        self.verified_by = "" if self._verification is None else self._verification.words

    # to be implemented by a strategy

    def begin(self, first: FrameArrays) -> dict[str, ChunkEncoder]:
        """On rank 0: makes the data sets for frames like `first`."""
        return self.sink.begin(first)

    def take_values(self, frame: RankFrame, row: int) -> None:
        """Takes the values of a frame, row `row` of the file; collective. After ArgumentError nothing is taken."""
        raise NotImplementedError

    def bring(self) -> None:
        """Brings all taken frames to rank 0's writer; collective."""
        raise NotImplementedError

    # the interface of a file

    def take(self, frame: RankFrame) -> None:
        made = self.call_on_root(lambda: self._checked(frame))
        if made is not None:
            self.encoders = made
        self.take_values(frame, self.state.n_frames)
        self.kinds = {name: values.dtype for name, values in frame.vectors.items()}
        if self.agreement.is_root:
            self.stamps.steps.append(self._next_step(frame))
            self.stamps.times.append(frame.time)
            self.stamps.cells.append(frame.cell)
        self.state = replace(self.state, n_frames=self.state.n_frames + 1, fields=tuple(self.encoders))
        self.took()

    def took(self) -> None:
        """Called after a frame was taken; collective."""

    def flush(self) -> None:
        self.bring()
        super().flush()

    def close(self) -> None:
        self.bring()
        super().close()

    def write_observable(self, name: str, value: Any, **options: Any) -> None:
        """As `RankFile.write_observable`; without a step it uses the step of the last taken frame."""
        if options.get("step") is None and len(self.stamps):
            options["step"] = self.stamps.steps[-1]
            if options.get("time") is None:
                options["time"] = self.stamps.times[-1]
        super().write_observable(name, value, **options)

    def found(self) -> Error | None:
        assert self._verification is not None
        error: Error | None = self._verification.found(*self.call_on_root(self.place_of_fields))
        return error

    # for strategies

    def count(self, n_frames: int) -> None:
        """Lets rank 0 count frames whose values are in the file; collective."""

        def counted() -> FileState:
            self.sink.stored(self.stamps.taken(n_frames, self.kinds))
            return self._state()

        self._update_on_root(counted)

    @property
    def sink(self) -> H5mdWriter:
        """Rank 0's writer."""
        assert isinstance(self._writer, H5mdWriter)
        return self._writer

    def place_of_fields(self) -> tuple[str, dict[str, str]]:
        """On rank 0: the path of the file, and the name of each field's data set."""
        return self.sink.place_of_fields

    # how

    def _checked(self, frame: RankFrame) -> dict[str, ChunkEncoder] | None:
        """On rank 0: raises as `Writer.write`; for the first frame it returns the encoders."""
        first = first_arrays(frame, self._next_step(frame))
        if len(self.stamps):
            assert first.steps is not None
            check_rising("step", first.steps, self.stamps.steps[-1], strictly=True)
            last = self.stamps.times[-1]
            if first.times is not None and last is not None:
                check_rising("time", first.times, last, strictly=False)
        made = None if self.encoders else self.begin(first)
        self.sink.check(first, ahead=len(self.stamps))
        return made

    def _next_step(self, frame: RankFrame) -> int:
        if frame.step is not None:
            return frame.step
        last = self.stamps.steps[-1] if len(self.stamps) else self.sink.last_step
        return 0 if last is None else int(last) + 1

    def _state(self) -> FileState:
        state = super()._state()
        return replace(state, n_frames=state.n_frames + len(self.stamps))
