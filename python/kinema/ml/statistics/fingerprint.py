"""Fingerprints of data sets: by the content of their files where it is sampled, so that copies have the same."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np

from kinema import _core
from kinema.errors import ArgumentError
from kinema.ml.dataset import Dataset, Subset
from kinema.ml.frames import FrameDataset
from kinema.ml.samples import SampleDataset

__all__ = ["fingerprint", "innermost"]


def innermost(dataset: Dataset) -> Dataset:
    """The data set that subsets are of."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return dataset


def fingerprint(dataset: Dataset) -> str:
    """32 hexadecimal digits for the files of a data set, which samples of them there are, and labels in memory.

    The same for a part of it, for other types, and for copies of the files. Transforms are no part of it.
    ArgumentError for data sets of other classes.
    """
    whole = innermost(dataset)
    digest = blake2b(digest_size=16)
    if isinstance(whole, SampleDataset):
        _update(digest, ["samples", *_contents(whole.paths), *map(str, whole.bounds)])
    elif isinstance(whole, FrameDataset):
        _update(digest, ["frames", *_contents(whole.paths), *whole.facts()])
    else:
        raise ArgumentError(f"statistics are of a SampleDataset, a FrameDataset or a part of one, found {type(whole)}")
    return digest.hexdigest()


def samples_fingerprint(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> str:
    """The same for the samples of a part."""
    return blake2b(np.ascontiguousarray(numbers, "<i8").tobytes(), digest_size=16).hexdigest()


def _contents(paths: Iterable[str]) -> list[str]:
    known: dict[str, str] = {}
    for path in paths:
        if path not in known:
            known[path] = _core.FileIdentity.of(os.fspath(path)).fingerprint
    return [known[path] for path in paths]


def _update(digest: Any, words: Iterable[str]) -> None:
    for word in words:
        encoded = word.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
