"""How `kinema.convert` makes a file: what is written of a trajectory, by an encoder or a Writer, and its comparison."""
