"""Transforms of periodic systems, which make molecules whole, wrap, unwrap and centre; and their fixed order."""
