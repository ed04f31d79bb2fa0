"""Selections of frames (by number, by time) and of atoms (selection strings, indices, index groups), and topologies."""
