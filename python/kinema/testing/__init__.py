"""Suites that every format and kernel must pass, to be subclassed in tests, and synthetic trajectories.

It needs pytest, which Kinema itself does not; nothing else in the package imports it.
"""

from kinema.testing.formats import FormatTests, Golden
from kinema.testing.kernels import KernelTests
from kinema.testing.synthetic import dcd_bytes, random_walk, write_dcd, write_xtc

__all__ = ["FormatTests", "Golden", "KernelTests", "dcd_bytes", "random_walk", "write_dcd", "write_xtc"]
