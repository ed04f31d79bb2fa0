"""Periodic boundaries on the command line: the options, and the trajectory with the transforms asked for."""
