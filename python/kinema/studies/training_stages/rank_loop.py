"""The program of one rank of a stage: `python -m kinema.studies.training_stages.rank_loop SETTINGS.json RANK`.

It prints "ready", waits for a line, and then trains, which is traced. Its last line is its result as JSON.
"""

from __future__ import annotations

import io
import json
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import Error, says_enough
from kinema.base.tracing import describe, span, trace
from kinema.base.tracing.recording import lap
from kinema.ml import Loader, Order, SampleDataset

Values = Mapping[str, Any]
Batches = Iterator[tuple[NDArray[np.int64], Values]]

# batches that are read ahead for each thread
AHEAD = 2


def main(settings_file: str, rank: int) -> None:
    """Trains as the settings say."""
    settings: dict[str, Any] = json.loads(Path(settings_file).read_text(encoding="utf-8"))
    batches = LOOPS[settings["loop"]](settings, rank)
    print("ready", flush=True)
    sys.stdin.readline()
    steps, first = 0, None
    began = time.perf_counter()
    with trace(settings["trace"]):
        describe("rank", rank)
        for ids, values in batches:
            if first is None:
                # a batch that is kept is never overwritten
                first = ids, values
            steps += 1
    seconds = time.perf_counter() - began
    found: dict[str, Any] = {"seconds": seconds, "steps": steps, "ids": [], "checksum": 0}
    if first is not None:
        found |= {"ids": np.asarray(first[0]).tolist(), "checksum": checksum(settings["fields"], first[1])}
    print(json.dumps(found), flush=True)


def checksum(fields: Sequence[str], values: Values) -> int:
    """Checksum of the bytes of a batch."""
    found = 0
    for name in fields:
        found = zlib.crc32(np.ascontiguousarray(values[name]).tobytes(), found)
    return found


def _shares(settings: Mapping[str, Any], rank: int, epoch: int) -> Iterator[NDArray[np.int64]]:
    """The batches of a rank in an epoch, as sample numbers; the samples after the last whole batch are left out."""
    n, batch = settings["samples"], settings["batch"]
    ids = Order(n, seed=settings["seed"], epoch=epoch).positions(0, n)
    whole = batch * settings["ranks"]
    for start in range(0, n - n % whole, whole):
        yield ids[start : start + whole][rank :: settings["ranks"]]


# -- Kinema and torch --------------------------------------------------------------------------------------------------


def _data(settings: Mapping[str, Any]) -> SampleDataset:
    one_each = settings["files"] != "one"
    return SampleDataset(
        settings["path"], list(settings["fields"]), file_is_sample=one_each, node_cache=settings["node_cache"]
    )


def _with_kinema(settings: Mapping[str, Any], rank: int) -> Batches:
    """Its loader records by itself what the loop waits for, and how long it works on a batch."""
    loader = Loader(
        _data(settings), settings["batch"], seed=settings["seed"], tensors=False, drop_last=True, rank=rank,
        ranks=settings["ranks"], workers=settings["workers"], next_epoch=settings["next_epoch"],
    )  # fmt: skip

    def batches() -> Batches:
        with closing(loader):
            # each loop is the next epoch
            for _ in range(settings["epochs"]):
                for one in loader:
                    time.sleep(settings["step"])
                    yield one.ids, one

    return batches()


def _with_torch(settings: Mapping[str, Any], rank: int) -> Batches:
    from torch.utils.data import DataLoader

    from kinema.ml.torch import OrderSampler, collate

    data, n = _data(settings), settings["samples"]

    def batches() -> Batches:
        for epoch in range(settings["epochs"]):
            order = Order(n, seed=settings["seed"], epoch=epoch)
            sampler = OrderSampler(order, rank, settings["ranks"], drop_last=True)
            loader = DataLoader(
                data, batch_size=settings["batch"], sampler=sampler, collate_fn=collate, drop_last=True,
                num_workers=settings["workers"],
            )  # fmt: skip
            yield from _trained(settings, epoch, ((one.ids, one) for one in loader))

    return batches()


# -- NumPy and h5py ----------------------------------------------------------------------------------------------------


class _TracedFile(io.FileIO):
    """A file whose system calls are events of the trace, with places and sizes."""

    def __init__(self, path: str) -> None:
        began = time.perf_counter_ns()
        super().__init__(path)
        self._path, self._place = path, 0
        lap("open64", "POSIX", began, path=path, ret=self.fileno())

    def readinto(self, buffer: Any) -> int:
        began, count = time.perf_counter_ns(), memoryview(buffer).nbytes
        n = super().readinto(buffer) or 0
        self._has_read(began, count, n)
        return n

    def readall(self) -> bytes:
        began = time.perf_counter_ns()
        found = super().readall()
        self._has_read(began, len(found), len(found))
        return found

    def _has_read(self, began: int, count: int, n: int) -> None:
        lap("read", "POSIX", began, path=self._path, offset=self._place, count=count, ret=n)
        self._place += n

    def seek(self, offset: int, whence: int = 0) -> int:
        began = time.perf_counter_ns()
        self._place = super().seek(offset, whence)
        lap("lseek", "POSIX", began, path=self._path, offset=self._place, ret=self._place)
        return self._place

    def close(self) -> None:
        if self.closed:
            return
        began = time.perf_counter_ns()
        super().close()
        lap("close", "POSIX", began, path=self._path, ret=0)


def _numpy_sample(settings: Mapping[str, Any], sample: int) -> Values:
    with (
        io.BufferedReader(_TracedFile(f"{settings['path']}/{sample:08d}.npz")) as file,
        np.load(file) as archive,
    ):
        return {name: archive[name] for name in settings["fields"]}


def _h5py_sample(settings: Mapping[str, Any], sample: int) -> Values:
    import h5py

    with _TracedFile(f"{settings['path']}/{sample:08d}.h5") as opened, h5py.File(opened) as file:
        return {name: file[name][()] for name in settings["fields"]}


def _on_threads(sample_of: Callable[[Mapping[str, Any], int], Values]) -> Callable[[Mapping[str, Any], int], Batches]:
    """A loop whose batches are read ahead by threads, a sample at a time."""

    def read(settings: Mapping[str, Any], ids: NDArray[np.int64], epoch: int, step: int) -> Values:
        with span("read", "reader", epoch=epoch, step=step):
            rows = [sample_of(settings, int(sample)) for sample in ids]
            return {name: np.stack([row[name] for row in rows]) for name in settings["fields"]}

    def start(settings: Mapping[str, Any], rank: int) -> Batches:
        with ThreadPoolExecutor(settings["workers"]) as pool:
            for epoch in range(settings["epochs"]):
                waiting: deque[tuple[NDArray[np.int64], Future[Values]]] = deque()
                shares = enumerate(_shares(settings, rank, epoch))

                def batches(
                    waiting: deque[tuple[NDArray[np.int64], Future[Values]]] = waiting,
                    shares: Iterator[tuple[int, NDArray[np.int64]]] = shares,
                    epoch: int = epoch,
                ) -> Batches:
                    for step, ids in shares:
                        waiting.append((ids, pool.submit(read, settings, ids, epoch, step)))
                        if len(waiting) > AHEAD * settings["workers"]:
                            first, values = waiting.popleft()
                            yield first, values.result()
                    for first, values in waiting:
                        yield first, values.result()

                yield from _trained(settings, epoch, batches())

    return start


def _trained(settings: Mapping[str, Any], epoch: int, batches: Batches) -> Batches:
    """The batches, with the events of waiting for them and of a step of training on each."""
    step = 0
    while True:
        with span("fetch.iter", "dataloader", epoch=epoch, step=step):
            found = next(batches, None)
        if found is None:
            return
        with span("train.step", "pipeline", epoch=epoch, step=step):
            time.sleep(settings["step"])
        yield found
        step += 1


LOOPS: Mapping[str, Callable[[Mapping[str, Any], int], Batches]] = {
    "NumPy": _on_threads(_numpy_sample),
    "h5py": _on_threads(_h5py_sample),
    "Kinema": _with_kinema,
    "torch": _with_torch,
}


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except Error as error:
        if not says_enough(error):
            raise
        sys.exit("; ".join([str(error), *getattr(error, "__notes__", ())]))
