"""Writing H5MD: the elements of a file that is made or grows."""
