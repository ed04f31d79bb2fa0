"""Samples as files that training codes read: a module a format, and one table of them (`formats.py`)."""
