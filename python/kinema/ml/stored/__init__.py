"""Stored samples: the files that a source names, how samples are stored in them, and an archive's origin."""
