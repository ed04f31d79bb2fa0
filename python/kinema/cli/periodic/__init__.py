"""What commands do about periodic boundaries: their options, and the trajectory with the transforms asked for."""
