"""Suites that every format, kernel and runner must pass, to be subclassed in tests, and synthetic trajectories.

It needs pytest, which Kinema itself does not; nothing else in the package imports it.
"""

from kinema.testing.formats import FormatTests, Golden
from kinema.testing.kernels import KernelTests
from kinema.testing.runners import RunnerTests
from kinema.testing.synthetic import dcd_bytes, random_walk, write_dcd, write_xtc

__all__ = ["FormatTests", "Golden", "KernelTests", "RunnerTests", "dcd_bytes", "random_walk", "write_dcd", "write_xtc"]
