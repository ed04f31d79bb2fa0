"""Following files that are being written: names by patterns, waiting for growth, frames as they are completed.

Public names are imported on first use: every trajectory has patterns, but few are followed.
"""

from typing import TYPE_CHECKING

from kinema.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from kinema.trajectory.following.awaited_files import when_there
    from kinema.trajectory.following.follow import Following
    from kinema.trajectory.following.options import FollowOptions

__all__ = ["FollowOptions", "Following", "when_there"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kinema.trajectory.following.options": ("FollowOptions",),
        "kinema.trajectory.following.follow": ("Following",),
        "kinema.trajectory.following.awaited_files": ("when_there",),
    },
)
