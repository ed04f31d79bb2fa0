"""Exchange between the ranks of an MPI program: registered files, and blocks of caches by one-sided operations."""
