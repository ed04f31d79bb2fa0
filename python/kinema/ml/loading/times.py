"""`LoaderTimes`: where the time of a loader went."""

from dataclasses import dataclass


@dataclass
class LoaderTimes:
    """Times and amounts since the loader was made."""

    waited: float = 0.0
    """Seconds that loops waited for batches: I/O that did not overlap with their work."""
    busy: float = 0.0
    """Seconds that threads read, summed."""
    batches: int = 0
    """Number of batches given."""
    nbytes: int = 0
    """Bytes of these batches."""
