"""What is wrong with trajectory files: `kinema.check`."""

from kinema.checking.files import CheckReport, Problem, check

__all__ = ["CheckReport", "Problem", "check"]
