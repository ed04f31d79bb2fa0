"""H5MD written by many ranks, each of which has some of the atoms: a module a strategy."""
