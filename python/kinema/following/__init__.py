"""Following files that are being written: names by patterns, waiting for growth, frames as they are completed."""
