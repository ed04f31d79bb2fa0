"""DCD of CHARMM, NAMD and others."""
