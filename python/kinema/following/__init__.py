"""Following files that are being written: names by patterns, waiting for growth, frames as they are completed."""

from kinema.following.appearing import when_there
from kinema.following.follow import Following
from kinema.following.options import FollowOptions

__all__ = ["FollowOptions", "Following", "when_there"]
