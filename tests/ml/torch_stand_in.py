"""A stand-in for torch's `DataLoader`: asks a data set for samples as torch's fetcher does, and collates them likewise.

test_torch.py has the same tests with torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["batches", "default_collate"]


def batches(
    dataset: Any, size: int, *, shuffle: bool = False, collate_fn: Callable[[Any], Any] | None = None
) -> Iterator[Any]:
    """`DataLoader(dataset, batch_size=size, shuffle=shuffle)` without workers."""
    numbers = list(range(len(dataset)))
    if shuffle:
        numbers = np.random.default_rng(1).permutation(len(dataset)).tolist()
    for start in range(0, len(numbers), size):
        wanted = numbers[start : start + size]
        at_once = getattr(dataset, "__getitems__", None)
        samples = at_once(wanted) if at_once else [dataset[number] for number in wanted]
        yield (default_collate if collate_fn is None else collate_fn)(samples)


def default_collate(samples: Any) -> Any:
    """The samples joined by the type of the first one; TypeError for what torch has no tensor of."""
    first = samples[0]
    if isinstance(first, Mapping):
        return {name: default_collate([sample[name] for sample in samples]) for name in first}
    if isinstance(first, np.ndarray) and first.dtype.kind in "fiubc":
        return np.stack(samples)
    raise TypeError(f"no tensor is made of {type(first)}")
