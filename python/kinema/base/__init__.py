"""What all layers use: errors, notes, checks of arguments, progress, resources, timings, traces."""
