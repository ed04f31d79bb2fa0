"""Conversion: samples of many files into one archive."""
