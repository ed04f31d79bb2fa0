"""Distances, angles, dihedral angles and centres of atoms, per frame."""
