"""What is looked at before an HDF5 file is used: a walk through it in another process, the files it names."""
