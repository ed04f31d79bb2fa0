"""Editing of H5MD files (repack, split, join), and what their layout costs readers.

The public names are `kinema.repack`, `kinema.split`, `kinema.join` and `kinema.layout_of`.
"""
