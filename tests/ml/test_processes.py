"""Data sets in processes that are forked or started anew: each opens its own files, and none hangs."""

from __future__ import annotations

import multiprocessing
import os
import select
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.ml import Dataset, FrameDataset, SampleDataset
from kinema.testing.writers import write_dcd

pytestmark = pytest.mark.processes

IDS = [5, 1, 30, 5]


def datasets(folder: Path) -> tuple[SampleDataset, FrameDataset]:
    random = np.random.default_rng(0)
    np.save(folder / "x.npy", random.random((40, 6)))
    np.savez_compressed(folder / "y.npz", x=random.random((40, 6)))
    write_dcd(folder / "a.dcd", random.random((40, 8, 3)).astype(np.float32))
    return SampleDataset(folder / "x.npy"), FrameDataset(kn.open(folder / "a.dcd"))


def answer(queue: Any, data: list[Dataset]) -> None:
    queue.put([next(iter(one.read(IDS, workers=2).values())).tolist() for one in data])


def of_child(method: str, data: list[Dataset]) -> Any:
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=answer, args=(queue, data), daemon=True)
    child.start()
    try:
        return queue.get(timeout=60)
    finally:
        child.join(10)
        if child.is_alive():
            child.kill()
            child.join()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_read_the_same(tmp_path: Path, method: str) -> None:
    samples, frames = datasets(tmp_path)
    data = [samples, frames, SampleDataset(tmp_path / "y.npz")]
    expected = [next(iter(one.read(IDS, workers=2).values())).tolist() for one in data]
    assert of_child(method, data) == expected
    # also after the child, and before any read here
    assert [next(iter(one.read(IDS).values())).tolist() for one in data] == expected
    assert of_child(method, [*datasets(tmp_path)]) == expected[:2]


@pytest.mark.filterwarnings("ignore:This process")
def test_a_fork_while_threads_read_does_not_hang(tmp_path: Path) -> None:
    samples, frames = datasets(tmp_path)
    data: list[Dataset] = [samples, frames, SampleDataset(tmp_path / "y.npz", memory="1 KiB")]
    expected = [next(iter(one.read(IDS).values())).tolist() for one in data]
    stop = threading.Event()

    def reads() -> None:
        while not stop.is_set():
            for one in data:
                one.read(np.arange(40), workers=2)

    threads = [threading.Thread(target=reads, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            receiving, sending = os.pipe()
            child = os.fork()
            if child == 0:
                good = [next(iter(one.read(IDS, workers=2).values())).tolist() for one in data] == expected
                os.write(sending, b"y" if good else b"n")
                os._exit(0)
            os.close(sending)
            try:
                assert select.select([receiving], [], [], 60)[0], "the forked process hangs"
                assert os.read(receiving, 1) == b"y"
            finally:
                os.kill(child, 9)
                os.waitpid(child, 0)
                os.close(receiving)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
