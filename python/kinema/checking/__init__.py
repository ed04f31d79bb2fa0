"""What is wrong with trajectory files: `kinema.check`."""

from kinema.checking.files import CheckReport, check
from kinema.checking.problems import Problem

__all__ = ["CheckReport", "Problem", "check"]
