"""Atoms near others: counts of groups that change with the frame, shells of waters."""
