"""The sums of first passes: jumps of atoms for `nojump`, edges for `displacement`, rotations for `superpose`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinema.model.selection.frames import FrameSelection
from kinema.transforms.first_passes.base import FirstPass

if TYPE_CHECKING:
    from kinema.model.selection.atoms import Selection
    from kinema.trajectory import Trajectory


class _StepSums(FirstPass):
    """Sums over steps, for each atom."""

    @property
    def kernel_arguments(self) -> Mapping[str, Any]:
        atoms = self.selection.indices
        return {} if len(atoms) == self.trajectory.n_atoms else {"atoms": atoms}

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.selection.indices), 3

    def _station_arguments(self, frames: FrameSelection) -> Mapping[str, Any]:
        return {"stations": frames[:: self.every].numbers().astype(np.uint32)}


class JumpCounts(_StepSums):
    """Numbers of edges to add to atoms that have jumped to the other side of the cell, int32."""

    name: ClassVar[str] = "jumps"
    done: ClassVar[str] = "jumps are counted"
    dtype: ClassVar[Any] = np.int32


class EdgeSums(_StepSums):
    """Vectors that `displacement` adds to atoms, angstrom: sums of the cell's edges at the time of each jump."""

    name: ClassVar[str] = "displacements"
    done: ClassVar[str] = "displacements are summed up"
    without_damaged: ClassVar[str] = (
        "leave skip_damaged out (--skip-damaged), or take nojump, which counts jumps between the others"
    )


class Rotations(FirstPass):
    """Rotations of frames onto the first, each through the frame before it."""

    name: ClassVar[str] = "rotations"
    done: ClassVar[str] = "rotations are found"
    without_damaged: ClassVar[str] = "leave skip_damaged out (--skip-damaged)"
    least: ClassVar[int] = 1
    most_bytes: ClassVar[int] = 16 << 20

    def __init__(self, trajectory: Trajectory, selection: Selection, fitted: Mapping[str, Any]) -> None:
        super().__init__(trajectory, selection)
        self._fitted = fitted

    @property
    def kernel_arguments(self) -> Mapping[str, Any]:
        return self._fitted

    @property
    def shape(self) -> tuple[int, ...]:
        return 3, 3

    def _station_arguments(self, frames: FrameSelection) -> Mapping[str, Any]:
        start = {} if self.behind is None else {"start": np.ascontiguousarray(self.behind.sums[-1])}
        return {"every": self.every, "n_frames": len(frames), **start}

    def _joined(self, behind: NDArray[Any], found: NDArray[Any]) -> NDArray[Any]:
        # they begin with the station's rotation
        return np.concatenate([behind[:-1], found])


KINDS: tuple[type[FirstPass], ...] = (JumpCounts, EdgeSums, Rotations)
