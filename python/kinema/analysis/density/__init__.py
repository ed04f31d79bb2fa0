"""Densities on axes and grids, and structure in reciprocal space."""
