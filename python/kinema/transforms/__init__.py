"""Transforms, applied to each frame before it is used: `traj.with_transform(kn.transforms.superpose("name CA"))`.

Public names are imported on first use: trajectories import the base class, and most transforms import trajectories.
"""

from typing import TYPE_CHECKING, Any

from kinema.base.lazy_names import lazy_names
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


def _apply_to_timestep(transform: Transform, ts: Any) -> Any:
    """Changes a Timestep of MDAnalysis in place, as its transformations do, and returns it."""
    from kinema.transforms.timesteps import changed

    return changed(transform, ts)


Transform.on_timestep = _apply_to_timestep

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kinema.transforms.periodic.centering": ("Center", "center"),
        "kinema.transforms.periodic.clustering": ("Cluster", "cluster"),
        "kinema.transforms.periodic.displacements": ("Displacement", "displacement"),
        "kinema.transforms.group_centers": ("GroupCenters", "centers"),
        "kinema.transforms.periodic.cell_rotation": ("RotateCell", "rotate_cell"),
        "kinema.transforms.periodic.unwrapping": ("NoJump", "nojump"),
        "kinema.transforms.periodic.whole_molecules": ("Whole", "whole"),
        "kinema.transforms.periodic.wrapping": ("Wrap", "wrap"),
        "kinema.trajectory.function_transform": ("FunctionTransform", "function"),
        "kinema.transforms.superposition": ("Superpose", "fit", "superpose"),
    },
)
