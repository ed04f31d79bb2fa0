"""NetCDF-4: trajectories of AMBER's and DL_POLY's conventions in HDF5, read by the decoder of H5MD and written as it is."""
