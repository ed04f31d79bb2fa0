"""Analyses: one module a quantity, each with its formula, units and source; the loops are kernels in Rust.

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinema.analysis.registry import ANALYSES

if TYPE_CHECKING:
    from kinema.analysis.analyses import *  # noqa: F403
    from kinema.analysis.base import Analysis, Pass, Results
    from kinema.analysis.custom import Custom, FromFunction, PythonKernel, from_function
    from kinema.analysis.declaration import Option, Quantity, arguments_of
    from kinema.analysis.declared import DeclaredAnalysis, PerFrameAnalysis, UnboundAnalysis
    from kinema.analysis.ensembles.features import Features
    from kinema.execution.run import run

__all__ = [
    "ANALYSES",
    "Analysis",
    "Custom",
    "DeclaredAnalysis",
    "Features",
    "FromFunction",
    "Option",
    "Pass",
    "PerFrameAnalysis",
    "PythonKernel",
    "Quantity",
    "Results",
    "UnboundAnalysis",
    "arguments_of",
    "from_function",
    "run",
]
__all__ += ANALYSES.class_names  # those that are commands

# by the module that has them
_MODULES = {
    "kinema.analysis.base": ("Analysis", "Pass", "Results"),
    "kinema.analysis.custom": ("Custom", "FromFunction", "PythonKernel", "from_function"),
    "kinema.analysis.declaration": ("Option", "Quantity", "arguments_of"),
    "kinema.analysis.declared": ("DeclaredAnalysis", "PerFrameAnalysis", "UnboundAnalysis"),
    "kinema.analysis.ensembles.features": ("Features",),
    "kinema.execution.run": ("run",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in ANALYSES.class_names:
        return ANALYSES[ANALYSES.class_names[name]]
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'kinema.analysis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
