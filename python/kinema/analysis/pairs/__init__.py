"""Analyses of pairs of atoms and groups: near each other, bonded by hydrogens."""
