"""What the ranks of an MPI program give each other: registered files, and blocks of caches one-sided."""
