"""`Order`: the sample at each position of an epoch, computed for any position without the earlier ones."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinema.base.errors import ArgumentError, OutOfRangeError
from kinema.ml.loading.permutation import VERSION, derived_key, permuted

# uses of a key
_EXACT, _CHUNKS, _WINDOWS, _REST, _PLACE = range(5)
_MOST_SAMPLES = 1 << 62
# positions computed at a time
_AT_A_TIME = 1 << 14

Ids = NDArray[np.int64]


class Order:
    """The samples of an epoch in their order, each exactly once.

    Any position is computed in constant time (for files of different lengths, in the logarithm of their number), so
    that a restart needs only the position. The same arguments give the same order on every machine and in every later
    release that has this `version`. Ranks, workers and sizes of batches do not affect it.

    Without `window`, the samples are permuted as a whole ("exact"). With `window`, the order is random but
    reading stays local. Samples form chunks of neighbours; the chunks of the data set are permuted and dealt to lanes.
    Each lane shuffles its samples within windows of whole chunks, and the lanes take turns: position p is of lane p mod
    `lanes`. Ranks take lanes, so that each chunk is read by one rank. Samples that do not fill a chunk, or chunks that
    do not fill all lanes, are shuffled by themselves and come between two windows, in each epoch other samples and
    other windows.

    Parameters
    ----------
    n : int
        Number of samples.
    seed, epoch : int
        Each pair gives another order.
    window : int, optional
        Samples that are shuffled together, over all lanes; rounded up to a whole chunk for each lane.
    lanes : int
        The number of ranks must divide it: 64 serves 1, 2, 4, ... 64 ranks; 48 also 3, 6, 12.
    shuffle : bool
        False: 0, 1, 2, ...
    chunk : int
        Neighbours that stay together: `chunk_samples` of the data set, or a multiple.
    bounds : (files + 1,) integers, optional
        Number of the first sample of each file, and n: no chunk has samples of two files. By default one file.

    Raises
    ------
    ArgumentError
        Unless all are whole numbers in their ranges, and if `window` is given and chunk is 1.

    Notes
    -----
    The construction and its sources are described in `kinema.ml.loading.permutation`.
    """

    version = VERSION

    def __init__(
        self,
        n: int,
        seed: int = 0,
        epoch: int = 0,
        window: int | None = None,
        lanes: int = 64,
        shuffle: bool = True,
        chunk: int = 1,
        bounds: ArrayLike | None = None,
    ) -> None:
        self.n = _whole("n", n, 0, _MOST_SAMPLES)
        self.seed = _whole("seed", seed, 0, (1 << 64) - 1)
        self.window = None if window is None else _whole("window", window, 1, _MOST_SAMPLES)
        self.lanes = _whole("lanes", lanes, 1, 1 << 20)
        self.shuffle = bool(shuffle)
        self.chunk = _whole("chunk", chunk, 1, _MOST_SAMPLES)
        if self.window is not None and self.chunk == 1:
            raise ArgumentError(
                "window= shuffles within chunks of neighbouring samples, expected chunk= of at least 2, found 1; "
                "without window= the order is random"
            )
        self.bounds = _checked_bounds(bounds, self.n)
        self._lay_out()
        self.set_epoch(epoch)

    def _lay_out(self) -> None:
        """Computes the numbers of chunks and windows, which are the same in all epochs."""
        lengths = np.diff(self.bounds)
        whole = lengths // self.chunk
        # numbers of whole chunks, and of samples after the last one, before each file
        self._chunks_before = np.concatenate([[0], np.cumsum(whole)]).astype(np.int64)
        self._ends_before = np.concatenate([[0], np.cumsum(lengths - whole * self.chunk)]).astype(np.int64)
        self._n_chunks = int(self._chunks_before[-1])
        self._chunks_of_lane = self._n_chunks // self.lanes
        of_window = max(1, -(-(self.window or 1) // (self.lanes * self.chunk)))
        # of one lane
        self._window_samples = min(of_window, max(self._chunks_of_lane, 1)) * self.chunk
        self._lane_samples = self._chunks_of_lane * self.chunk
        self._dealt = self._lane_samples * self.lanes
        self._n_windows = -(-self._lane_samples // self._window_samples)

    @property
    def epoch(self) -> int:
        """The epoch whose order this is."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Changes to the order of another epoch, like torch's DistributedSampler."""
        self._epoch = _whole("epoch", epoch, 0, (1 << 64) - 1)
        purposes = range(_PLACE + 1)
        self._keys = [derived_key(VERSION, self.seed, self._epoch, purpose) for purpose in purposes]
        # the left-over samples come before this window
        self._rest_before = self._keys[_PLACE] % (self._n_windows + 1)
        self._rest_begin = min(self._rest_before * self._window_samples, self._lane_samples) * self.lanes

    def with_epoch(self, epoch: int) -> Order:
        """The order of another epoch, as a new object."""
        return Order(self.n, self.seed, epoch, self.window, self.lanes, self.shuffle, self.chunk, self.bounds)

    def with_windows(self, window: int | None = None, chunk: int | None = None) -> Order:
        """The order of the same epoch with another window or chunk, as a new object."""
        window = self.window if window is None else window
        chunk = self.chunk if chunk is None else chunk
        return Order(self.n, self.seed, self.epoch, window, self.lanes, self.shuffle, chunk, self.bounds)

    @property
    def is_windowed(self) -> bool:
        """Whether samples are shuffled within windows."""
        return self.shuffle and self.window is not None

    @property
    def window_samples(self) -> int:
        """Samples that are shuffled together: of one window, over all lanes; n if there are no windows."""
        return self._window_samples * self.lanes if self.is_windowed else self.n

    def window_of(self, place: int) -> int:
        """Number of the window of a position; the samples that are shuffled by themselves have a window of their own.

        0 for all positions of an order without windows.
        """
        if not self.is_windowed:
            return 0
        size, rest = self.window_samples, self.n - self._dealt
        begin = self._rest_begin
        if place < begin:
            return place // size
        return self._rest_before if place < begin + rest else (place - rest) // size + 1

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, position: int) -> int:
        """The sample at a position; negative positions count from the end. Raises OutOfRangeError."""
        place = operator.index(position)
        if not -self.n <= place < self.n:
            raise OutOfRangeError(f"place {place} of an order of {self.n} samples")
        return int(self.samples_at(np.array([place % self.n]))[0])

    def __iter__(self) -> Iterator[int]:
        """All samples, in order."""
        for start in range(0, self.n, _AT_A_TIME):
            yield from self.positions(start, min(start + _AT_A_TIME, self.n)).tolist()

    def positions(self, start: int, stop: int) -> Ids:
        """(stop - start,) int64: the samples at the positions from `start` to before `stop`.

        Raises OutOfRangeError unless 0 <= start <= stop <= n.
        """
        if not 0 <= start <= stop <= self.n:
            raise OutOfRangeError(f"places {start} to {stop} of an order of {self.n} samples")
        result = np.empty(stop - start, np.int64)
        # few enough at a time for the cache of a core
        for begin in range(start, stop, _AT_A_TIME):
            end = min(begin + _AT_A_TIME, stop)
            result[begin - start : end - start] = self.samples_at(np.arange(begin, end, dtype=np.int64))
        return result

    def samples_at(self, places: Ids) -> Ids:
        """(len(places),) int64: the samples at positions from 0 to n - 1, which are not checked."""
        if not self.shuffle or not len(places):
            return places.astype(np.int64)
        if not self.is_windowed:
            return permuted(places, self.n, self._keys[_EXACT])
        rest = self.n - self._dealt
        begin = self._rest_begin
        is_rest = (places >= begin) & (places < begin + rest)
        if not is_rest.any():
            return self._samples_in_windows(np.where(places < begin, places, places - rest))
        result = np.empty(len(places), np.int64)
        result[is_rest] = self._rest(places[is_rest] - begin)
        dealt = places[~is_rest]
        result[~is_rest] = self._samples_in_windows(np.where(dealt < begin, dealt, dealt - rest))
        return result

    def _samples_in_windows(self, places: Ids) -> Ids:
        """Samples of chunks that are dealt to lanes, by position among these."""
        turn, lane = np.divmod(places, self.lanes)
        window, inside = np.divmod(turn, self._window_samples)
        tweaks = (window * self.lanes + lane).astype(np.uint64)
        whole = self._lane_samples // self._window_samples
        is_last = window >= whole
        key = self._keys[_WINDOWS]
        if not is_last.any():
            shuffled = permuted(inside, self._window_samples, key, tweaks)
        else:
            shuffled = np.empty(len(places), np.int64)
            shuffled[~is_last] = permuted(inside[~is_last], self._window_samples, key, tweaks[~is_last])
            last = self._lane_samples - whole * self._window_samples
            shuffled[is_last] = permuted(inside[is_last], last, key, tweaks[is_last])
        turn = window * self._window_samples + shuffled
        number, inside = np.divmod(turn, self.chunk)
        chunk = permuted(lane * self._chunks_of_lane + number, self._n_chunks, self._keys[_CHUNKS])
        return self._first_of(chunk) + inside

    def _rest(self, places: Ids) -> Ids:
        """Samples of left-over chunks and those after the last chunk of a file, by position among these."""
        if not len(places):
            return places
        shuffled = permuted(places, self.n - self._dealt, self._keys[_REST])
        chunks = self._n_chunks - self._chunks_of_lane * self.lanes
        is_chunk = shuffled < chunks * self.chunk
        result = np.empty(len(places), np.int64)
        number, inside = np.divmod(shuffled[is_chunk], self.chunk)
        left = self._chunks_of_lane * self.lanes + number
        if chunks:
            result[is_chunk] = self._first_of(permuted(left, self._n_chunks, self._keys[_CHUNKS])) + inside
        ends = shuffled[~is_chunk] - chunks * self.chunk
        file = np.searchsorted(self._ends_before, ends, side="right") - 1
        chunks_of_file = self._chunks_before[file + 1] - self._chunks_before[file]
        begin = self.bounds[file] + chunks_of_file * self.chunk
        result[~is_chunk] = begin + ends - self._ends_before[file]
        return result

    def _first_of(self, chunks: Ids) -> Ids:
        """The first sample of each whole chunk."""
        if len(self.bounds) == 2:
            return chunks * self.chunk
        file = np.searchsorted(self._chunks_before, chunks, side="right") - 1
        return self.bounds[file] + (chunks - self._chunks_before[file]) * self.chunk

    def state(self) -> dict[str, Any]:
        """All that decides the order, except the epoch, as plain numbers for a checkpoint."""
        # one string for any number of files
        files = hashlib.blake2b(self.bounds.astype("<i8").tobytes(), digest_size=8).hexdigest()
        return {
            "version": self.version,
            "n": self.n,
            "seed": self.seed,
            "window": self.window,
            "lanes": self.lanes,
            "shuffle": self.shuffle,
            "chunk": self.chunk,
            "files": files,
        }

    def check_ranks(self, ranks: int) -> None:
        """Raises ArgumentError unless `ranks` divides the lanes; the message gives numbers of lanes that would do."""
        if self.lanes % ranks:
            below, above = self.lanes // ranks * ranks, -(-self.lanes // ranks) * ranks
            fitting = " or ".join(str(one) for one in (below, above) if one)
            raise ArgumentError(
                f"{ranks} ranks share {self.lanes} lanes, expected a number of ranks that divides them; "
                f"with {ranks} ranks give lanes={fitting}"
            )

    def __repr__(self) -> str:
        kind = "stored" if not self.shuffle else "exact" if self.window is None else f"windows of {self.window_samples}"
        return f"<Order of {self.n} samples: {kind}, seed {self.seed}, epoch {self.epoch}, {self.lanes} lanes>"


def _whole(name: str, value: Any, least: int, most: int) -> int:
    """Returns a whole number in a range. Raises ArgumentError for other values."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= int(value) <= most:
        raise ArgumentError(f"{name} must be a whole number from {least} to {most}, found {value!r}")
    return int(value)


def _checked_bounds(bounds: ArrayLike | None, n: int) -> Ids:
    if bounds is None:
        return np.array([0, n], np.int64)
    array = np.asarray(bounds)
    good = array.ndim == 1 and len(array) >= 2 and array.dtype.kind in "iu"
    if not good or array[0] != 0 or array[-1] != n or (np.diff(array.astype(np.int64)) < 0).any():
        raise ArgumentError(f"bounds must be whole numbers that ascend from 0 to {n}, found {bounds!r}")
    return array.astype(np.int64)
