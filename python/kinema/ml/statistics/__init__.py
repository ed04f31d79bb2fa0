"""Statistics of data sets for normalisation: moments in one pass, stored with what they are of, applied by choice."""
