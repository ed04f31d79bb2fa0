"""Following files that are being written: names by patterns, waiting for growth, frames as they are completed.

Public names are imported on first use: every trajectory has patterns, but few are followed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinema.trajectory.following.awaited_files import when_there
    from kinema.trajectory.following.follow import Following
    from kinema.trajectory.following.options import FollowOptions

__all__ = ["FollowOptions", "Following", "when_there"]

# public names, by the module that has them
_MODULE_OF = {
    "FollowOptions": "kinema.trajectory.following.options",
    "Following": "kinema.trajectory.following.follow",
    "when_there": "kinema.trajectory.following.awaited_files",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
