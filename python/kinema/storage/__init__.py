"""Output files that appear whole or not at all, tables of results, records in the cache folder, and HDF5 storage."""
