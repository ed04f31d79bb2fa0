"""Programs that tests run: `kinema` in their own process, child processes, ranks of MPI that stay."""
