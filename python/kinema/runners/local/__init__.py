"""Runners of this machine: one worker, threads, worker processes."""
