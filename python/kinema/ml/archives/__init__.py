"""Sample archives made: samples of many files into one, with where each of them comes from."""
