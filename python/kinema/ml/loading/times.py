"""`LoaderTimes`: where the time of a loader went."""

from dataclasses import dataclass

__all__ = ["LoaderTimes"]


@dataclass
class LoaderTimes:
    """Seconds since the loader was made."""

    waited: float = 0.0
    """That loops waited for batches: I/O that did not overlap with their work."""
    busy: float = 0.0
    """That threads read, added up."""
    batches: int = 0
    """Batches given."""
    nbytes: int = 0
    """Bytes of these."""
