"""Programs that tests run: `kinema` in their own process, child processes, standing ranks of MPI."""
