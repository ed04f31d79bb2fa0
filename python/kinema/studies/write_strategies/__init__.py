"""Ways to write one file from many ranks, compared as the DL_POLY paper does."""
