"""Counts on axes and grids: radial distribution functions, densities."""
