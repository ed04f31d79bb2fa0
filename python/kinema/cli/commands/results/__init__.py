"""Commands that read saved results, not trajectories."""
