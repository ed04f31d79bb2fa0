"""Order and loading: which sample comes when, and batches that are read before they are asked for."""
