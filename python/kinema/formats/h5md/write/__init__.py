"""Writing H5MD: the elements of new and growing files."""
