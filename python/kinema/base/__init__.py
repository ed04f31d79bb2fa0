"""Foundations of all layers: errors, notes, argument checks, progress, resources, timings, traces."""
