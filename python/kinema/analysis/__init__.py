"""Analyses: one module a quantity, each with its formula, units and source; the loops are kernels in Rust."""

from kinema.analysis.base import Analysis, Pass, Results
from kinema.analysis.custom import Custom, FromFunction, PythonKernel, from_function
from kinema.analysis.rgyr import RadiusOfGyration
from kinema.analysis.rmsd import RMSD
from kinema.analysis.rmsf import RMSF
from kinema.execution.run import run

__all__ = [
    "RMSD",
    "RMSF",
    "Analysis",
    "Custom",
    "FromFunction",
    "Pass",
    "PythonKernel",
    "RadiusOfGyration",
    "Results",
    "from_function",
    "run",
]
