"""HISTORY and CONFIG files of DL_POLY."""
