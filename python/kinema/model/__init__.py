"""Frames in memory, atoms and topologies, and which of them are selected; no file of a trajectory is opened here."""
