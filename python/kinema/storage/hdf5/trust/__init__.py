"""Checks before an HDF5 file is used: a walk through its structure in another process, and the files that it names."""
