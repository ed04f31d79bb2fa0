"""Files made of trajectories: convert, repack, split, join, salvage; and `check`, which says what is wrong."""
