"""GROMACS TRR: positions, velocities and forces, as each frame has them."""
