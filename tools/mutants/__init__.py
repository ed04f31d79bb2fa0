"""Faults planted one at a time: `python -m mutants` applies each patch of tests/mutants to a copy of the tree and runs
the tests that can see it; `python -m mutants.choose` chose the patches.
"""
