"""Common part of the writers of formats that are stored in HDF5."""
