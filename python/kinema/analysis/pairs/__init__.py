"""Atoms near others: hydrogen bonds and bridges, counts of groups that change with the frame, shells of waters."""
