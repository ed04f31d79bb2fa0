"""Analyses of pairs: atoms and groups that are near each other, in any number a frame, and their counts."""
