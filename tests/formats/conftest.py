"""A fixture for modules whose tests open files that they have written, and change none that is open."""

from kinema.testing.keepers import nobody_changes_files

__all__ = ["nobody_changes_files"]
