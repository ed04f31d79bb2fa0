"""Analyses: one module a quantity, each with its formula, units and source; the loops are kernels in Rust.

It holds no kernel and no runner.
"""

from kinema.analysis.base import Analysis, Results, Round
from kinema.analysis.custom import Custom, FromFunction, PythonKernel, from_function
from kinema.analysis.rgyr import RadiusOfGyration
from kinema.analysis.rmsd import RMSD
from kinema.analysis.rmsf import RMSF
from kinema.analysis.run import run

__all__ = [
    "RMSD",
    "RMSF",
    "Analysis",
    "Custom",
    "FromFunction",
    "PythonKernel",
    "RadiusOfGyration",
    "Results",
    "Round",
    "from_function",
    "run",
]
