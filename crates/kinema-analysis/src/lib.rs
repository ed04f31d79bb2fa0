//! Analysis kernels of Kinema: one file a quantity, no input or output.
