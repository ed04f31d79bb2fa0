"""Formats that Kinema reads and writes through MDAnalysis, and files that are compressed."""
