"""Stored samples: the files that a source names, how samples are stored in them, and the origin of an archive's
samples.
"""
