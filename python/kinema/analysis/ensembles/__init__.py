"""Analyses of many frames together: features, matrices, clusters and principal components."""
