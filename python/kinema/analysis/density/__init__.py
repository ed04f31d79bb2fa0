"""Counts on axes and grids, densities, and structure in reciprocal space."""
