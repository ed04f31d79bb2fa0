"""Samples as they lie in files: which files a source names, how samples lie in them, and what an archive is made of."""
