"""Checkpoints: nodes of the merge tree in a file, from which a killed run continues with the same bits."""

from kinema.execution.checkpoint.file import Checkpoint, CheckpointChoice

__all__ = ["Checkpoint", "CheckpointChoice"]
