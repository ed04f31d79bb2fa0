"""The runner on Dask's distributed scheduler: `runner` has it, the other modules are its parts.

Importing this package imports nothing of Dask: `kinema.runners.Dask` does when it is asked for.
"""
