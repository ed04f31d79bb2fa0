"""Checkpoints: a run that was killed goes on where it was, and gives the same bits.

What is saved are nodes of the merge tree; this package runs nothing and knows no analysis.
"""

from kinema.checkpoint.file import Checkpoint

__all__ = ["Checkpoint"]
