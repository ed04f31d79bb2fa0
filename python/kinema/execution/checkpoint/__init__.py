"""Checkpoints: nodes of the merge tree in a file, from which a run that was killed continues with the same bits."""

from kinema.execution.checkpoint.file import Checkpoint, CheckpointChoice

__all__ = ["Checkpoint", "CheckpointChoice"]
