"""Order and loading: the order of the samples of an epoch, and batches that are read ahead."""
