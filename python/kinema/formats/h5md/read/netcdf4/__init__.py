"""Trajectories of AMBER and of DL_POLY as NetCDF-4 has them in HDF5: conventions, frames and atoms."""
