"""Formats that Kinema reads and writes through MDAnalysis, and compressed files."""
