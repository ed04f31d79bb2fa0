"""File formats: their registry, HDF5 as storage, H5MD."""
