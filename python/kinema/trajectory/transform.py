"""`Transform`: the base class of all transforms, which change each frame of a trajectory before it is used."""

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

CENTERS = "centers"
"""The name of the transform that makes other positions than those of the atoms: the last of all."""


class Transform(ABC):
    """A transform with its arguments, not bound to a trajectory yet: `traj.with_transform(transform)` binds it.

    Subclasses declare `name` and define `arguments` and `bind`. A transform can be used for any number of trajectories.

    In MDAnalysis it is a transformation: `universe.trajectory.add_transformations(transform, ...)`, with any reader.

    Attributes
    ----------
    name : str
        Its name in `kinema.transforms`, in provenance and in errors.
    sees_all_frames : bool
        Whether binding it reads all frames.
    parallelizable : bool
        For MDAnalysis: frames come out the same in any order.
    """

    name: ClassVar[str]
    sees_all_frames: bool = False
    parallelizable: ClassVar[bool] = True
    # set later: the code for time steps imports trajectories, which import this class
    on_timestep: ClassVar[Callable[[Transform, Any], Any]]

    @property
    @abstractmethod
    def arguments(self) -> Mapping[str, str]:
        """The given arguments in words, for provenance."""

    def prepared(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory to bind to: the same frames of the same files, perhaps read with other options."""
        return trajectory

    @abstractmethod
    def bind(self, trajectory: Trajectory) -> _core.Transform:
        """The transform for the atoms of a trajectory; it follows the transforms that the trajectory has already.

        It has this transform's label. Raises ArgumentError if it cannot be applied to the trajectory.
        """

    def for_other_atoms(self, bound: _core.Transform) -> Transform | None:
        """The transform for a structure of other atoms, such as a reference; None if it names atoms by number.

        `bound` is this transform, bound to the trajectory. Values that it found in the trajectory's frames hold for the
        structure as well.
        """
        return None

    def bind_with_topology(self, trajectory: Trajectory) -> tuple[_core.Transform, Topology | None]:
        """As `bind`; also the topology of the new positions, if they no longer belong to the atoms, else None."""
        return self.bind(trajectory), None

    @property
    def label(self) -> str:
        """The call that makes the transform, as text."""
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in self.arguments.items())})"

    def __call__(self, ts: Any) -> Any:
        """Changes a time step of an MDAnalysis Universe, and returns it.

        The first time step, which must be at the reference frame, binds the transform to the Universe. Raises
        ArgumentError for transforms that must see other frames first, such as `nojump`; KinemaReader supports them.
        """
        return self.on_timestep(ts)

    def __repr__(self) -> str:
        return f"<Transform {self.label}>"


def transforms_in_words(trajectory: Trajectory) -> dict[str, str]:
    """The transforms of a trajectory as a parameter of provenance; empty if there are none."""
    labels = trajectory.transforms
    return {"transforms": ", then ".join(labels)} if labels else {}


def names_by_words(*selections: Any) -> bool:
    """Whether selections can be applied to other atoms: None (all), texts, and selections made from a text."""
    return all(one is None or isinstance(words_of(one), str) for one in selections)


def words_of(selection: Any) -> Any:
    """The text that a selection was made from; other values unchanged."""
    return selection.string if isinstance(selection, Selection) else selection


def check_not_last(name: str, trajectory: OpenedFiles) -> None:
    """Raises ArgumentError if `centers`, which leaves no atoms to transform, was applied already."""
    if any(earlier.name == CENTERS for earlier in trajectory.core.transforms):
        raise ArgumentError(
            f"{name} comes before {CENTERS}, found {CENTERS} first: of centres there are no atoms to be changed"
        )
