"""Statistics of data sets for normalisation: moments in one pass, stored with the identity of their data."""
