"""Classes of other packages over data sets: deeptime's pairs of frames, NequIP's data set. Run by `make test-ml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.ml import FrameDataset, Loader, Order
from kinema.testing import random_walk, write_dcd

torch = pytest.importorskip("torch", reason="torch is not installed: make test-ml runs these tests")


@pytest.fixture
def trajectory(tmp_path: Path) -> kn.Trajectory:
    """60 frames of 7 atoms, 1 ps apart."""
    path = tmp_path / "walk.dcd"
    write_dcd(path, random_walk(60, 7))
    return kn.open(path, dt=1.0)


@pytest.mark.parametrize("lag", [1, 5])
def test_pairs_are_those_of_deeptime(trajectory: kn.Trajectory, lag: int) -> None:
    data = pytest.importorskip("deeptime.util.data")
    positions = trajectory.read().reshape(len(trajectory), -1)
    theirs = data.TrajectoryDataset(lag, positions)
    ours = FrameDataset(trajectory, lag=float(lag))
    assert len(ours) == len(theirs)
    order = Order(len(ours), 3)
    now, later = theirs[np.array(list(order))]
    batches = list(Loader(ours, 16, order=order, tensors=False))
    for name, expected in (("positions", now), ("positions_lagged", later)):
        found = np.concatenate([batch[name].reshape(len(batch.ids), -1) for batch in batches])
        assert found.dtype == expected.dtype and np.array_equal(found, expected)


def test_deeptime_learns_from_the_loader(trajectory: kn.Trajectory) -> None:
    decomposition = pytest.importorskip("deeptime.decomposition")
    pairs = FrameDataset(trajectory, lag=2.0, dtype="float64")
    covariances = pytest.importorskip("deeptime.covariance").Covariance(compute_c0t=True, compute_ctt=True)
    for batch in Loader(pairs, 16, order="stored", tensors=False):
        n = len(batch.ids)
        covariances.partial_fit((batch["positions"].reshape(n, -1), batch["positions_lagged"].reshape(n, -1)))
    values = trajectory.read(dtype="float64").reshape(60, -1)
    whole = pytest.importorskip("deeptime.covariance").Covariance(compute_c0t=True, compute_ctt=True)
    whole.fit((values[:-2], values[2:]))
    np.testing.assert_allclose(covariances.fetch_model().cov_0t, whole.fetch_model().cov_0t, rtol=1e-10)
    assert decomposition.VAMP(dim=2).fit_fetch(covariances.fetch_model()).singular_values.shape == (21,)


@pytest.mark.parametrize("order", ["random", "windowed"])
def test_frames_of_a_compressed_format(tmp_path: Path, trajectory: kn.Trajectory, order: str) -> None:
    path = tmp_path / "walk.h5md"
    kn.convert(trajectory, path)
    frames = FrameDataset([kn.open(path), trajectory], fields="positions")
    expected = np.concatenate([kn.open(path).read(), trajectory.read()])
    options: dict[str, Any] = {"window": 32, "lanes": 2} if order == "windowed" else {}
    seen = []
    for batch in Loader(frames, 9, order=order, tensors=True, **options):
        assert torch.equal(batch["positions"], torch.from_numpy(expected[batch.ids]))
        seen += batch.ids.tolist()
    assert sorted(seen) == list(range(120))


def test_a_data_set_of_nequip(trajectory: kn.Trajectory) -> None:
    dataset = pytest.importorskip("nequip.data.dataset")
    from nequip.data import AtomicDataDict, from_dict
    from nequip.data.transforms import NeighborListTransform

    class OverFrames(dataset.AtomicDataset):  # type: ignore[misc,name-defined]
        """Frames as NequIP has them; a batch is one read."""

        def __init__(self, frames: FrameDataset, numbers: Any, transforms: Any = ()) -> None:
            super().__init__(transforms=list(transforms))
            self.frames, self.numbers = frames, numbers

        def __len__(self) -> int:
            return len(self.frames)

        def _get_data_list(self, indices: Any) -> list[Any]:
            batch = self.frames.read(np.arange(len(self))[indices])
            return [
                from_dict({"pos": pos, "atomic_numbers": self.numbers, "total_energy": energy, "pbc": False})
                for pos, energy in zip(batch["positions"], batch["energy"], strict=True)
            ]

    steps = np.asarray(trajectory.steps)
    labels = {"step": steps, "energy": 0.25 * np.arange(60.0)}
    frames = FrameDataset(trajectory, fields=["positions", "energy"], labels=labels, dtype="float64")
    numbers = np.array([6, 1, 1, 8, 6, 1, 1])
    ours = OverFrames(frames, numbers, [NeighborListTransform(r_max=1e4)])
    loader = torch.utils.data.DataLoader(
        ours, batch_size=8, sampler=[5, 3, 59, 3, 0], collate_fn=AtomicDataDict.batched_from_list
    )
    (batch,) = loader
    expected = torch.from_numpy(trajectory.read(dtype="float64")[[5, 3, 59, 3, 0]].reshape(-1, 3))
    assert torch.equal(batch["pos"].to(torch.float64), expected.to(batch["pos"].dtype).to(torch.float64))
    assert batch["total_energy"].ravel().tolist() == [1.25, 0.75, 14.75, 0.75, 0.0]
    assert batch["edge_index"].shape == (2, 5 * 7 * 6) and batch["num_atoms"].tolist() == [7] * 5
