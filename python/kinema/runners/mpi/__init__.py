"""The runner on the ranks of an MPI program: `runner` has it, the other modules are its parts.

Importing this package does not start MPI: `launcher` is used by programs without mpi4py as well.
"""
