"""Execution of analyses: runs and their passes, records, results in files, checkpoints."""
