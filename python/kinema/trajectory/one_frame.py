"""`OneFrame`: stands for `_core.Trajectory` if only one frame, in memory, is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.model.frame import VECTOR_FIELDS
from kinema.model.selection.frames import FrameSelection


class OneFrame:
    """The frame of an MDAnalysis Universe, as a trajectory that transforms can be bound to.

    `vectors`: mapping of (n_atoms, 3) float32; positions, and velocities and forces if there are any. The arrays are
        neither copied nor changed.
    `cell`: (3, 3) float64.
    `periodic`: three bool.
    `step`, `time`: of the frame.
    `paths`: the files, for messages.
    `number`, `n_frames`: number of the frame, and number of frames in the trajectory.
    `transforms`: the transforms applied to the frame already.
    `label`: the transform that needs the frame, for messages.
    """

    format = "MDAnalysis"
    index = "memory"
    scanned = True
    hdf5 = False

    def __init__(
        self,
        n_atoms: int,
        vectors: Mapping[str, NDArray[np.float32]],
        cell: NDArray[np.float64],
        periodic: tuple[bool, bool, bool],
        *,
        step: int,
        time: float,
        paths: tuple[str, ...],
        number: int = 0,
        n_frames: int = 1,
        transforms: tuple[_core.Transform, ...] = (),
        label: str = "the transform",
    ) -> None:
        self._vectors, self._cell, self._periodic = dict(vectors), cell, periodic
        self._step, self._time, self._number, self._label = step, time, number, label
        self.n_atoms, self.n_frames = n_atoms, n_frames
        self.paths, self.transforms = paths, transforms
        self.fields = [*(name for name in VECTOR_FIELDS if name in vectors), "cell", "step", "time"]

    @classmethod
    def from_timestep(
        cls, ts: Any, periodic: tuple[bool, bool, bool], *, time: float, paths: tuple[str, ...], **known: Any
    ) -> OneFrame:
        """The frame of an MDAnalysis time step, with copied arrays; `known` are more parameters."""
        names = [name for name in VECTOR_FIELDS if has_vector(ts, name)]
        vectors = {name: np.array(getattr(ts, name), np.float32, order="C") for name in names}
        step = int(ts.data.get("step", ts.frame))
        return cls(int(ts.n_atoms), vectors, cell_of(ts), periodic, step=step, time=time, paths=paths, **known)

    def with_transforms(self, transforms: Sequence[_core.Transform]) -> OneFrame:
        """The frame after these transforms, which begin with the transforms applied already."""
        done = len(self.transforms)
        assert tuple(transforms[:done]) == self.transforms, "the frame before its transforms is not known"
        vectors = {name: values.copy() for name, values in self._vectors.items()}
        cell = _core.FrameTransforms(list(transforms[done:]), self.n_atoms).apply(
            self._number,
            vectors["positions"],
            vectors.get("velocities"),
            vectors.get("forces"),
            self._cell,
            self._periodic,
            self._step,
            self._time,
        )
        return OneFrame(
            self.n_atoms,
            vectors,
            cell,
            self._periodic,
            step=self._step,
            time=self._time,
            paths=self.paths,
            number=self._number,
            n_frames=self.n_frames,
            transforms=tuple(transforms),
            label=self._label,
        )

    def frame_notes(self, *, new: bool = False) -> list[str]:
        """None: frames are read by MDAnalysis."""
        return []

    def read(
        self,
        frames: FrameSelection,
        *,
        atoms: NDArray[np.uint32] | None = None,
        fields: Sequence[str] = ("positions",),
        dtype: str = "float32",
        **_: Any,
    ) -> dict[str, NDArray[Any]]:
        """As the core's method, for the known frame. Raises ArgumentError for other frames."""
        if frames.numbers().tolist() != [self._number]:
            needed = ", ".join(map(str, frames.numbers()[:3]))
            raise ArgumentError(
                f"{self._label} is made of frame {needed}, and the universe is at frame {self._number}; go there "
                f"(universe.trajectory[{needed}]) before transformations are added, or load the universe with "
                "format=KinemaReader"
            )
        chosen = slice(None) if atoms is None else atoms
        arrays: dict[str, NDArray[Any]] = {name: np.array(self._vectors[name][chosen], dtype)[None] for name in fields}
        return arrays | {
            "cells": self._cell[None].copy(),
            "periodic": np.array([self._periodic], bool),
            "steps": np.array([self._step], np.int64),
            "times": np.array([self._time], np.float64),
            "frames": frames.numbers(),
            "present": np.ones(1, [(name, bool) for name in (*fields, "cells")]),
        }


def has_vector(ts: Any, name: str) -> bool:
    """Whether a time step has positions, velocities or forces."""
    return bool(getattr(ts, f"has_{name}"))


def cell_of(ts: Any) -> NDArray[np.float64]:
    """Box vectors as rows, (3, 3) in angstrom, from lengths and angles; zeros without a box."""
    cell = ts.triclinic_dimensions
    return np.zeros((3, 3)) if cell is None else np.array(cell, np.float64)
