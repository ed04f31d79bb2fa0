"""`statistics`: the moments of a data set in one pass, in stored order; the same bits for any number of workers."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.notes import emit, returns_notes
from kinema.base.progress import ProgressChoice, Report, reporting
from kinema.base.resources import worker_count
from kinema.formats.h5md.schema import SYMBOLS
from kinema.ml.batch import Batch
from kinema.ml.dataset import Dataset, Subset
from kinema.ml.export.base import ranges_of
from kinema.ml.export.energies import ENERGY_NAMES
from kinema.ml.export.source import ExportSource, Run
from kinema.ml.fingerprint import fingerprint, innermost, samples_fingerprint
from kinema.ml.frames import LAGGED, FrameDataset
from kinema.ml.samples import SampleDataset
from kinema.ml.splits import DataSplit
from kinema.ml.statistics.moments import Moments
from kinema.ml.statistics.statistics import ANY_ELEMENT, EnergyStatistics, Statistics

__all__ = ["statistics"]

# bytes of a block: three are in memory; the size is fixed, so that the bits do not depend on the memory
_BLOCK_BYTES = 16 << 20
_BLOCKS = 3
_VECTORS = ("positions", "velocities", "forces")
_KINDS = "iuf"


@returns_notes
def statistics(
    dataset: Dataset,
    *,
    split: DataSplit | str | os.PathLike[str] | None = None,
    part: str = "train",
    energy: str | None = None,
    workers: int | None = None,
    progress: ProgressChoice = False,
) -> Statistics:
    """Moments of the samples of a data set, for normalisation; with a split, by default of its training part.

    Samples are read once, in stored order. Sums are float64; results have the same bits for any number of workers.

    Parameters
    ----------
    dataset : SampleDataset, FrameDataset, or a Subset of one
        For archives: moments of each feature of each array of numbers. For frames: moments of the components of vectors
        for each element (of all atoms unless "atomic_numbers" is among the fields), of each feature of labels, and of
        energies per atom after the shifts of the elements.
    split : DataSplit or its file, optional
    part : str
        Part of the split. Without a split, all samples of `dataset` count, with a note unless it is a Subset.
    energy : str, optional
        The label that is the energy; by default "energy" or "potential_energy".
    workers : int, optional
    progress : bool, None or function

    Returns
    -------
    Statistics

    Raises
    ------
    ArgumentError
        If the data set has no samples, values are not finite, or the part does not exist.
    CorruptFileError, TruncatedFileError, FileIOError, ...
        From reading.

    Examples
    --------
    >>> frames = kinema.ml.FrameDataset("md.xtc")
    >>> split = kinema.ml.split_by_time(frames, {"train": 0.8, "test": 0.2}, blocks=10)
    >>> stats = kinema.ml.statistics(frames, split=split)  # the part "train"
    >>> stats.save("stats.json")
    >>> loader = kinema.ml.Loader(split.of(frames, "train"), 28, normalise=stats, pad=False)
    """
    name: str | None = None
    chosen = dataset
    if split is not None:
        parts = split if isinstance(split, DataSplit) else DataSplit.load(split)
        if part not in parts.parts:
            raise ArgumentError(f"part={part!r} is none of {', '.join(map(repr, parts.parts))}")
        chosen, name = parts.of(dataset, part), part
    if not isinstance(chosen, Subset):
        emit(
            [
                f"statistics are of all {len(chosen)} samples; give split= to use the training part alone and "
                "leave the test part out"
            ]
        )
    source = ExportSource(chosen)
    # each once, in stored order
    numbers = np.unique(source.numbers)
    if not len(numbers):
        raise ArgumentError("there are no samples to make statistics of")
    whole = innermost(chosen)
    of_data, threads = fingerprint(whole), worker_count(workers)
    with reporting(progress, "statistics", len(numbers), "samples") as report:
        if isinstance(whole, FrameDataset):
            found = _measure_frames(whole, numbers, energy, threads, report)
        elif energy is not None:
            raise ArgumentError("energy= is of frames of trajectories; arrays of archives have moments of each feature")
        else:
            assert isinstance(whole, SampleDataset)
            found = _Found(arrays=_archive_moments(whole, numbers, threads, report))
    found.check()
    return Statistics(
        found.arrays, found.species, found.energy, len(numbers), of_data, samples_fingerprint(numbers), name
    )


@dataclass
class _Found:
    arrays: dict[str, Moments] = field(default_factory=dict)
    species: dict[str, dict[str, Moments]] = field(default_factory=dict)
    energy: EnergyStatistics | None = None

    def check(self) -> None:
        """Raises ArgumentError if values are not finite."""
        named = dict(self.arrays)
        named |= {f"{name} of {one}": found for name, of in self.species.items() for one, found in of.items()}
        if self.energy is not None:
            named[self.energy.name] = self.energy.per_atom
        for name, found in named.items():
            if not found.is_finite:
                place = np.argwhere(~np.atleast_1d(np.isfinite(found.mean) & np.isfinite(found.squares)))[0].tolist()
                raise ArgumentError(
                    f"{name}: feature {place} has values that are not finite (NaN or infinite), of which there are no "
                    "statistics; leave them out, or choose other fields"
                )


# -- samples of archives ----------------------------------------------------------------------------------------------


def _archive_moments(
    data: SampleDataset, numbers: NDArray[np.int64], workers: int, report: Report | None
) -> dict[str, Moments]:
    fields = [name for name in data.fields if data.dtype(name).kind in _KINDS]
    others = [name for name in data.fields if name not in fields]
    if others:
        emit([f"arrays without numbers have no statistics: {', '.join(others)}"])
    if not data.rows_stand_alone:
        # a transform changes what is read
        return _block_moments(data, numbers, workers, report)
    found: dict[str, Moments] = {}
    for place, name in enumerate(fields):
        core = data.moments(name, numbers, workers, _part_of(report, place, len(fields), len(numbers)))
        if core is not None:
            found[name] = Moments.from_core(core, data.shape(name))
    left = [name for name in fields if name not in found]
    if left:
        whole = data.file_is_sample
        rest = SampleDataset(data.paths, left, file_is_sample=whole, node_cache=data.node_cache)
        found |= _block_moments(rest, numbers, workers, report)
    return {name: found[name] for name in fields}


def _part_of(report: Report | None, place: int, parts: int, total: int) -> Report | None:
    if report is None:
        return None
    return lambda done, _total: report((place * total + done) // parts, total)


def _block_moments(
    data: Dataset, numbers: NDArray[np.int64], workers: int, report: Report | None
) -> dict[str, Moments]:
    """Moments from batches: for deflated members, types that the core does not have, and data sets with a transform."""
    found: dict[str, Moments] = {}
    for batch in _batches(data, numbers, workers, report):
        for name, array in batch.items():
            if array.dtype.kind in _KINDS:
                one = _array_moments(array)
                found[name] = one if name not in found else found[name].merged(one)
    return found


def _array_moments(array: NDArray[Any]) -> Moments:
    native = array.astype(np.float64) if array.dtype.kind == "f" and array.itemsize not in (4, 8) else array
    native = np.ascontiguousarray(native, native.dtype.newbyteorder("="))
    columns = int(np.prod(native.shape[1:], dtype=np.int64))
    core = _core.column_moments(native.reshape(-1).view(np.uint8), columns, native.dtype.name)
    return Moments.from_core(core, native.shape[1:])


def _batches(data: Dataset, numbers: NDArray[np.int64], workers: int, report: Report | None) -> Any:
    """Batches of a fixed size; each is read while the one before is used."""
    source = ExportSource(data)
    blocks = source.blocks(
        Run("", ranges_of(numbers)), _BLOCKS * _BLOCK_BYTES, _BLOCKS, workers, bytes_of_block=_BLOCK_BYTES
    )
    done = 0
    with closing(blocks):
        for batch in blocks:
            yield batch
            done += batch.n_samples
            if report is not None:
                report(done, len(numbers))


# -- frames -----------------------------------------------------------------------------------------------------------


def _measure_frames(
    data: FrameDataset, numbers: NDArray[np.int64], energy: str | None, workers: int, report: Report | None
) -> _Found:
    named = [name for name in (ENERGY_NAMES if energy is None else (energy,)) if name in data.label_units]
    if len(named) > 1:
        raise ArgumentError(f"labels {' and '.join(named)} may be the energy; say which with energy=")
    if energy is not None and not named:
        raise ArgumentError(f"energy={energy!r} is not a label; labels are {', '.join(data.label_units) or 'none'}")
    sums = _FrameSums(data, named[0] if named else None)
    for batch in _batches(data, numbers, workers, report):
        sums.add(batch)
    return sums.finish()


class _FrameSums:
    """Sums over frames, batch by batch in stored order."""

    def __init__(self, data: FrameDataset, energy: str | None) -> None:
        self._energy = energy
        known = data.atomic_numbers
        self._there = [] if known is None else sorted(set(np.concatenate(known).tolist()))
        self._elements = [SYMBOLS[number - 1] for number in self._there] or [ANY_ELEMENT]
        self._groups = np.zeros(len(SYMBOLS) + 1, np.uint8)
        self._groups[self._there] = np.arange(len(self._there), dtype=np.uint8)
        self._fields = [name + end for name in data.fields for end in ("", LAGGED)]
        self._labels = [name + end for name in data.label_units for end in ("", LAGGED) if name != energy]
        self._species: dict[str, list[Moments]] = {}
        self._arrays: dict[str, Moments] = {}
        self._energies: list[NDArray[np.float64]] = []
        self._compositions: list[NDArray[np.int64]] = []
        if not self._there:
            emit(['elements are not known, or "atomic_numbers" is not among the fields: statistics are of all atoms'])

    def add(self, batch: Batch) -> None:
        numbers = batch.get("atomic_numbers")
        atoms: Any = None if numbers is None or not self._there else self._groups[numbers]
        for name in self._fields:
            if name in batch:
                self._add_vectors(name, batch[name], atoms)
        for name in self._labels:
            if name in batch and batch[name].dtype.kind in _KINDS:
                one = _array_moments(batch[name])
                self._arrays[name] = self._arrays[name].merged(one) if name in self._arrays else one
        if self._energy is not None:
            energies = np.asarray(batch[self._energy], np.float64)
            if energies.size != len(energies):
                raise ArgumentError(f"label {self._energy} is not an energy: values have shape {energies.shape[1:]}")
            self._energies.append(energies.reshape(-1).copy())
            self._compositions.append(self._counts(batch, atoms))

    def _add_vectors(self, name: str, vectors: NDArray[Any], atoms: NDArray[np.uint8] | None) -> None:
        flat = np.ascontiguousarray(vectors).reshape(-1)
        groups = np.zeros(len(flat) // 3, np.uint8) if atoms is None else np.ascontiguousarray(atoms).reshape(-1)
        found = [Moments.from_core(one) for one in _core.group_moments(flat, groups, len(self._elements))]
        before = self._species.get(name)
        merged = found if before is None else [one.merged(other) for one, other in zip(before, found, strict=True)]
        self._species[name] = merged

    def _counts(self, batch: Batch, atoms: NDArray[np.uint8] | None) -> NDArray[np.int64]:
        """(n, elements) atoms of each element."""
        n, ptr = batch.n_samples, batch.get("ptr")
        if ptr is None:
            width = next(batch[name].shape[1] for name in self._fields if name in batch)
            sample = np.repeat(np.arange(n), width)
        else:
            sample = np.repeat(np.arange(n), np.diff(ptr))
        kinds = np.zeros(len(sample), np.int64) if atoms is None else atoms.reshape(-1).astype(np.int64)
        size = len(self._elements)
        return np.bincount(sample * size + kinds, minlength=n * size).reshape(n, size)

    def finish(self) -> _Found:
        species = {
            name: {element: one for element, one in zip(self._elements, found, strict=True) if one.count}
            for name, found in self._species.items()
        }
        return _Found(self._arrays, species, self._energy_statistics())

    def _energy_statistics(self) -> EnergyStatistics | None:
        if self._energy is None:
            return None
        energies, counts = np.concatenate(self._energies), np.concatenate(self._compositions)
        shifts = np.zeros(len(self._elements))
        # one row for each composition: the mean of its energies, weighted by its number of samples
        kinds, which, sizes = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
        if len(kinds) > 1:
            which = which.reshape(-1)
            means = np.bincount(which, weights=energies) / sizes
            heavy = np.sqrt(sizes)
            shifts[:] = np.linalg.lstsq(kinds * heavy[:, None], means * heavy, rcond=None)[0]
        remaining = (energies - counts @ shifts) / counts.sum(axis=1)
        named = dict(zip(self._elements, shifts.tolist(), strict=True))
        return EnergyStatistics(self._energy, named, Moments.from_values(remaining))
