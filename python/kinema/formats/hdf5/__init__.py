"""What formats that are stored in HDF5 share when they are written."""
