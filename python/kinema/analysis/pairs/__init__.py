"""Atoms and groups near others: hydrogen bonds, bridges, counts of groups that change with the frame, shells of waters."""
