"""NetCDF trajectories of AMBER and of DL_POLY; those stored in HDF5 are in `netcdf4`."""
