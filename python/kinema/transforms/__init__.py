"""Transforms, applied to each frame before it is used: `traj.with_transform(kn.transforms.superpose("name CA"))`.

Public names are imported on first use: trajectories import the base class, and most transforms import trajectories.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinema.trajectory.transform import Transform

if TYPE_CHECKING:
    from kinema.trajectory.function_transform import FunctionTransform, function
    from kinema.transforms.group_centers import GroupCenters, centers
    from kinema.transforms.periodic.cell_rotation import RotateCell, rotate_cell
    from kinema.transforms.periodic.centering import Center, center
    from kinema.transforms.periodic.clustering import Cluster, cluster
    from kinema.transforms.periodic.displacements import Displacement, displacement
    from kinema.transforms.periodic.unwrapping import NoJump, nojump
    from kinema.transforms.periodic.whole_molecules import Whole, whole
    from kinema.transforms.periodic.wrapping import Wrap, wrap
    from kinema.transforms.superposition import Superpose, fit, superpose

__all__ = [
    "Center",
    "Cluster",
    "Displacement",
    "FunctionTransform",
    "GroupCenters",
    "NoJump",
    "RotateCell",
    "Superpose",
    "Transform",
    "Whole",
    "Wrap",
    "center",
    "centers",
    "cluster",
    "displacement",
    "fit",
    "function",
    "nojump",
    "rotate_cell",
    "superpose",
    "whole",
    "wrap",
]

_MODULE_OF = {
    **dict.fromkeys(("Center", "center"), "kinema.transforms.periodic.centering"),
    **dict.fromkeys(("Cluster", "cluster"), "kinema.transforms.periodic.clustering"),
    **dict.fromkeys(("Displacement", "displacement"), "kinema.transforms.periodic.displacements"),
    **dict.fromkeys(("GroupCenters", "centers"), "kinema.transforms.group_centers"),
    **dict.fromkeys(("RotateCell", "rotate_cell"), "kinema.transforms.periodic.cell_rotation"),
    **dict.fromkeys(("NoJump", "nojump"), "kinema.transforms.periodic.unwrapping"),
    **dict.fromkeys(("Whole", "whole"), "kinema.transforms.periodic.whole_molecules"),
    **dict.fromkeys(("Wrap", "wrap"), "kinema.transforms.periodic.wrapping"),
    "FunctionTransform": "kinema.trajectory.function_transform",
    "function": "kinema.trajectory.function_transform",
    "Superpose": "kinema.transforms.superposition",
    "fit": "kinema.transforms.superposition",
    "superpose": "kinema.transforms.superposition",
}


def _apply_to_timestep(transform: Transform, ts: Any) -> Any:
    """Changes a Timestep of MDAnalysis in place, as its transformations do, and returns it."""
    from kinema.transforms.timesteps import changed

    return changed(transform, ts)


Transform.on_timestep = _apply_to_timestep


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'kinema.transforms' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
