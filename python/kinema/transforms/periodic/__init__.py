"""Transforms of periodic systems: molecules made whole, wrapped, unwrapped, centred; and the one order they have."""
