"""Splits of a data set into parts for training, validation and tests, between which nothing leaks.

A split is by whole trajectories (or groups of them), by compositions, or by blocks of time with a gap between parts. It
depends on the seed alone: parts are drawn by BLAKE2b of seed and number, so that any program, and any version of NumPy,
draws the same parts.

A split is stored as JSON:

    {"kinema_split": 1, "method": "trajectory", "seed": 0, "n_samples": 600, "settings": {...},
     "data": {"fingerprint": "...", "samples": null, "files": [["a.npz", "..."], ...], "fields": ["x"]},
     "parts": {"train": [[0, 200], [400, 600]], "test": [[200, 400]]}}

where [a, b] are the samples from a up to, and without, b. "data" identifies the data set by the content of its files;
splits of earlier versions do not have it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.base.input_files import read_regular
from kinema.base.notes import emit
from kinema.ml.compositions import compositions
from kinema.ml.dataset import Dataset, Subset
from kinema.ml.fingerprint import DataIdentity
from kinema.ml.samples import SampleDataset
from kinema.storage.output_checks import check_remade
from kinema.storage.output_file import write_whole

_VERSION = 1
_LARGEST = 1 << 30
# 8 GiB of numbers
_MOST_SAMPLES = 1 << 30
FRACTIONS: Mapping[str, float] = {"train": 0.8, "validation": 0.1, "test": 0.1}


@dataclass(frozen=True, eq=False)
class DataSplit:
    """Parts of a data set by name.

    Attributes
    ----------
    parts : dict of (n,) int64
        Sample numbers of each part by its name, ascending. No sample is in two parts.
    n_samples : int
        Samples of the data set. Samples in gaps are in no part.
    method : "trajectory", "composition" or "time"
    seed : int
    settings : dict
        Arguments that the split was made with.
    data : identity of the data set, or None
        None if it is not known, as in files of earlier versions.
    """

    parts: Mapping[str, NDArray[np.int64]]
    n_samples: int
    method: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: DataIdentity | None = None

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        """(n,) samples of a part. Raises KeyError if there is no such part."""
        return self.parts[name]

    def of(self, dataset: Dataset, name: str) -> Subset:
        """Returns a part as a data set.

        If data set and split cannot be compared, because the split is of an earlier version or the data set of another
        class, a note says so.

        Parameters
        ----------
        dataset : Dataset
            The data set that was split; copies of its files count as the same.
        name : str
            Name of the part.

        Returns
        -------
        Subset

        Raises
        ------
        ArgumentError
            If the split is of another data set.
        KeyError
            If there is no such part.
        """
        now = None if self.data is None else DataIdentity.from_dataset(dataset)
        if self.data is not None and now is not None and (difference := self.data.difference(now)):
            raise ArgumentError(f"the split is of another data set: {difference}")
        if len(dataset) != self.n_samples:
            raise ArgumentError(f"the split is of {self.n_samples} samples, the data set has {len(dataset)}")
        if self.data is None or now is None:
            emit(["whether the split is of this data set cannot be compared: the number of samples alone is the same"])
        return Subset(dataset, self.parts[name])

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the split to a JSON file, whole or not at all.

        Parameters
        ----------
        path : path
        overwrite : bool
            Replace a file that Kinema did not write.

        Raises
        ------
        ArgumentError, FileAccessError, FileIOError
        """
        check_remade(path, overwrite=overwrite)
        parts = {name: _runs(ids) for name, ids in self.parts.items()}
        content = {
            "kinema_split": _VERSION,
            "method": self.method,
            "seed": self.seed,
            "n_samples": self.n_samples,
            "settings": dict(self.settings),
            "data": None if self.data is None else self.data.to_json(),
            "parts": parts,
        }
        text = json.dumps(content) + "\n"
        write_whole(path, lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DataSplit:
        """Reads a split from a file.

        Raises
        ------
        FileNotFound, FileAccessError, CorruptFileError
        """
        name = os.fspath(path)
        try:
            content = json.loads(read_regular(name, "split", _LARGEST))
            if content["kinema_split"] != _VERSION:
                raise ValueError(f"version {content['kinema_split']}, expected {_VERSION}")
            n, parts = int(content["n_samples"]), content["parts"]
            ids = {key: _samples(runs, n) for key, runs in parts.items()}
            if len(np.unique(np.concatenate([*ids.values(), []]))) != sum(map(len, ids.values())):
                raise ValueError("a sample is in two parts")
            data = None if content.get("data") is None else DataIdentity.from_json(content["data"])
            return cls(ids, n, str(content["method"]), int(content["seed"]), content["settings"], data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptFileError(f"no split of a data set: {error}", at=name) from None

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {len(ids)}" for name, ids in self.parts.items())
        return f"<DataSplit by {self.method} of {self.n_samples} samples: {parts}>"


def split_by_trajectory(
    dataset: Dataset,
    fractions: Mapping[str, float] = FRACTIONS,
    *,
    seed: int = 0,
    groups: Sequence[Hashable] | None = None,
) -> DataSplit:
    """Assigns whole trajectories to parts, which get about `fractions` of the samples.

    The trajectories of a `SampleDataset` are the files that its samples come from (`SampleDataset.sources`), in order:
    the files from which `kinema.ml.convert` has made the archive, otherwise the files themselves.

    Parameters
    ----------
    dataset : Dataset
    fractions : mapping of name to number above 0, optional
        Shares of the parts; by default train 0.8, validation 0.1, test 0.1. Divided by their sum.
    seed : int
    groups : (trajectories,) hashable objects, optional
        Group of each trajectory, such as its protein: all of a group go to one part.

    Returns
    -------
    DataSplit

    Raises
    ------
    ArgumentError
        If there are fewer groups than parts, or a fraction is not above 0.
    """
    shares = _shares(fractions)
    samples = _group_by_trajectory(dataset)
    n = len(samples)
    keys = list(range(n)) if groups is None else list(groups)
    if len(keys) != n:
        raise ArgumentError(f"groups has one for each of {n} trajectories, found {len(keys)}")
    members: dict[Hashable, list[NDArray[np.int64]]] = {}
    for key, own in zip(keys, samples, strict=True):
        members.setdefault(key, []).append(own)
    parts = _whole_groups(list(members.values()), shares, seed, "trajectories or groups", "split by time instead")
    settings = {"fractions": dict(fractions), "groups": None if groups is None else len(members)}
    return _split(parts, dataset, "trajectory", seed, settings)


def split_by_composition(
    dataset: Dataset,
    fractions: Mapping[str, float] = FRACTIONS,
    *,
    field: str = "atomic_numbers",
    seed: int = 0,
) -> DataSplit:
    """Assigns all samples of a formula to one part; the parts get about `fractions` of the samples.

    Samples with the same atoms in any order, such as conformers and isomers, have the same formula. Frames have the
    atomic numbers of their trajectory.

    Parameters
    ----------
    dataset : Dataset
    fractions : mapping of name to number above 0, optional
        Shares of the parts, as for `split_by_trajectory`.
    field : str
        For archives, the array with the atomic numbers: (samples, atoms) whole numbers, with 0 for no atom. It need not
        be among the fields of the data set.
    seed : int

    Returns
    -------
    DataSplit

    Raises
    ------
    ArgumentError
        If there are fewer formulas than parts, a fraction is not above 0, or the atomic numbers are not known; as
        `SampleDataset` if the array is not there.
    """
    shares = _shares(fractions)
    names, number = compositions(dataset, field)
    ends = np.cumsum(np.bincount(number, minlength=len(names)))
    members = [[own] for own in np.split(np.argsort(number, kind="stable"), ends[:-1])] if names else []
    parts = _whole_groups(members, shares, seed, "formulas", "split otherwise")
    return _split(parts, dataset, "composition", seed, {"fractions": dict(fractions), "formulas": len(names)})


def split_by_time(
    dataset: Dataset,
    fractions: Mapping[str, float] = FRACTIONS,
    *,
    gap: float = 0.0,
    blocks: int = 10,
    seed: int = 0,
) -> DataSplit:
    """Assigns blocks of consecutive samples of each trajectory to parts.

    Samples nearer than `gap` to another part are in no part. A pair with a lag extends from its first frame to its
    second; neither frame is nearer than `gap` to a frame of another part.

    Parameters
    ----------
    dataset : Dataset
    fractions : mapping of name to number above 0, optional
        Shares of the parts, as for `split_by_trajectory`; their sum is at most 1.
    gap : float
        In ps for a `FrameDataset`, in samples for others.
    blocks : int
        Blocks of each trajectory.
    seed : int

    Returns
    -------
    DataSplit

    Raises
    ------
    ArgumentError
        If the fractions sum to more than 1, a trajectory has fewer samples than `blocks`, there are fewer blocks than
        parts, or a part is left without samples.

    Examples
    --------
    >>> frames = kinema.ml.FrameDataset("md.xtc")
    >>> split = kinema.ml.split_by_time(frames, {"train": 0.8, "test": 0.2}, gap=100.0, blocks=10)
    >>> train, test = split.of(frames, "train"), split.of(frames, "test")
    """
    shares = _shares(fractions)
    total = sum(fractions.values())
    if total > 1.0 + 1e-9:
        raise ArgumentError(f"fractions of the samples sum to at most 1, found {total:g} of {dict(fractions)}")
    if not (math.isfinite(gap) and gap >= 0):
        raise ArgumentError(f"gap must be 0 or above, found {gap:g}")
    if blocks < len(shares):
        raise ArgumentError(f"{blocks} blocks cannot be divided into {len(shares)} parts")
    first, last = _spans(dataset)
    if np.isnan(first).any() or np.isnan(last).any():
        raise ArgumentError("samples have no times; open the trajectories with dt= (--timestep)")
    bounds = dataset.bounds
    parts: dict[str, list[NDArray[np.int64]]] = {name: [] for name in shares}
    n_blocks = blocks * (len(bounds) - 1)
    order = np.argsort(_drawn(n_blocks, seed))
    chosen = _assigned([1] * n_blocks, shares)
    for number, (begin, end) in enumerate(pairwise(bounds)):
        if end - begin < blocks:
            raise ArgumentError(f"trajectory {number} has {end - begin} samples, fewer than {blocks} blocks")
        in_time = begin + np.argsort(first[begin:end], kind="stable")
        reached: dict[str, float] = {}
        for block, ids in enumerate(np.array_split(in_time, blocks)):
            part = chosen[order[number * blocks + block]]
            before = max((until for name, until in reached.items() if name != part), default=-math.inf)
            kept = ids[(first[ids] > before) & (first[ids] - before >= gap)]
            if len(kept):
                parts[part].append(kept)
                reached[part] = max(reached.get(part, -math.inf), float(last[kept].max()))
    empty = [name for name, ids in parts.items() if not ids]
    if empty:
        raise ArgumentError(f"nothing is left for {', '.join(empty)}: give fewer or other blocks=, or a smaller gap=")
    return _split(parts, dataset, "time", seed, {"fractions": dict(fractions), "gap": gap, "blocks": blocks})


def _group_by_trajectory(dataset: Dataset) -> list[NDArray[np.int64]]:
    """The samples of each trajectory, in their order; for a part, of the trajectories that it has samples of."""
    whole, ids = dataset.root()
    if isinstance(whole, SampleDataset):
        files, of = whole.sources()
        n, number = len(files), of[ids]
    else:
        n, number = len(whole.bounds) - 1, np.searchsorted(whole.bounds, ids, side="right") - 1
    ends = np.cumsum(np.bincount(number, minlength=n))
    found = np.split(np.argsort(number, kind="stable"), ends[:-1])
    return [one for one in found if len(one) or len(ids) == len(whole)]


def _spans(dataset: Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    times = getattr(dataset, "times", None)
    if times is None:
        numbers = np.arange(len(dataset), dtype=np.float64)
        return numbers, numbers
    return times[0], times[1]


def _shares(fractions: Mapping[str, float]) -> dict[str, float]:
    shares = {str(name): float(share) for name, share in fractions.items()} if isinstance(fractions, Mapping) else {}
    if not shares or any(not (math.isfinite(share) and share > 0) for share in shares.values()):
        raise ArgumentError(f"fractions are numbers above 0 by the names of parts, found {fractions!r}")
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def _whole_groups(
    groups: Sequence[list[NDArray[np.int64]]], shares: Mapping[str, float], seed: int, what: str, instead: str
) -> dict[str, list[NDArray[np.int64]]]:
    """Assigns groups of samples to parts, drawn by the seed and their order.

    Raises ArgumentError if there are fewer groups than parts.
    """
    if len(groups) < len(shares):
        raise ArgumentError(f"{len(groups)} {what} cannot be divided into {len(shares)} parts; {instead}")
    drawn = [groups[at] for at in _drawn(len(groups), seed)]
    parts: dict[str, list[NDArray[np.int64]]] = {name: [] for name in shares}
    for group, part in zip(drawn, _assigned([sum(map(len, group)) for group in drawn], shares), strict=True):
        parts[part] += group
    return parts


def _drawn(n: int, seed: int) -> list[int]:
    """The numbers below `n` in an order drawn by the seed."""
    return sorted(range(n), key=lambda number: blake2b(f"{seed}:{number}".encode(), digest_size=16).digest())


def _assigned(sizes: Sequence[int], shares: Mapping[str, float]) -> list[str]:
    """A part for each size, in order: the part that lacks most of its share; each part gets at least one."""
    names = list(shares)
    have = dict.fromkeys(names, 0)
    total, chosen = sum(sizes), list[str]()
    for at, size in enumerate(sizes):
        without = [name for name in names if name not in chosen]
        open_parts = without if len(without) >= len(sizes) - at else names
        part = max(open_parts, key=lambda name: shares[name] * total - have[name])
        have[part] += size
        chosen.append(part)
    return chosen


def _split(
    parts: Mapping[str, list[NDArray[np.int64]]], dataset: Dataset, method: str, seed: int, settings: dict[str, Any]
) -> DataSplit:
    joined = {name: np.sort(np.concatenate(ids)).astype(np.int64) for name, ids in parts.items()}
    return DataSplit(joined, len(dataset), method, seed, settings, DataIdentity.from_dataset(dataset))


def _runs(ids: NDArray[np.int64]) -> list[list[int]]:
    if not len(ids):
        return []
    edges = np.flatnonzero(np.diff(ids) != 1) + 1
    return [[int(run[0]), int(run[-1]) + 1] for run in np.split(ids, edges)]


def _samples(runs: Any, n: int) -> NDArray[np.int64]:
    for start, stop in runs:
        if not (isinstance(start, int) and isinstance(stop, int) and 0 <= start < stop <= n):
            raise ValueError(f"samples {start} to {stop} of {n}")
    total = sum(stop - start for start, stop in runs)
    if total > min(n, _MOST_SAMPLES):
        raise ValueError(f"a part of {total} samples, expected at most {min(n, _MOST_SAMPLES)}")
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(start, stop, dtype=np.int64) for start, stop in runs)])
