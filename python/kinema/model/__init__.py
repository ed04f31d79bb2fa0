"""Frames in memory, atoms, topologies and selections. Nothing here opens a trajectory file."""
