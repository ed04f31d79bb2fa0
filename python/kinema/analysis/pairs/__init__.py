"""Atoms and groups near others: hydrogen bonds, bridges, counts of changing groups, shells of waters."""
