"""Splits of data sets: nothing leaks from one part into another, and other programs can read the file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base import errors
from kinema.ml import (
    DataSplit,
    FrameDataset,
    Loader,
    SampleDataset,
    Subset,
    split_by_composition,
    split_by_time,
    split_by_trajectory,
    statistics,
)
from kinema.ml.compositions import formula
from kinema.model.atom_table import Atoms
from kinema.testing.writers import write_dcd

PARTS = {"train": 0.6, "test": 0.2, "validation": 0.2}


def samples(folder: Path, lengths: list[int]) -> SampleDataset:
    for i, n in enumerate(lengths):
        np.save(folder / f"{i}.npy", np.full((n, 2), i))
    return SampleDataset([folder / f"{i}.npy" for i in range(len(lengths))])


def frames(folder: Path, lengths: list[int], lag: float | None = None) -> FrameDataset:
    random = np.random.default_rng(0)
    trajectories = []
    for i, n in enumerate(lengths):
        write_dcd(folder / f"{i}.dcd", random.random((n, 3, 3)).astype(np.float32))
        trajectories.append(kn.open(folder / f"{i}.dcd", dt=2.0))
    return FrameDataset(trajectories, lag=lag)


@pytest.mark.parametrize("seed", range(6))
def test_whole_trajectories_go_to_one_part(tmp_path: Path, seed: int) -> None:
    data = samples(tmp_path, [30, 10, 20, 5, 60, 12, 33, 20, 20, 7])
    split = split_by_trajectory(data, PARTS, seed=seed)
    assert sorted(np.concatenate(list(split.parts.values())).tolist()) == list(range(len(data)))
    files = [set(split.of(data, name).read(np.arange(len(split[name])))["samples"][:, 0]) for name in PARTS]
    assert sum(map(len, files)) == 10 and len(set.union(*files)) == 10
    for name, share in PARTS.items():
        assert abs(len(split[name]) / len(data) - share) < 0.3 and len(split[name])


def test_groups_stay_together(tmp_path: Path) -> None:
    data = samples(tmp_path, [4] * 12)
    groups = list("aabbccddeeff")
    split = split_by_trajectory(data, {"train": 2, "test": 1}, seed=3, groups=groups)
    of = {name: {groups[i // 4] for i in ids} for name, ids in split.parts.items()}
    assert not of["train"] & of["test"] and len(of["train"]) == 4 and len(of["test"]) == 2
    with pytest.raises(errors.ArgumentError, match="2 trajectories or groups cannot be divided into 3 parts"):
        split_by_trajectory(data, PARTS, groups=list("aaaaaabbbbbb"))


def test_samples_of_an_archive_are_divided_by_the_files_that_it_was_made_of(tmp_path: Path) -> None:
    data = samples(tmp_path, [8, 3, 5, 9, 4, 6])
    archive = tmp_path / "all.h5"
    kn.ml.convert([Path(path) for path in data.paths], archive, file_is_sample=False)
    made = SampleDataset(archive)
    assert len(made.bounds) == 2 and len(made) == len(data)
    expected = split_by_trajectory(data, {"train": 2, "test": 1}, seed=4)
    found = split_by_trajectory(made, {"train": 2, "test": 1}, seed=4)
    for name in ("train", "test"):
        np.testing.assert_array_equal(found[name], expected[name])
    groups = list("aabbcc")
    split = split_by_trajectory(made, {"train": 2, "test": 1}, seed=1, groups=groups)
    files = {name: set(made.origin(split[name])[0]) for name in split.parts}
    assert not files["train"] & files["test"] and sum(map(len, files.values())) == 6
    # of a part in another order no file is in two parts
    part = Subset(made, np.random.default_rng(1).permutation(len(made))[:20])
    split = split_by_trajectory(part, {"train": 2, "test": 1})
    files = {name: set(made.origin(part.ids[split[name]])[0]) for name in split.parts}
    assert not files["train"] & files["test"]
    assert sorted(np.concatenate([*split.parts.values()]).tolist()) == list(range(20))


MOLECULES = [[8, 1, 1], [1, 8, 1], [6, 8, 0], [7, 7, 0], [1, 0, 8], [8, 6, 8], [1, 1, 0]]
FORMULAS = ["H2O", "H2O", "CO", "N2", "HO", "CO2", "H2"]


def test_samples_of_a_formula_go_to_one_part(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    kinds = random.integers(len(MOLECULES), size=200)
    for file, own in enumerate(np.split(kinds, [80])):
        np.savez(tmp_path / f"{file}.npz", x=random.random((len(own), 2)), z=np.array(MOLECULES, np.uint8)[own])
    data = SampleDataset([tmp_path / "0.npz", tmp_path / "1.npz"], fields="x")
    split = split_by_composition(data, {"train": 2, "test": 1}, field="z", seed=1)
    of = {name: {FORMULAS[kind] for kind in kinds[ids]} for name, ids in split.parts.items()}
    assert not of["train"] & of["test"] and of["train"] | of["test"] == set(FORMULAS)
    assert sorted(np.concatenate([*split.parts.values()]).tolist()) == list(range(200))
    assert abs(len(split["test"]) / 200 - 1 / 3) < 0.15
    # which formula goes where does not depend on the order of the samples; numbers are those of the part
    part = Subset(data, random.permutation(200)[:150])
    again = split_by_composition(part, {"train": 2, "test": 1}, field="z", seed=1)
    of = {name: {FORMULAS[kind] for kind in kinds[part.ids[ids]]} for name, ids in again.parts.items()}
    assert not of["train"] & of["test"] and of["train"] | of["test"] == set(FORMULAS)
    split.save(tmp_path / "split.json")
    assert len(DataSplit.load(tmp_path / "split.json").of(data, "test")) == len(split["test"])


def test_frames_of_a_formula_go_to_one_part(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    opened = []
    for number, elements in enumerate(["OHH", "COO", "HOH", "NNO", "HHO"]):
        write_dcd(tmp_path / f"{number}.dcd", random.random((6, 3, 3)).astype(np.float32))
        opened.append(kn.open(tmp_path / f"{number}.dcd", dt=1.0, topology=Atoms(3, elements=list(elements))))
    data = FrameDataset(opened, fields=["positions", "atomic_numbers"])
    split = split_by_composition(data, {"train": 1, "test": 1})
    of = {name: set((ids // 6).tolist()) for name, ids in split.parts.items()}
    assert sorted(of["train"] | of["test"]) == [0, 1, 2, 3, 4] and of["train"] and of["test"]
    assert {0, 2, 4} <= of["train"] or {0, 2, 4} <= of["test"]
    with pytest.raises(errors.ArgumentError, match="which are not known here"):
        split_by_composition(FrameDataset(opened), {"train": 1, "test": 1})


def test_compositions_that_are_none(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz", x=np.zeros((4, 3)), z=np.array([[1, 8], [1, 0], [6, 200], [1, 1]]), one=np.full((4, 1), 6)
    )
    data = SampleDataset(tmp_path / "a.npz")
    with pytest.raises(errors.ArgumentError, match=r"z of sample 2, atom 2: expected .* up to 118.* found 200"):
        split_by_composition(data, field="z")
    with pytest.raises(errors.ArgumentError, match=r"found x of shape \(3,\) and type float64"):
        split_by_composition(data, field="x")
    with pytest.raises(errors.ArgumentError, match="1 formulas cannot be divided into 3 parts"):
        split_by_composition(data, field="one")
    with pytest.raises(errors.Error, match="atomic_numbers"):
        split_by_composition(data)


def test_formulas_are_written_as_hill_has_them() -> None:
    for numbers, expected in (([1, 6, 1, 1, 17], "CH3Cl"), ([17, 1], "ClH"), ([0, 8, 6, 8], "CO2"), ([], "")):
        assert formula(np.array(numbers, np.int64)) == expected


@pytest.mark.parametrize("lag", [None, 6.0])
@pytest.mark.parametrize("gap", [0.0, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_time_have_a_gap_between_parts(tmp_path: Path, lag: float | None, gap: float, seed: int) -> None:
    data = frames(tmp_path, [150, 90], lag)
    split = split_by_time(data, PARTS, gap=gap, blocks=6, seed=seed)
    first, last = data.times
    part = np.full(len(data), -1)
    for number, ids in enumerate(split.parts.values()):
        assert (part[ids] == -1).all()
        part[ids] = number
    assert set(part) >= {0, 1, 2}
    for begin, end in zip(data.bounds[:-1], data.bounds[1:], strict=True):
        here = np.arange(begin, end)
        for number in range(3):
            own, others = here[part[here] == number], here[(part[here] != number) & (part[here] >= 0)]
            # the time between the spans of any two samples of different parts; below 0 where they overlap
            apart = np.maximum(first[others][:, None] - last[own], first[own] - last[others][:, None])
            assert (apart > 0).all() and (apart >= gap).all()
    if gap == 0 and lag is None:
        assert (part >= 0).all()
    else:
        assert 0 < (part == -1).sum() < len(data) / 2


def test_a_split_is_the_same_anywhere_and_is_read_back(tmp_path: Path) -> None:
    data = samples(tmp_path, [10] * 6)
    split = split_by_trajectory(data, {"train": 0.5, "test": 0.5}, seed=7)
    # drawn by hash: neither machine nor version of NumPy changes it
    assert {name: sorted({int(i) // 10 for i in ids}) for name, ids in split.parts.items()} == GOLDEN
    assert not np.array_equal(split["train"], split_by_trajectory(data, {"train": 0.5, "test": 0.5}, seed=8)["train"])
    path = tmp_path / "split.json"
    split.save(path)
    read = DataSplit.load(path)
    for name in split.parts:
        np.testing.assert_array_equal(read[name], split[name])
    plain = json.loads(path.read_text())
    assert plain["kinema_split"] == 1 and plain["n_samples"] == 60
    ranges = [i for start, stop in plain["parts"]["test"] for i in range(start, stop)]
    assert ranges == split["test"].tolist() and len(json.dumps(plain["parts"])) < 100
    with pytest.raises(errors.ArgumentError, match="another data set: expected 6 files, found 5"):
        read.of(samples(tmp_path, [10] * 5), "train")


GOLDEN = {"train": [0, 1, 3], "test": [2, 4, 5]}


@pytest.mark.parametrize(
    "change",
    [
        {"kinema_split": 2},
        {"parts": {"train": [[0, 70]]}},
        {"parts": {"train": [[0, 5]], "test": [[4, 6]]}},
        {"parts": {"train": [[5, 5]]}},
        {"parts": [1]},
    ],
)
def test_a_damaged_file_is_an_error(tmp_path: Path, change: dict[str, object]) -> None:
    split_by_trajectory(samples(tmp_path, [10] * 6), {"train": 0.5, "test": 0.5}).save(tmp_path / "split.json")
    content = json.loads((tmp_path / "split.json").read_text()) | change
    (tmp_path / "split.json").write_text(json.dumps(content))
    with pytest.raises(errors.CorruptFileError, match=r"split\.json: no split of a data set"):
        DataSplit.load(tmp_path / "split.json")


def test_what_cannot_be_split(tmp_path: Path) -> None:
    data = samples(tmp_path, [5, 50])
    with pytest.raises(errors.ArgumentError, match="fewer than 10 blocks"):
        split_by_time(data)
    for fractions in ({"train": 0}, (0.8, 0.2)):
        with pytest.raises(errors.ArgumentError, match="fractions are numbers above 0"):
            split_by_time(data, fractions)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match=r"sum to at most 1, found 1\.1"):
        split_by_time(data, {"train": 0.8, "test": 0.3})
    split_by_time(data, {"train": 0.7, "valid": 0.2, "test": 0.1}, blocks=5)
    with pytest.raises(errors.ArgumentError, match="nothing is left for"):
        split_by_time(samples(tmp_path, [20]), {"a": 0.9, "b": 0.1}, gap=30)


def _reordered(folder: Path) -> SampleDataset:
    return SampleDataset([folder / f"{i}.npy" for i in (0, 2, 1, 3)])


def _rewritten(folder: Path) -> SampleDataset:
    np.save(folder / "1.npy", np.full((5, 2), 9))
    return SampleDataset([folder / f"{i}.npy" for i in range(4)])


def _replaced(folder: Path) -> SampleDataset:
    np.save(folder / "other.npy", np.full((5, 2), 9))
    return SampleDataset([folder / name for name in ("0.npy", "other.npy", "2.npy", "3.npy")])


def _divided_otherwise(folder: Path) -> SampleDataset:
    np.save(folder / "long.npy", np.full((10, 2), 2))
    return SampleDataset([folder / name for name in ("0.npy", "1.npy", "long.npy")])


OTHER_DATA = [
    (_reordered, "file 2: expected .*1.npy, found .*2.npy"),
    (_rewritten, "file 2: expected .*1.npy, found the same path with other content"),
    (_replaced, "file 2: expected .*1.npy, found .*other.npy"),
    (_divided_otherwise, "file 3: expected .*2.npy, found .*long.npy"),
    (lambda folder: Subset(samples(folder, [5] * 4), np.arange(20)[::-1]), "another part of their samples"),
]


@pytest.mark.parametrize(("other", "named"), OTHER_DATA)
@pytest.mark.parametrize("kept", [False, True])
def test_a_split_refuses_another_data_set(tmp_path: Path, other: Any, named: str, kept: bool) -> None:
    split = split_by_trajectory(samples(tmp_path, [5] * 4), {"train": 3, "test": 1})
    if kept:
        split.save(tmp_path / "split.json")
        split = DataSplit.load(tmp_path / "split.json")
    data = other(tmp_path)
    for use in (lambda: split.of(data, "test"), lambda: statistics(data, split=split, part="test")):
        with pytest.raises(errors.ArgumentError, match=f"the split is of another data set: .*{named}"):
            use()


@pytest.mark.parametrize("kept", [False, True])
def test_splits_and_states_are_of_the_arrays_that_were_read(tmp_path: Path, kept: bool) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(20.0), b=np.arange(20.0)[::-1], c=np.zeros(20))
    data = SampleDataset(path, fields=["a", "c"])
    # chunks of neighbours follow from the bytes of a sample
    options: dict[str, Any] = {"order": "windowed", "tensors": False}
    split, state = split_by_time(data, {"train": 0.75, "test": 0.25}), Loader(data, 4, **options).state_dict()
    if kept:
        split.save(tmp_path / "split.json")
        split, state = DataSplit.load(tmp_path / "split.json"), json.loads(json.dumps(state))
    # the same samples: one array of them less, or another beside
    for fields in (["c", "a"], ["a"], ["c", "b"], None):
        same = SampleDataset(path, fields=fields)
        assert len(split.of(same, "train")) == len(split["train"])
        loader = Loader(same, 4, **options)
        loader.load_state_dict(state)
        assert loader.state_dict()["order"] == state["order"]
    other = SampleDataset(path, fields="b")
    named = "another data set: the files are the same, the fields have no array in common: expected a, c, found b"
    with pytest.raises(errors.ArgumentError, match=f"the split is of {named}"):
        split.of(other, "train")
    with pytest.raises(errors.ArgumentError, match=f"the state is of {named}"):
        Loader(other, 4, **options).load_state_dict(state)


def test_a_split_of_frames_refuses_another_order_of_trajectories(tmp_path: Path) -> None:
    split = split_by_time(frames(tmp_path, [40, 40]), {"train": 0.75, "test": 0.25}, blocks=4)
    assert len(split.of(frames(tmp_path, [40, 40]), "test")) == len(split["test"])
    other = FrameDataset([kn.open(tmp_path / f"{i}.dcd", dt=2.0) for i in (1, 0)])
    with pytest.raises(errors.ArgumentError, match=r"file 1: expected .*0.dcd, found .*1.dcd"):
        split.of(other, "test")


def test_a_split_takes_copies_of_the_files(tmp_path: Path) -> None:
    data = samples(tmp_path, [5] * 4)
    split = split_by_trajectory(data, {"train": 3, "test": 1})
    shutil.copytree(tmp_path, tmp_path / "copy")
    copy = SampleDataset([tmp_path / "copy" / f"{i}.npy" for i in range(4)])
    for name in split.parts:
        every = np.arange(len(split[name]))
        np.testing.assert_array_equal(split.of(copy, name).read(every)["samples"], data.read(split[name])["samples"])


def test_a_split_of_a_part_is_of_that_part(tmp_path: Path) -> None:
    data = samples(tmp_path, [5] * 4)
    part = Subset(data, np.arange(5, 20))
    split = split_by_trajectory(part, {"train": 2, "test": 1})
    assert len(split.of(Subset(Subset(data, np.arange(1, 20)), np.arange(4, 19)), "test")) == 5
    with pytest.raises(errors.ArgumentError, match="another part of their samples"):
        split.of(Subset(data, np.arange(15)), "test")


def test_a_split_of_an_earlier_version_is_noted(tmp_path: Path) -> None:
    data = samples(tmp_path, [5] * 4)
    split_by_trajectory(data, {"train": 3, "test": 1}).save(tmp_path / "split.json")
    content = json.loads((tmp_path / "split.json").read_text())
    del content["data"]
    (tmp_path / "split.json").write_text(json.dumps(content))
    with pytest.warns(match="cannot be compared"):
        assert len(DataSplit.load(tmp_path / "split.json").of(data, "test")) == 5
