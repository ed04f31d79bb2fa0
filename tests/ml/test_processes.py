"""Data sets in processes that are forked or spawned: each opens its own files, and none hangs."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.ml import Dataset, FrameDataset, SampleDataset, Statistics, Subset
from kinema.ml.statistics.normalised import Normalised
from kinema.testing.programs.children import start_child
from kinema.testing.writers import write_dcd

sys.path.insert(0, str(Path(__file__).parent))
from torch_stand_in import default_collate

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


def collated(queue: Any, data: list[Dataset]) -> None:
    """As a worker of torch's loader: what its default collation makes of the samples."""
    found = [next(iter(default_collate(one.__getitems__(IDS)).values())) for one in data]
    queue.put([one.tolist() for one in found])


def none_of(samples: SampleDataset) -> Statistics:
    """Statistics that leave every array as it is."""
    return Statistics({}, {}, None, len(samples), "", "").for_other_data()


def ask_child(method: str, data: list[Dataset], asked: Any = answer) -> Any:
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=asked, args=(queue, data), daemon=True)
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
    assert ask_child(method, data) == expected
    # some, of some, normalised: also as torch's own loader has them
    data += [Subset(samples, np.arange(40)), Normalised(samples, none_of(samples))]
    assert ask_child(method, data, collated) == expected + 2 * expected[:1]
    data = data[:3]
    # also after the child, and before any read here
    assert [next(iter(one.read(IDS).values())).tolist() for one in data] == expected
    assert ask_child(method, [*datasets(tmp_path)]) == expected[:2]


FORKS = """
import os, pickle, sys, threading
import numpy as np

data, expected, ids = pickle.loads(sys.stdin.buffer.read())
stop = threading.Event()

def read(one):
    return next(iter(one.read(ids, workers=2).values())).tolist()

def reads():
    while not stop.is_set():
        for one in data:
            one.read(np.arange(40), workers=2)

threads = [threading.Thread(target=reads) for _ in range(3)]
for thread in threads:
    thread.start()
good = 0
for _ in range(6):
    child = os.fork()
    if child == 0:
        os._exit(0 if [read(one) for one in data] == expected else 1)
    good += os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
print(good, "forks read the same")
"""


def test_reading_imports_nothing(tmp_path: Path) -> None:
    # a process that is forked while another thread imports a module can never import it
    data = [*datasets(tmp_path), SampleDataset(tmp_path / "y.npz")]
    (tmp_path / "data").write_bytes(pickle.dumps(data))
    script = (
        "import pickle, sys\ndata = pickle.load(open(sys.argv[1], 'rb'))\nbefore = set(sys.modules)\n"
        "for one in data: one.read([1, 2], workers=2)\nprint(sorted(set(sys.modules) - before))"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "data")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_a_fork_while_threads_read_does_not_hang(tmp_path: Path) -> None:
    samples, frames = datasets(tmp_path)
    data: list[Dataset] = [samples, frames, SampleDataset(tmp_path / "y.npz", memory="1 KiB")]
    expected = [next(iter(one.read(IDS).values())).tolist() for one in data]
    given = tmp_path / "given"
    given.write_bytes(pickle.dumps((data, expected, IDS)))
    # killed, with what it has forked, when the time is up
    with given.open("rb") as file:
        process = start_child([sys.executable, "-W", "ignore", "-c", FORKS], seconds=120, stdin=file)
    output, errors = process.communicate(timeout=150)
    assert output == "6 forks read the same\n", errors
