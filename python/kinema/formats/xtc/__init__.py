"""GROMACS XTC: positions packed to a precision."""
