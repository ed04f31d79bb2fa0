"""HDF5 as storage: files, chunks, filters, copies of data sets, a journal for files that grow."""
