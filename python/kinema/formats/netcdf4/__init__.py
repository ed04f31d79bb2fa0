"""NetCDF-4: trajectories of AMBER's and DL_POLY's conventions in HDF5, which are read and written as H5MD is."""
