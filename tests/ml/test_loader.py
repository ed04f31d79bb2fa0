"""The loader: batches of all ranks, states, errors, memory, and how it ends. Without torch."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinema.base.errors import ArgumentError, CorruptFileError, MemoryLimitError
from kinema.base.notes import collected
from kinema.ml import Batch, Dataset, Order, SampleDataset, Subset
from kinema.ml.loading.buffers import Buffers
from kinema.testing.programs.children import start_child

sys.path.insert(0, str(Path(__file__).parent))
from loader_cases import Numbers, loader_of, readahead_threads, samples, settled

# -- which samples -----------------------------------------------------------------------------------------------------


@given(
    n=st.integers(1, 300),
    of_all=st.sampled_from([12, 24, 48]),
    ranks=st.sampled_from([1, 2, 3, 4, 6, 12]),
    windowed=st.booleans(),
    chunk=st.integers(2, 30),
    drop_last=st.booleans(),
    pad=st.booleans(),
    readers=st.sampled_from([1, 3]),
    seed=st.integers(0, 99),
)
def test_each_sample_once_and_the_same_batches_on_any_number_of_ranks(
    n: int, of_all: int, ranks: int, windowed: bool, chunk: int, drop_last: bool, pad: bool, readers: int, seed: int
) -> None:
    order = Order(n, seed, window=40 if windowed else None, lanes=48, chunk=chunk if windowed else 1)
    options: dict[str, Any] = {"order": order, "drop_last": drop_last, "pad": pad, "readers": readers, "memory": "1MB"}
    dataset = Numbers(n, chunk=chunk)
    by_rank = []
    for rank in range(ranks):
        loader = loader_of(dataset, of_all // ranks, rank=rank, ranks=ranks, **options)
        by_rank.append(samples(loader))
        assert len(by_rank[-1]) == len(loader)
    expected = [list(order)[start : start + of_all] for start in range(0, n, of_all)]
    if drop_last:
        expected = [batch for batch in expected if len(batch) == of_all]
    elif pad:
        expected[-1] += [list(order)[i % n] for i in range(-len(expected[-1]) % ranks)]
    if pad or drop_last:
        assert len({len(batches) for batches in by_rank}) == 1
        assert all(len({len(batches[k]) for batches in by_rank}) == 1 for k in range(len(expected)))
    for number, batch in enumerate(expected):
        parts = [batches[number] if number < len(batches) else [] for batches in by_rank]
        for rank, part in enumerate(parts):
            assert part == batch[rank::ranks]


@given(
    n=st.integers(1, 200),
    of_all=st.sampled_from([12, 24]),
    before=st.sampled_from([1, 2, 3]),
    after=st.sampled_from([1, 4, 6]),
    windowed=st.booleans(),
    killed=st.integers(0, 40),
    batch_factor=st.sampled_from([1, 2]),
)
def test_a_run_that_is_killed_and_resumed_on_other_ranks(
    n: int, of_all: int, before: int, after: int, windowed: bool, killed: int, batch_factor: int
) -> None:
    dataset = Numbers(n, chunk=7)
    options: dict[str, Any] = {"order": "windowed" if windowed else "random", "lanes": 12, "seed": 5, "pad": False}
    steps = min(killed, -(-n // of_all))
    seen: list[int] = []
    states = []
    for rank in range(before):
        loader = loader_of(
            dataset, of_all // before, rank=rank, ranks=before, window=30 if windowed else None, **options
        )
        loader.set_epoch(2)
        for batch in zip(range(steps), loader, strict=False):
            seen += batch[1].ids.tolist()
        states.append(loader.state_dict())
    assert len(seen) == min(n, steps * of_all)
    for rank in range(after):
        size = of_all * batch_factor // after
        other = loader_of(dataset, size, rank=rank, ranks=after, window=30 if windowed else None, **options)
        # the first rank has had every step; others may have no part in the last one
        other.load_state_dict(states[0])
        other.set_epoch(2)
        seen += [one for batch in samples(other) for one in batch]
        assert other.epoch == 3 and other.state_dict()["place"] == 0
    assert sorted(seen) == list(range(n))


def test_state_behind_every_batch_the_last_one_included() -> None:
    dataset = Numbers(23)
    whole = samples(loader_of(dataset, 5, seed=1)) + samples(loader_of(dataset, 5, order=Order(23, 1, epoch=1)))
    for steps in range(1, 11):
        loader = loader_of(dataset, 5, seed=1)
        done = []
        for _ in range(2):
            for batch in loader:
                done.append(batch.ids.tolist())
                if len(done) == steps:
                    break
            if len(done) == steps:
                break
        state = loader.state_dict()
        other = loader_of(dataset, 5, seed=1)
        other.load_state_dict(state)
        assert other.state_dict() == state
        rest = samples(other)
        if other.epoch == 1:
            rest += samples(other)
        assert done[:steps] + rest == whole


def test_epochs_follow_each_other_and_a_loop_that_is_left_begins_again() -> None:
    loader = loader_of(Numbers(10), 4)
    first = [sorted(np.concatenate(samples(loader)).tolist()) for _ in range(2)]
    assert first == [list(range(10))] * 2 and loader.epoch == 2
    for _ in loader:
        break
    assert loader.epoch == 2 and loader.state_dict()["place"] == 4
    assert samples(loader) == [[*Order(10, epoch=2)][start : start + 4] for start in (0, 4, 8)]
    loader.set_epoch(0)
    assert samples(loader)[0] == [*Order(10)][:4] == [*loader_of(Numbers(10), 4).batch_ids(0)]


def test_a_loop_that_counts_batches_has_the_next_epoch_too() -> None:
    loader = loader_of(Numbers(10), 4)
    for epoch in range(3):
        # asks for no batch after the last one, as Lightning does
        batches = iter(loader)
        found = [next(batches).ids.tolist() for _ in range(len(loader))]
        assert found == [[*Order(10, epoch=epoch)][start : start + 4] for start in (0, 4, 8)]
    loader.set_epoch(2)
    assert samples(loader) == found


@pytest.mark.parametrize(
    ("change", "words"),
    [({"n": 11}, "n, expected"), ({"seed": 9}, "seed, expected"), ({"lanes": 8}, "lanes, expected")],
)
def test_states_of_other_orders_are_refused(change: dict[str, int], words: str) -> None:
    arguments = {"n": 10, "seed": 0, "lanes": 64} | change
    state = loader_of(Numbers(arguments["n"]), 2, seed=arguments["seed"], lanes=arguments["lanes"]).state_dict()
    with pytest.raises(ArgumentError, match=words):
        loader_of(Numbers(10), 2).load_state_dict(state)


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (2, 3), (3, 2), (3, 1)])
@pytest.mark.parametrize("order", ["windowed", "random", "stored"])
def test_any_ranks_and_batches_go_on_with_what_is_left(before: int, after: int, order: str) -> None:
    """With the window that is chosen by name, which depends on ranks and batches."""
    dataset, seen = Numbers(1500, chunk=4), []
    options: dict[str, Any] = {"order": order, "lanes": 12, "seed": 3, "pad": False}
    states = []
    for rank in range(before):
        loader = loader_of(dataset, 5, rank=rank, ranks=before, **options)
        seen += [one for _, batch in zip(range(7), loader, strict=False) for one in batch.ids.tolist()]
        states.append(loader.state_dict())
    assert len(seen) == 7 * 5 * before and all(state == states[0] for state in states)
    for rank in range(after):
        other = loader_of(dataset, 8, rank=rank, ranks=after, **options)
        other.load_state_dict(states[0])
        seen += [one for batch in samples(other) for one in batch]
    assert sorted(seen) == list(range(1500))


def test_a_window_that_is_stated_is_compared() -> None:
    dataset = Numbers(200, chunk=4)
    state = loader_of(dataset, 5, order="windowed", window=40).state_dict()
    with pytest.raises(ArgumentError, match="window, expected 80, found 40"):
        loader_of(dataset, 5, order="windowed", window=80).load_state_dict(state)


@pytest.mark.parametrize("order", ["windowed", "random", "stored"])
@pytest.mark.parametrize("change", ["reordered", "rewritten", "another part"])
def test_a_state_of_another_data_set_is_refused(tmp_path: Path, order: str, change: str) -> None:
    def opened() -> Dataset:
        data = SampleDataset([tmp_path / name for name in names], file_is_sample=False)
        return Subset(data, part)

    names, part = ["a.npy", "b.npy"], np.arange(30)
    for number, name in enumerate(names):
        np.save(tmp_path / name, np.full((20, 3), float(number)))
    loader = loader_of(opened(), 4, order=order)
    next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    again = loader_of(opened(), 4, order=order)
    again.load_state_dict(state)
    assert again.state_dict() == state
    with collected() as notes:
        loader_of(opened(), 4, order=order).load_state_dict({**state, "data": None})
    assert "cannot be compared: it is of an earlier version" in notes[0]
    if change == "reordered":
        names.reverse()
    elif change == "rewritten":
        np.save(tmp_path / "b.npy", np.full((20, 3), 5.0))
    else:
        part = np.arange(30)[::-1]
    said = "another part of their samples" if change == "another part" else "of another data set: file "
    with pytest.raises(ArgumentError, match=said):
        loader_of(opened(), 4, order=order).load_state_dict(state)


def test_states_that_are_none() -> None:
    loader = loader_of(Numbers(10), 2)
    later = loader.state_dict()
    later["order"] = {**later["order"], "version": 2}
    with pytest.raises(ArgumentError, match="version, expected 1, found 2"):
        loader.load_state_dict(later)
    for state in ({}, {"order": 1, "epoch": 0, "place": 0}, {**loader.state_dict(), "place": 11}):
        with pytest.raises(ArgumentError):
            loader.load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ranks": 3, "rank": 0}, "3 ranks share 64 lanes, .*lanes=63 or 66"),
        ({"ranks": 2, "rank": 0, "batch_size": 7}, "pad=True repeats 1 samples, .*drop_last=True leaves 3 out"),
        ({"ranks": 2}, "rank= and ranks= go together"),
        ({"ranks": 2, "rank": 2}, "rank must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"order": "shuffled"}, "order must be"),
        ({"order": Order(16)}, "expected 17 samples, found 16"),
        ({"window": 100}, "window= is of"),
        ({"device": "cpu"}, "device= is of tensors"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        loader_of(Numbers(17), **{"batch_size": 4, **options})


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_window_is_read_at_once_and_each_chunk_in_one_read() -> None:
    dataset = Numbers(1000, chunk=10)
    order = Order(1000, window=200, lanes=4, chunk=10)
    for rank in range(2):
        dataset.reads.clear()
        samples(loader_of(dataset, 25, order=order, rank=rank, ranks=2, next_epoch=False))
        assert [len(ids) for ids in dataset.reads] == [100] * 5
        chunks = [np.unique(ids // 10) for ids in dataset.reads]
        assert len(np.unique(np.concatenate(chunks))) == sum(map(len, chunks)) == 50


def test_memory_bounds_what_is_read_ahead() -> None:
    dataset = Numbers(1000, width=128)
    loader = loader_of(dataset, 10, memory=60 * 1024)
    batches = iter(loader)
    next(batches)
    at_first = settled(dataset.reads)
    # 60 KiB less one batch that is free to be read into, 10 KiB each, with the one in the loop's hands
    assert at_first == 5
    next(batches)
    assert settled(dataset.reads) == 6
    with pytest.raises(MemoryLimitError, match="three batches of 10 samples are 30720 bytes"):
        loader_of(dataset, 10, memory=30_000)


def test_buffers_are_used_again_but_never_one_that_is_held() -> None:
    dataset = Numbers(400, width=4096)
    for batch in loader_of(dataset, 4, memory=6 * 4 * 4096 * 8):
        del batch
    assert len(dataset.buffers) <= 8 < len(dataset.reads)
    kept = [(batch.ids.copy(), batch["x"][1:, 7]) for batch in loader_of(dataset, 4, memory=6 * 4 * 4096 * 8)]
    for ids, column in kept:
        np.testing.assert_array_equal(column, ids[1:] + 3.5)


def test_a_buffer_is_taken_by_one_reader() -> None:
    buffers = Buffers(4)
    loans = []
    for number in range(3):
        batch = Batch().start(np.array([number]))
        batch.room("x", (1, 3), np.float64)[:] = number
        loans.append(buffers.give(batch))
        del batch
    # the first is in use, the others are free
    first = loans[0]
    loans.clear()
    taken = [buffers.take() for _ in range(3)]
    assert len({id(one) for one in taken}) == 3
    rooms = [one.room("x", (1, 3), np.float64) for one in taken]
    assert len({room.ctypes.data for room in (first["x"], *rooms)}) == 4
    assert first["x"].tolist() == [[0, 0, 0]]


def test_all_buffers_go_round() -> None:
    asked: list[int] = []
    buffers = Buffers(5, partial(Batch, lambda size: asked.append(size) or np.empty(size, np.uint8)))
    ready: list[Batch] = []
    for number in range(40):
        batch = buffers.take().start(np.array([number]))
        batch.room("x", (1, 8), np.float64)[:] = number
        ready.append(buffers.give(batch))
        del batch
        if len(ready) == 4:
            # the loop has one, three are ready
            assert ready.pop(0)["x"][0, 0] == number - 3
    assert len(asked) == 4


def test_memory_serves_all_loops_until_the_loader_is_closed() -> None:
    class Recording(Numbers):
        def read(self, ids: Any, *, out: Batch | None = None, workers: int | None = None) -> Batch:
            into.append(out)
            return super().read(ids, out=out, workers=workers)

    into: list[Batch | None] = []
    dataset = Recording(200)
    loader = loader_of(dataset, 10, memory=4 * 10 * dataset.sample_bytes, next_epoch=False)
    for _ in range(6):
        assert len(samples(loader)) == 20
    first = {id(one) for one in into}
    assert len(into) == 120 and len(first) <= 5
    loader.close()
    del into[:-1]
    assert len(samples(loader)) == 20
    assert id(into[0]) not in {id(one) for one in into[1:]}


def test_dtype_and_times() -> None:
    loader = loader_of(Numbers(50), 8, dtype="float32")
    assert {batch["x"].dtype for batch in loader} == {np.dtype(np.float32)}
    assert loader.times.batches == 7 and loader.times.nbytes == 50 * 3 * 4
    assert loader.times.waited > 0 and loader.times.busy > 0
    assert "7 batches of 8 samples" in loader.explain()
    assert (
        "would decode each once"
        in loader_of(Numbers(10_000, chunk=50), 10, order="windowed", window=6400, memory="10 KiB").explain()
    )


@pytest.mark.parametrize("readers", [1, 3])
def test_an_error_of_a_reader(readers: int) -> None:
    dataset = Numbers(100, bad=list(Order(100))[33])
    loader = loader_of(dataset, 5, readers=readers)
    batches = iter(loader)
    for _ in range(6):
        next(batches)
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=f"some.h5: HDF5 frame {dataset.bad}, byte 77") as caught:
            next(batches)
    assert "while reading samples" in caught.value.__notes__[0] and "from place 30" in caught.value.__notes__[0]
    assert loader.state_dict()["place"] == 30


def test_no_samples() -> None:
    loader = loader_of(Numbers(0), 4)
    assert list(loader) == [] and len(loader) == 0


# -- how it ends -------------------------------------------------------------------------------------------------------


def test_threads_end_with_the_loop_the_object_and_an_error() -> None:
    loader = loader_of(Numbers(1000), 2, memory=2000, readers=2)
    for _ in loader:
        break
    _wait_until(lambda: not readahead_threads())
    batches = iter(loader)
    next(batches)
    assert readahead_threads()
    del batches
    gc.collect()
    _wait_until(lambda: not readahead_threads())
    first = iter(loader)
    next(first)
    second = iter(loader)
    # the loop before it is over
    assert len(list(first)) < 499
    assert len(samples(second)) == 500
    # which read the next epoch
    assert readahead_threads()
    loader.close()
    _wait_until(lambda: not readahead_threads())
    loader = loader_of(Numbers(1000), 2, memory=2000, readers=2)
    assert len(samples(loader)) == 500 and readahead_threads()
    del loader
    gc.collect()
    _wait_until(lambda: not readahead_threads())


def _wait_until(condition: Any) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


CHILD = """
import os, sys, signal, threading, time
import numpy as np
from kinema.ml import Loader, SampleDataset
loader = Loader(SampleDataset(sys.argv[1]), 4, memory="64 KiB", tensors=False, readers=2)
"""

ENDS = {
    "interpreter exit": "batches = iter(loader); next(batches); print('there', flush=True)",
    "an exception": "for batch in loader: print('there', flush=True); raise SystemExit(0)",
    "a fork that continues": """
batches = iter(loader)
own = [next(batches).ids.tolist() for _ in range(3)]
for _ in range(8):
    child = os.fork()
    if child == 0:
        rest = [batch.ids.tolist() for batch in batches]
        again = [batch.ids.tolist() for batch in loader]
        good = len(rest) == len(loader) - 3 and sorted(sum(own + rest, [])) == sorted(sum(again, []))
        sys.exit(0 if good else 9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
rest = [batch.ids.tolist() for batch in batches]
assert sorted(sum(own + rest, [])) == list(range(len(loader.dataset)))
print("there", flush=True)
""",
}


@pytest.mark.processes
@pytest.mark.parametrize("how", ENDS)
def test_ends_cleanly(how: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3000.0).reshape(1000, 3))
    code, out, err = run_child(CHILD + ENDS[how], tmp_path)
    assert (code, out.strip(), err.strip()) == (0, "there", ""), (code, out, err)


def run_child(text: str, folder: Path) -> tuple[int, str, str]:
    process = start_child([sys.executable, "-c", text, str(folder / "x.npy")], env=_environment())
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, out, err


def _environment() -> dict[str, str]:
    import kinema

    return {**os.environ, "PYTHONPATH": str(Path(kinema.__file__).parent.parent)}


WAITING = """
import time
class Slow(SampleDataset):
    def read(self, ids, **options):
        if len(reads): time.sleep(1000)
        reads.append(1)
        return super().read(ids, **options)
reads = []
loader = Loader(Slow(sys.argv[1]), 4, memory="64 KiB", tensors=False)
try:
    for batch in loader:
        print("there", flush=True)
except KeyboardInterrupt:
    os._exit(7)
"""


@pytest.mark.processes
def test_ctrl_c_while_the_loop_waits(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((100, 3)))
    process = start_child([sys.executable, "-c", CHILD + WAITING, str(tmp_path / "x.npy")], env=_environment())
    try:
        assert process.stdout is not None and process.stdout.readline().strip() == "there"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 7
