"""`Transform`: what is done to each frame of a trajectory before anybody sees it; the base of all transforms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.model.selection.atoms import Selection

if TYPE_CHECKING:
    from kinema.model.topology import Topology
    from kinema.trajectory import Trajectory
    from kinema.trajectory.files import OpenedFiles

__all__ = ["CENTERS", "Transform", "check_not_last", "names_by_words", "transforms_in_words", "words_of"]

CENTERS = "centers"
"""The name of the transform that makes other positions than those of the atoms: the last of all."""


class Transform(ABC):
    """One transform with its arguments, not yet of a trajectory: `traj.with_transform(transform)` binds it.

    Subclasses declare `name` and give `arguments` and `bind`. They can be used for any number of trajectories.

    For MDAnalysis it is a transformation: `universe.trajectory.add_transformations(transform, ...)`, on any reader.

    Attributes
    ----------
    name : str
        As in `kinema.transforms`, in provenance and in errors.
    sees_all_frames : bool
        Whether binding it reads all frames.
    parallelizable : bool
        For MDAnalysis: frames come out the same in any order.
    """

    name: ClassVar[str]
    sees_all_frames: bool = False
    parallelizable: ClassVar[bool] = True
    # what knows time steps knows trajectories, and these know this class
    on_timestep: ClassVar[Callable[[Transform, Any], Any]]

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

    def for_other_atoms(self, bound: _core.Transform) -> Transform | None:
        """The same for a structure of other atoms, such as a reference; None if it names atoms by number.

        `bound` is this transform of the trajectory. What is found of frames there is that for the structure as well.
        """
        return None

    def bind_with_topology(self, trajectory: Trajectory) -> tuple[_core.Transform, Topology | None]:
        """As `bind`, with the topology of the positions that it makes, where these are not those of the atoms."""
        return self.bind(trajectory), None

    @property
    def label(self) -> str:
        """The call that makes it, in words."""
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in self.arguments.items())})"

    def __call__(self, ts: Any) -> Any:
        """A time step of a Universe of MDAnalysis, changed.

        It is bound to the Universe with the first one, which is to be that of a reference frame. ArgumentError for what
        must see other frames first, such as `nojump`: with KinemaReader that works.
        """
        return self.on_timestep(ts)

    def __repr__(self) -> str:
        return f"<Transform {self.label}>"


def transforms_in_words(trajectory: Trajectory) -> dict[str, str]:
    """The transforms of a trajectory as a parameter of provenance; empty without."""
    labels = trajectory.transforms
    return {"transforms": ", then ".join(labels)} if labels else {}


def names_by_words(*selections: Any) -> bool:
    """Whether selections can be applied to other atoms: None (all), texts, and what was selected by a text."""
    return all(one is None or isinstance(words_of(one), str) for one in selections)


def words_of(selection: Any) -> Any:
    """The text that a selection was made by; others as they are."""
    return selection.string if isinstance(selection, Selection) else selection


def check_not_last(name: str, trajectory: OpenedFiles) -> None:
    """ArgumentError where a transform would come behind the one that has no atoms behind it."""
    if any(earlier.name == CENTERS for earlier in trajectory.core.transforms):
        raise ArgumentError(
            f"{name} comes before {CENTERS}, found {CENTERS} first: of centres there are no atoms to be changed"
        )
