"""Frames in memory that the suites of writers write, and comparisons with the frames that a file returns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinema as kn
from kinema.base.notes import collected
from kinema.model.frame import VECTOR_FIELDS, Block
from kinema.trajectory.opening import files_stay

# subjects of losses: the first word that one of them has
_ASPECTS = {
    "frames without a time": "times",
    "the orientation of cells": "cells",
    "lambda": "lambda",
    "observables": "observables",
    "atoms": "atoms",
    "the displacement": "displacement",
} | {name: name for name in (*VECTOR_FIELDS, "cells", "steps", "times")}


@dataclass(frozen=True, eq=False)
class GivenFrames:
    """Frames as `Writer.write` takes them, or as they were read.

    `fields` {name: (frames, atoms, 3)} in Kinema's units, NaN if a frame lacks them; `present` {name: (frames,) bool};
    `cells` (frames, 3, 3), zero if there is none; `steps` and `times` (frames,), NaN if there is none.
    """

    fields: Mapping[str, NDArray[Any]]
    cells: NDArray[np.float64]
    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    present: Mapping[str, NDArray[np.bool_]]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, rows: slice) -> GivenFrames:
        return GivenFrames(
            {name: values[rows] for name, values in self.fields.items()},
            self.cells[rows],
            self.steps[rows],
            self.times[rows],
            {name: there[rows] for name, there in self.present.items()},
        )

    def with_fields(self, names: Iterable[str]) -> GivenFrames:
        """The same with some of the fields."""
        chosen = tuple(names)
        return replace(
            self,
            fields={name: self.fields[name] for name in chosen},
            present={name: self.present[name] for name in chosen},
        )

    def arguments(self) -> dict[str, Any]:
        """Arguments of `Writer.write` for all frames at once."""
        given: dict[str, Any] = {**self.fields, "step": self.steps}
        if self.cells.any():
            given["cell"] = self.cells
        if not np.isnan(self.times).all():
            given["time"] = self.times
        return given

    def single(self) -> Iterable[dict[str, Any]]:
        """Arguments of `Writer.write` for each frame, with the fields that it has."""
        for i in range(len(self)):
            given: dict[str, Any] = {name: self.fields[name][i] for name in self.fields if self.present[name][i]}
            given["step"] = int(self.steps[i])
            if self.cells[i].any():
                given["cell"] = self.cells[i]
            if not np.isnan(self.times[i]):
                given["time"] = float(self.times[i])
            yield given

    def block(self) -> Block:
        """A `Block` of all of them."""
        present = np.zeros(len(self), dtype=[*((name, bool) for name in self.fields), ("cells", bool)])
        for name, there in self.present.items():
            present[name] = there
        present["cells"] = self.cells.any(axis=(1, 2))
        vectors: dict[str, Any] = {name: self.fields.get(name) for name in VECTOR_FIELDS}
        return Block(
            **vectors,
            cells=self.cells,
            steps=self.steps,
            times=self.times,
            frames=np.arange(len(self), dtype=np.uint64),
            present=present,
            periodic=np.ones((len(self), 3), bool),
        )

    def differing(self, other: GivenFrames) -> set[str]:
        """Fields, cells, steps and times whose bits differ in `other`, or that are missing there."""
        pairs = {name: (values, other.fields.get(name)) for name, values in self.fields.items()}
        pairs |= {name: (getattr(self, name), getattr(other, name)) for name in ("cells", "steps", "times")}
        found = {name for name, (a, b) in pairs.items() if b is None or not np.array_equal(a, b, equal_nan=True)}
        absent = {name for name in self.fields if not np.array_equal(self.present[name], other.present.get(name, []))}
        return found | absent


def read_frames(path: str | os.PathLike[str], dtype: str = "float32") -> GivenFrames:
    """All frames of a file that this process has written, with all that it has."""
    with collected(), files_stay():
        trajectory = kn.open(path, stored=False, absent="nan")
        trajectory.scan()
        names = [name for name in VECTOR_FIELDS if name in trajectory.fields]
        found = trajectory.read(fields=names, dtype=dtype)
    present = {name: found["present"][name] for name in names}
    return GivenFrames({name: found[name] for name in names}, found["cells"], found["steps"], found["times"], present)


def lost_aspects(path: str | os.PathLike[str], losses: Iterable[str]) -> set[str]:
    """Fields, cells, steps and times that the losses of `path` name; each loss must name one of them."""
    named = set()
    for loss in losses:
        text = loss.removeprefix(f"{os.fspath(path)}: ")
        assert text != loss, f"a loss that does not name its file: {loss}"
        (aspect,) = {aspect for words, aspect in _ASPECTS.items() if text.startswith(words)}
        named.add(aspect)
    return named
