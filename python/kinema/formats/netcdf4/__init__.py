"""NetCDF-4: trajectories of AMBER's and DL_POLY's conventions in HDF5, written as H5MD is; `h5md/read` reads them."""
