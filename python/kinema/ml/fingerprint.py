"""Fingerprints of data sets, from samples of the content of their files, so that copies have the same fingerprint."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.ml.dataset import Dataset, Subset
from kinema.ml.frames import FrameDataset
from kinema.ml.samples import SampleDataset


def innermost(dataset: Dataset) -> Dataset:
    """The data set at the bottom of nested subsets."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return dataset


def fingerprint(dataset: Dataset) -> str:
    """Fingerprint of a data set, 32 hexadecimal digits: its files, the samples in them, and labels in memory.

    A part of the data set, other types, and copies of the files have the same fingerprint. Transforms do not count.
    Raises ArgumentError for data sets of other classes.
    """
    whole = innermost(dataset)
    if not isinstance(whole, SampleDataset | FrameDataset):
        raise ArgumentError(f"statistics are of a SampleDataset, a FrameDataset or a part of one, found {type(whole)}")
    return _fingerprint(whole, _contents(whole.paths), values=True)


def _fingerprint(whole: SampleDataset | FrameDataset, contents: Iterable[str], *, values: bool) -> str:
    """`values`: whether atoms, transforms and labels of frames count, which do not change what the samples are."""
    digest = blake2b(digest_size=16)
    if isinstance(whole, SampleDataset):
        _update(digest, ["samples", *contents, *map(str, whole.bounds)])
    else:
        _update(digest, ["frames", *contents, *(whole.facts() if values else whole.numbering())])
    return digest.hexdigest()


@dataclass(frozen=True)
class DataIdentity:
    """The samples of a data set, with its files, so that a difference can be named. Copies of files count as the same.

    `fingerprint`: as `fingerprint` returns it, but without atoms, transforms and labels of frames.
    `samples`: fingerprint of the samples of a `Subset`, as from `samples_fingerprint`; None for a whole data set.
    `files`: pairs of path and content, in their order.
    `fields`: arrays of archives, whose rows are the samples; None for frames, which are the same whatever is read of
        them.
    """

    fingerprint: str
    samples: str | None
    files: tuple[tuple[str, str], ...]
    fields: tuple[str, ...] | None

    @classmethod
    def from_dataset(cls, dataset: Dataset) -> DataIdentity | None:
        """Identity of a data set with its files as they are now; None if its class has no fingerprint."""
        whole, ids = dataset.root()
        if not isinstance(whole, SampleDataset | FrameDataset):
            return None
        is_part = not np.array_equal(ids, np.arange(len(whole)))
        contents = _contents(whole.paths)
        files = tuple(zip(map(os.fspath, whole.paths), contents, strict=True))
        samples = samples_fingerprint(ids) if is_part else None
        fields = whole.fields if isinstance(whole, SampleDataset) else None
        return cls(_fingerprint(whole, contents, values=False), samples, files, fields)

    @classmethod
    def from_json(cls, content: Any) -> DataIdentity:
        """The inverse of `to_json`. Raises ValueError, KeyError or TypeError for other content."""
        files = tuple((path, found) for path, found in content["files"])
        samples = content["samples"]
        fields = None if content["fields"] is None else tuple(content["fields"])
        texts = [content["fingerprint"], samples or "", *(text for file in files for text in file), *(fields or ())]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("the identity of the data is not text")
        return cls(content["fingerprint"], samples, files, fields)

    def to_json(self) -> dict[str, Any]:
        """The identity in the form that `from_json` takes."""
        return {
            "fingerprint": self.fingerprint,
            "samples": self.samples,
            "files": [list(file) for file in self.files],
            "fields": None if self.fields is None else list(self.fields),
        }

    def difference(self, now: DataIdentity) -> str | None:
        """The first difference of `now`; None if it is the same data.

        Data sets that share an array have the same samples; those without an array in common need not.
        """
        pairs = zip(self.files, now.files, strict=False)
        for number, ((path, content), (path_now, content_now)) in enumerate(pairs):
            if content != content_now:
                other = "the same path with other content" if path == path_now else path_now
                return f"file {number + 1}: expected {path}, found {other}"
        if len(self.files) != len(now.files):
            return f"expected {len(self.files)} files, found {len(now.files)}"
        if self.fingerprint != now.fingerprint:
            return "the files are the same, the samples that are made of them differ"
        if self.fields is not None and now.fields is not None and not set(self.fields) & set(now.fields):
            expected, found = ", ".join(self.fields), ", ".join(now.fields)
            return f"the files are the same, the fields have no array in common: expected {expected}, found {found}"
        if self.samples != now.samples:
            return "the files are the same, it is another part of their samples"
        return None


def samples_fingerprint(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> str:
    """Fingerprint of the samples of a part."""
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
