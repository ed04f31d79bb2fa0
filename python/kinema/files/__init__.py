"""Tools that make files of trajectories (convert, repack, split, join, salvage), and `check`, which finds problems."""
