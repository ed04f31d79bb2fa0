"""The runner on the ranks of an MPI program: `runner` has it, the other modules are its parts.

Importing this package does not start MPI: `launch` must be able to say that mpi4py is missing or of another MPI.
"""
