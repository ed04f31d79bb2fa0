"""Output: trajectories, tables of results, files that appear whole or not at all."""
