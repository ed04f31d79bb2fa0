"""File formats: their registry, their writers, and HDF5 as storage."""
