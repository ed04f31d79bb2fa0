"""`Trajectory`: files as one sequence of frames, to be read whole, in blocks or frame by frame."""

from kinema.trajectory.description import UNITS
from kinema.trajectory.trajectory import Trajectory

__all__ = ["UNITS", "Trajectory"]
