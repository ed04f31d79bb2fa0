"""Compositions of samples: the formula of each, from atomic numbers of frames or of an array of archives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.formats.h5md.schema import SYMBOLS
from kinema.ml.dataset import Dataset
from kinema.ml.frames import FrameDataset
from kinema.ml.samples import SampleDataset

_BLOCK_BYTES = 8 << 20


def formula(numbers: NDArray[Any]) -> str:
    """The formula of atomic numbers in any order, as Hill writes it: C, H, then by symbol. Zeros are not atoms."""
    found, counts = np.unique(numbers[numbers != 0], return_counts=True)
    of = {SYMBOLS[number - 1]: count for number, count in zip(found.tolist(), counts.tolist(), strict=True)}
    first = ("C", "H") if "C" in of else ()
    order = sorted(of, key=lambda symbol: (first.index(symbol) if symbol in first else len(first), symbol))
    return "".join(symbol if of[symbol] == 1 else f"{symbol}{of[symbol]}" for symbol in order)


def compositions(dataset: Dataset, field: str) -> tuple[list[str], NDArray[np.int64]]:
    """The formulas that occur, in alphabetical order, and for each sample the number of its formula, (n,).

    `field`: the array of archives that has the atomic numbers. Raises ArgumentError if they are not known.
    """
    whole, ids = dataset.root()
    if isinstance(whole, FrameDataset):
        known = whole.atomic_numbers
        if known is None:
            raise ArgumentError(
                "compositions are of atomic numbers, which are not known here: open the trajectories with a topology "
                'that has elements, and make the data set with "atomic_numbers" among its fields'
            )
        each = np.array([formula(numbers) for numbers in known], dtype=object)
        of_samples = each[np.searchsorted(whole.bounds, ids, side="right") - 1]
    elif isinstance(whole, SampleDataset):
        of_samples = _archive_formulas(
            SampleDataset(whole.paths, field, file_is_sample=whole.file_is_sample), field, ids
        )
    else:
        raise ArgumentError(f"compositions are of a SampleDataset, a FrameDataset or a part, found {type(whole)}")
    names, number = np.unique(of_samples.astype(str), return_inverse=True)
    return names.tolist(), number.astype(np.int64)


def _archive_formulas(data: SampleDataset, field: str, ids: NDArray[np.int64]) -> NDArray[Any]:
    """(n,) formula of each of these samples."""
    if data.dtype(field).kind not in "iu" or len(data.shape(field)) != 1:
        raise ArgumentError(
            f"compositions are of atomic numbers, whole numbers (atoms,) of each sample; found {field} of shape "
            f"{data.shape(field)} and type {data.dtype(field)}"
        )
    of_samples = np.empty(len(ids), object)
    step = max(1, _BLOCK_BYTES // max(1, data.sample_bytes))
    for start in range(0, len(ids), step):
        own = ids[start : start + step]
        numbers = data.read(own)[field]
        wrong = (numbers < 0) | (numbers > len(SYMBOLS))
        if wrong.any():
            row, atom = np.argwhere(wrong)[0]
            raise ArgumentError(
                f"{field} of sample {own[row]}, atom {atom + 1}: expected an atomic number up to {len(SYMBOLS)}, or 0 "
                f"for no atom, found {numbers[row, atom]}"
            )
        rows, which = np.unique(np.sort(numbers, axis=1), axis=0, return_inverse=True)
        of_samples[start : start + step] = np.array([formula(row) for row in rows], object)[which.reshape(-1)]
    return of_samples
