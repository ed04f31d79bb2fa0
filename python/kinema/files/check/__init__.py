"""Problems in trajectory files: `kinema.check`."""

from kinema.files.check.files import CheckReport, check
from kinema.files.check.problems import Problem

__all__ = ["CheckReport", "Problem", "check"]
