"""Kinema's trajectories inside other packages: a module each, imported by whoever wants it.

`import kinema` imports none of them, and this package imports nothing.
"""
