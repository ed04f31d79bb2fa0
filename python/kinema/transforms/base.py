"""`Transform`: what is done to each frame of a trajectory before anybody sees it; the base of all transforms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from kinema import _core

if TYPE_CHECKING:
    from kinema.trajectory import Trajectory

__all__ = ["Transform", "transforms_in_words"]


class Transform(ABC):
    """One transform with its arguments, not yet of a trajectory: `traj.with_transform(transform)` binds it.

    Subclasses declare `name` and give `arguments` and `bind`. They can be used for any number of trajectories.

    Attributes
    ----------
    name : str
        As in `kinema.transforms`, in provenance and in errors.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def arguments(self) -> Mapping[str, str]:
        """The arguments that were given, in words, for provenance."""

    def prepared(self, trajectory: Trajectory) -> Trajectory:
        """What it is bound to: the same frames of the same files, which it may have read otherwise."""
        return trajectory

    @abstractmethod
    def bind(self, trajectory: Trajectory) -> _core.Transform:
        """The same for the atoms of a trajectory, which may have transforms already: those come before this one.

        It has the label of this one. Raises ArgumentError where it cannot be applied to the trajectory.
        """

    @property
    def label(self) -> str:
        """The call that makes it, in words."""
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in self.arguments.items())})"

    def __repr__(self) -> str:
        return f"<Transform {self.label}>"


def transforms_in_words(trajectory: Trajectory) -> dict[str, str]:
    """The transforms of a trajectory as a parameter of provenance; empty without."""
    labels = trajectory.transforms
    return {"transforms": ", then ".join(labels)} if labels else {}
