"""Pairs of atoms that are near each other, per frame: contacts."""
