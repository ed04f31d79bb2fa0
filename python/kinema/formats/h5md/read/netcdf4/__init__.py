"""NetCDF-4 trajectories of AMBER and of DL_POLY, stored in HDF5: conventions, frames and atoms."""
