"""Values of frames besides their vectors: labels joined by step, and values of analyses."""
