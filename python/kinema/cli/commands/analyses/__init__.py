"""The commands that are analyses, each a file: `kinema rmsd`, `kinema rmsf`, `kinema rgyr`."""
