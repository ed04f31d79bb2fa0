"""H5MD written by many ranks, each with some of the atoms: one module per strategy."""
