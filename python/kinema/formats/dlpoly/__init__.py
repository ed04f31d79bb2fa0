"""What DL_POLY files say of their atoms."""
