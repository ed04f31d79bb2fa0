"""Files made of trajectories: convert, repack, split, join, salvage; and `check`, which finds what is wrong with
them."""
