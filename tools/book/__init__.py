"""The book: every numbered figure and table of the five publications, redone by commands."""
