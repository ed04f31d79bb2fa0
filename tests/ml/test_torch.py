"""Data sets and loaders of Kinema with torch: its loaders under all start methods, resuming, ranks, Lightning.

Run by `make test-ml`, which makes an environment with torch; in others this file is skipped, and says so.
"""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import socket
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kinema.base.errors import WorkerError
from kinema.ml import FrameDataset, Loader, Order, SampleDataset
from kinema.testing.programs.children import start_child
from kinema.testing.writers import write_dcd

torch = pytest.importorskip("torch", reason="torch is not installed: make test-ml runs these tests")

from torch.utils.data import DataLoader, DistributedSampler  # noqa: E402

from kinema.ml.loading import tensors as shared  # noqa: E402
from kinema.ml.processes import ProcessLocal  # noqa: E402
from kinema.ml.torch import OrderSampler, TensorBatch, collate  # noqa: E402

N, WIDTH = 103, 5


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sample i is [i, i + 0.5, ...], in a file with chunks of several samples."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path_factory.mktemp("torch") / "train.h5"
    with h5py.File(path, "w") as file:
        values = np.arange(N)[:, None] + 0.5 * np.arange(WIDTH)
        file.create_dataset("x", data=values, chunks=(8, WIDTH), compression="gzip")
    return path


def checked(batches: Any) -> list[list[int]]:
    """Samples of batches of tensors, whose values are what they must be."""
    found = []
    for batch in batches:
        assert isinstance(batch["x"], torch.Tensor)
        ids = batch["x"][:, 0].to(torch.int64)
        expected = ids[:, None] + 0.5 * torch.arange(WIDTH, dtype=torch.float64)
        assert torch.equal(batch["x"], expected)
        found.append(ids.tolist())
    return found


# -- torch's loaders over the data set ---------------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("workers", [0, 2, 6])
def test_data_loader(path: Path, workers: int, method: str) -> None:
    dataset = SampleDataset(path)
    # opened here: what forked workers get is open
    dataset.read([0])
    order = Order(N, 4)
    loader = DataLoader(
        dataset,
        batch_size=16,
        sampler=OrderSampler(order),
        collate_fn=collate,
        num_workers=workers,
        multiprocessing_context=method if workers else None,
        persistent_workers=workers > 0,
        timeout=120 if workers else 0,
    )
    expected = [list(order)[start : start + 16] for start in range(0, N, 16)]
    assert checked(loader) == expected
    # workers that stay, with the order of another epoch
    loader.sampler.set_epoch(1)
    assert checked(loader) == [list(order.with_epoch(1))[start : start + 16] for start in range(0, N, 16)]


@pytest.mark.processes
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [8, None])
def test_data_loader_without_more_words(path: Path, workers: int, method: str, batch_size: int | None) -> None:
    """The line that everybody writes first: torch's own sampler and collation."""
    loader = DataLoader(
        SampleDataset(path),
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context=method if workers else None,
        timeout=120 if workers else 0,
    )
    if batch_size is None:
        found = [int(sample["x"][0]) for sample in loader]
    else:
        found = [one for batch in checked(loader) for one in batch]
    assert sorted(found) == list(range(N)) and found != list(range(N))


def sent(batch: Any) -> Any:
    """A batch as a worker sends it, received here."""
    return ForkingPickler.loads(ForkingPickler.dumps(batch))


def pickled(batch: Any) -> Any:
    return pickle.loads(pickle.dumps(batch))


@pytest.fixture
def pretend_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch answers `collate` as in a worker process, and the memory of batches is new."""
    monkeypatch.setattr("kinema.ml.torch.get_worker_info", lambda: SimpleNamespace(num_workers=2))
    monkeypatch.setattr(shared, "_BUFFERS", ProcessLocal(shared._new_buffers))


@pytest.mark.usefixtures("pretend_worker")
def test_memory_of_a_worker_is_read_into_again_when_nobody_refers_to_it(path: Path) -> None:
    dataset = SampleDataset(path)

    def place_of(batch: Any) -> int:
        return int(batch["x"].data_ptr())

    samples = dataset.__getitems__([1, 2])
    first = collate(samples)
    place = place_of(first)
    received = sent(first)
    del first
    row = received["x"][1]
    assert received.ids.tolist() == [1, 2] and row.data_ptr() != place
    del received
    # a part of a tensor is left
    second = collate(dataset.__getitems__([3, 4]))
    assert place_of(second) != place and row.tolist() == [2 + 0.5 * i for i in range(WIDTH)]
    del row
    third = collate(dataset.__getitems__([5, 6]))
    assert place_of(third) == place and checked([second, third]) == [[3, 4], [5, 6]]
    # memory of their own
    assert samples[1]["x"][0] == 2 and samples.batch.ids.tolist() == [1, 2]


@pytest.mark.usefixtures("pretend_worker")
def test_what_a_worker_makes_of_a_batch_is_what_is_received(path: Path) -> None:
    batch = collate(SampleDataset(path).__getitems__([7, 3, 5]))
    batch["twice"] = 2 * batch["x"]
    batch["part"] = batch["x"][1:]
    batch["of another shape"] = batch["x"].T
    batch["x"] += 1
    for again in (sent(batch), sent(sent(batch)), copy.copy(batch), copy.deepcopy(batch), pickled(batch)):
        assert isinstance(again, TensorBatch) and again.ids.tolist() == [7, 3, 5] and list(again) == list(batch)
        assert all(torch.equal(again[name], batch[name]) for name in batch)
        assert again["x"][:, 0].tolist() == [8, 4, 6]
    kept = pickle.dumps(batch)
    batch["x"] = batch["x"].to(torch.float32)
    assert sent(batch)["x"].dtype == torch.float32
    # what is pickled for other purposes has its own values
    place = sent(batch)["x"].data_ptr()
    del batch, again
    others = collate(SampleDataset(path).__getitems__([20, 21, 22]))
    assert place != others["x"].data_ptr() and pickle.loads(kept)["x"][:, 0].tolist() == [8, 4, 6]


@pytest.mark.usefixtures("pretend_worker")
def test_a_forked_process_does_not_give_memory_back(path: Path) -> None:
    dataset = SampleDataset(path)
    place = (batch := collate(dataset.__getitems__([1, 2])))["x"].data_ptr()
    received = [sent(batch)]
    del batch
    child = multiprocessing.get_context("fork").Process(target=received.clear)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert collate(dataset.__getitems__([3, 4]))["x"].data_ptr() != place and checked(received) == [[1, 2]]


def test_a_worker_that_has_ended_is_named() -> None:
    place = shared._LentArray(b"other", 3, os.getpid(), 1 << 20, 9, 0, "<f8", (1,))
    with pytest.raises(WorkerError, match=f"a batch cannot be had of process {os.getpid()}, which may have ended"):
        shared._received(np.array([0]), {"x": place})


@pytest.mark.processes
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_is_kept_of_workers_batches_stays_as_it_is(path: Path, method: str) -> None:
    loader = DataLoader(
        SampleDataset(path),
        batch_size=4,
        sampler=OrderSampler(Order(N, 3)),
        collate_fn=collate,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=True,
        timeout=120,
    )
    rows, before = [], set(shared._IDLE.get())
    for epoch in range(4):
        for batch in loader:
            if epoch < 3:
                rows.append((int(batch.ids[0]), batch["x"][0]))
            del batch
    # memory of each worker that is mapped here and not in use
    idle = shared._IDLE.get()
    workers = set(idle) - before
    assert len(workers) == 2 and 0 < max(len(idle[one]) for one in workers) <= 13
    del loader
    gc.collect()
    assert not workers & set(idle)
    for number, row in rows:
        assert row.tolist() == [number + 0.5 * i for i in range(WIDTH)]
    assert sorted({number for number, _ in rows}) == sorted(list(Order(N, 3))[::4])


def test_default_collation_of_frames(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", np.random.default_rng(0).random((10, 4, 3)).astype(np.float32))
    frames = FrameDataset(tmp_path / "a.dcd")
    found = torch.cat([batch["positions"] for batch in DataLoader(frames, batch_size=4)])
    assert torch.equal(found, torch.from_numpy(frames.read(range(10))["positions"]))


def test_a_batch_of_ours_is_not_emptied(path: Path) -> None:
    from torch.utils.data import default_convert

    batch = SampleDataset(path).read([3, 4])
    assert checked([default_convert(batch)]) == [[3, 4]]


def test_default_collation_of_single_samples(path: Path) -> None:
    class Single(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            self.samples = SampleDataset(path)

        def __len__(self) -> int:
            return len(self.samples)

        def __getitem__(self, index: int) -> Any:
            return self.samples[index]

    assert checked(DataLoader(Single(), batch_size=16)) == [[*range(s, min(s + 16, N))] for s in range(0, N, 16)]


def test_distributed_sampler(path: Path) -> None:
    dataset = SampleDataset(path)
    seen = []
    for rank in range(4):
        sampler = DistributedSampler(dataset, num_replicas=4, rank=rank, shuffle=True, seed=3)
        loader = DataLoader(dataset, batch_size=8, sampler=sampler, collate_fn=collate)
        seen += [one for batch in checked(loader) for one in batch]
    assert sorted(set(seen)) == list(range(N)) and len(seen) == 104


@pytest.mark.processes
@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_data_loader(path: Path, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    dataset = SampleDataset(path)

    def made() -> Any:
        return stateful.StatefulDataLoader(
            dataset, batch_size=16, sampler=OrderSampler(Order(N, 9)), collate_fn=collate, num_workers=workers
        )

    whole = checked(made())
    assert [one for batch in whole for one in batch] == list(Order(N, 9))
    for steps in (1, 3, 6):
        loader = made()
        iterator = iter(loader)
        for _ in range(steps):
            next(iterator)
        state = loader.state_dict()
        other = made()
        other.load_state_dict(state)
        assert checked(other) == whole[steps:]


# -- our loader --------------------------------------------------------------------------------------------------------


def test_loader_gives_tensors_over_the_buffers(path: Path) -> None:
    loader = Loader(SampleDataset(path), 16, seed=2)
    batches = list(loader)
    assert all(isinstance(batch, TensorBatch) for batch in batches)
    assert checked(batches) == [batch.ids.tolist() for batch in batches]
    assert [one for batch in batches for one in batch.ids.tolist()] == list(Order(N, 2))


def test_tensors_that_are_kept_are_not_overwritten(path: Path) -> None:
    loader = Loader(SampleDataset(path), 4, memory="1 MiB")
    rows = [(int(batch.ids[1]), batch["x"][1]) for _ in range(3) for batch in loader if len(batch.ids) > 1]
    for number, row in rows:
        assert row.tolist() == [number + 0.5 * i for i in range(WIDTH)]


def test_buffers_are_used_again_under_tensors(path: Path) -> None:
    places, dataset = set(), SampleDataset(path)
    # of six batches: with more all of this small epoch would be read before the first batch is free
    for batch in Loader(dataset, 4, memory=6 * 4 * dataset.sample_bytes):
        places.add(batch["x"].data_ptr())
        del batch
    assert len(places) < 26


def test_device_and_dtype(path: Path) -> None:
    loader = Loader(SampleDataset(path), 16, device="cpu", dtype=np.float32)
    assert {batch["x"].dtype for batch in loader} == {torch.float32}
    # a device that is not the CPU, and is there on every machine: it has shapes and no values
    meta = next(iter(Loader(SampleDataset(path), 16, device="meta")))
    assert meta["x"].device.type == "meta" and meta["x"].shape == (16, WIDTH) and len(meta.ids) == 16


def test_pinned_memory_for_a_device_of_cuda(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: what the loader asks of torch, with a device that copies when the event says so."""
    pinned: list[Any] = []
    copies: list[tuple[Any, Any]] = []
    complete = [False]
    empty = torch.empty

    def empty_pinned(*shape: Any, **options: Any) -> Any:
        wanted = options.pop("pin_memory", False)
        made = empty(*shape, **options)
        if wanted:
            pinned.append(made)
        return made

    def copy_to(tensor: Any, device: Any, non_blocking: bool = False) -> Any:
        assert device == torch.device("cuda", 1) and non_blocking
        copies.append((tensor, tensor.clone()))
        return copies[-1][1]

    class Event:
        def record(self, stream: Any) -> None:
            assert stream == "the stream of cuda:1"

        def query(self) -> bool:
            return complete[0]

    monkeypatch.setattr(torch, "empty", empty_pinned)
    monkeypatch.setattr(torch.Tensor, "to", copy_to)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"the stream of {device}")
    dataset = SampleDataset(path)
    loader = Loader(dataset, 4, device="cuda:1", memory=6 * 4 * dataset.sample_bytes)
    assert sum(len(batch.ids) for batch in loader) == N and len(copies) == 26
    places = [(one.data_ptr(), one.data_ptr() + one.numel()) for one in pinned]
    for tensor, as_it_was in copies:
        assert any(begin <= tensor.data_ptr() < end for begin, end in places)
        # none was read into while its copy was not complete
        assert torch.equal(tensor, as_it_was)
    allocated = len(pinned)
    assert allocated >= 26
    complete[0] = True
    copies.clear()
    for _ in range(2):
        for batch in loader:
            del batch
            copies.clear()
    assert len(pinned) < allocated + 26


@pytest.mark.processes
def test_loader_beside_workers_that_are_forked(path: Path) -> None:
    ours = iter(Loader(SampleDataset(path), 2, memory="1 KiB"))
    next(ours)
    theirs = DataLoader(
        SampleDataset(path),
        batch_size=8,
        collate_fn=collate,
        num_workers=2,
        multiprocessing_context="fork",
        timeout=120,
    )
    assert len(checked(theirs)) == 13
    assert len(checked(ours)) == 51


def test_states_are_saved_by_torch(path: Path, tmp_path: Path) -> None:
    loader = Loader(SampleDataset(path), 16, order="windowed", window=40, lanes=4, seed=3)
    whole = checked(loader)
    loader.set_epoch(0)
    for _, _batch in zip(range(2), loader, strict=False):
        pass
    torch.save(loader.state_dict(), tmp_path / "state.pt")
    other = Loader(SampleDataset(path), 16, order="windowed", window=40, lanes=4, seed=3)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert checked(other) == whole[2:]


TWO_RANKS = """
import sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from kinema.ml import Loader, SampleDataset

rank, port, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(5, 1, dtype=torch.float64))
loader = Loader(SampleDataset(path), 8, pad=True, seed=6)
assert (loader.rank, loader.ranks) == (rank, 2)
for epoch in range(2):
    for batch in loader:
        model.zero_grad()
        model(batch["x"]).mean().backward()
        both = [torch.zeros(8, dtype=torch.int64) for _ in range(2)]
        ids = torch.full((8,), -1)
        ids[: len(batch.ids)] = torch.from_numpy(batch.ids)
        dist.all_gather(both, ids)
        if rank == 0:
            places = torch.stack(both, 1).ravel()
            print(epoch, *places[places >= 0].tolist(), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.processes
def test_two_ranks_of_gloo(path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    import kinema

    environment = {**os.environ, "PYTHONPATH": str(Path(kinema.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    ranks = [
        start_child([sys.executable, "-c", TWO_RANKS, str(rank), port, str(path)], env=environment) for rank in range(2)
    ]
    try:
        found = [one.communicate(timeout=180) for one in ranks]
    finally:
        for one in ranks:
            one.kill()
    assert [one.returncode for one in ranks] == [0, 0], found
    lines = [[int(word) for word in line.split()] for line in found[0][0].splitlines()]
    for epoch in range(2):
        together = [one for line in lines if line[0] == epoch for one in line[1:]]
        # one sample of the beginning again, so that both ranks have as many
        order = list(Order(N, 6, epoch))
        assert together == [*order, order[0]]


# -- what is built on torch --------------------------------------------------------------------------------------------


def test_lightning(path: Path, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    seen: list[list[int]] = []

    class Model(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(WIDTH, 1, dtype=torch.float64)

        def training_step(self, batch: Any, number: int) -> Any:
            seen.append(batch["x"][:, 0].to(torch.int64).tolist())
            return self.layer(batch["x"]).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    def trainer(epochs: int) -> Any:
        return lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            # Lightning would replace our sampler with one of its own if there are several ranks
            use_distributed_sampler=False,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            default_root_dir=tmp_path,
        )

    trainer(2).fit(Model(), Loader(SampleDataset(path), 16, seed=8))
    epochs = [list(Order(N, 8, epoch)) for epoch in range(2)]
    assert [one for batch in seen for one in batch] == epochs[0] + epochs[1]
    seen.clear()
    theirs = DataLoader(SampleDataset(path), batch_size=16, sampler=OrderSampler(Order(N, 8)), collate_fn=collate)
    trainer(2).fit(Model(), theirs)
    assert [one for batch in seen for one in batch] == epochs[0] + epochs[1]
    seen.clear()
    # torch's own order and collation
    trainer(1).fit(Model(), DataLoader(SampleDataset(path), batch_size=16, shuffle=True))
    assert sorted(one for batch in seen for one in batch) == list(range(N))
