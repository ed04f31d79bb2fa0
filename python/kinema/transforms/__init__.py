"""What is done to each frame before anybody sees it: `traj.with_transform(kn.transforms.superpose("name CA"))`.

Public names are imported when they are first used: trajectories know the base class, most transforms know trajectories.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinema.transforms.base import Transform

if TYPE_CHECKING:
    from kinema.transforms.superposition import Superpose, fit, superpose

__all__ = ["Superpose", "Transform", "fit", "superpose"]

_MODULE_OF = {
    "Superpose": "kinema.transforms.superposition",
    "fit": "kinema.transforms.superposition",
    "superpose": "kinema.transforms.superposition",
}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'kinema.transforms' has no attribute {name!r}")
