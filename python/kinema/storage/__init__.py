"""Files that appear whole or not at all, tables of results, what is kept in the cache folder, and HDF5 as storage."""
