"""RMSD, RMSF, radius of gyration and gyration tensor: the size and shape of molecules, and how they change."""
