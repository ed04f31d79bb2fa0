"""Kinema: parallel, storage-speed reading and analysis of molecular-dynamics trajectories.

    import kinema as kn

    traj = kn.open("md.xtc", topology="top.psf")
    rmsd = kn.analysis.RMSD(traj, select="protein and name CA").run()
    rmsd.save("rmsd.csv")

Lengths are in angstrom, times in ps. Public names are imported when they are first used: importing the package imports
neither MDAnalysis nor matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinema._core import TRACE_ERROR, __version__, trace_enabled
from kinema.base import moved

# here at once: the package of that name would hide the function
from kinema.formats.registry import FormatInfo, formats

if TYPE_CHECKING:
    from kinema import analysis, cache, runners, statistics, studies, transforms
    from kinema.analysis import RMSD, RMSF, Analysis, Dihedrals, Features, RadiusOfGyration
    from kinema.base import errors, tracing
    from kinema.base.errors import (
        ArgumentError,
        CancelledError,
        CorruptFileError,
        Error,
        FileAccessError,
        FileIOError,
        FileNotFound,
        InternalError,
        MemoryLimitError,
        MissingPackageError,
        OutOfRangeError,
        TruncatedFileError,
        UnsupportedFormatError,
        WaitTimeoutError,
        WorkerError,
    )
    from kinema.base.notes import Note
    from kinema.base.tracing.recording import trace
    from kinema.execution.run import run
    from kinema.files.check import CheckReport, Problem, check
    from kinema.files.convert import Converted, convert
    from kinema.files.join import Joined, join
    from kinema.files.layout import FileLayout, layout_of
    from kinema.files.repack import Repacked, repack
    from kinema.files.salvage import Salvaged, salvage
    from kinema.files.split import Split, split
    from kinema.formats.all_writers import Writer
    from kinema.formats.atoms import read_atoms
    from kinema.model.atom_table import Atoms
    from kinema.model.frame import Block, Frame, Gap, Part
    from kinema.model.selection.atoms import Selection
    from kinema.model.selection.frames import FrameSelection
    from kinema.model.topology import Topology
    from kinema.model.within import within
    from kinema.runners import Timings
    from kinema.statistics.histogram import histogram2d
    from kinema.statistics.summary import summarise
    from kinema.storage import tables as output
    from kinema.trajectory import Trajectory
    from kinema.trajectory.opening import open
    from kinema.trajectory.time_range import frames_between

__all__ = [
    "RMSD",
    "RMSF",
    "Analysis",
    "ArgumentError",
    "Atoms",
    "Block",
    "CancelledError",
    "CheckReport",
    "Converted",
    "CorruptFileError",
    "Dihedrals",
    "Error",
    "Features",
    "FileAccessError",
    "FileIOError",
    "FileLayout",
    "FileNotFound",
    "FormatInfo",
    "Frame",
    "FrameSelection",
    "Gap",
    "InternalError",
    "Joined",
    "MemoryLimitError",
    "MissingPackageError",
    "Note",
    "OutOfRangeError",
    "Part",
    "Problem",
    "RadiusOfGyration",
    "Repacked",
    "Salvaged",
    "Selection",
    "Split",
    "Timings",
    "Topology",
    "Trajectory",
    "TruncatedFileError",
    "UnsupportedFormatError",
    "WaitTimeoutError",
    "WorkerError",
    "Writer",
    "__version__",
    "analysis",
    "cache",
    "check",
    "convert",
    "errors",
    "formats",
    "frames_between",
    "histogram2d",
    "join",
    "layout_of",
    "open",
    "output",
    "read_atoms",
    "repack",
    "run",
    "runners",
    "salvage",
    "split",
    "statistics",
    "studies",
    "summarise",
    "trace",
    "tracing",
    "transforms",
    "within",
]

_MODULES = {
    "analysis": "kinema.analysis",
    "cache": "kinema.cache",
    "errors": "kinema.base.errors",
    "output": "kinema.storage.tables",
    "runners": "kinema.runners",
    "statistics": "kinema.statistics",
    "studies": "kinema.studies",
    "tracing": "kinema.base.tracing",
    "transforms": "kinema.transforms",
}
# by the module that has them
_NAMES = {
    "kinema.analysis": ("RMSD", "RMSF", "Analysis", "Dihedrals", "Features", "RadiusOfGyration"),
    "kinema.files.check": ("CheckReport", "Problem", "check"),
    "kinema.base.errors": (
        "ArgumentError",
        "CancelledError",
        "CorruptFileError",
        "Error",
        "FileAccessError",
        "FileIOError",
        "FileNotFound",
        "InternalError",
        "MemoryLimitError",
        "MissingPackageError",
        "OutOfRangeError",
        "TruncatedFileError",
        "UnsupportedFormatError",
        "WaitTimeoutError",
        "WorkerError",
    ),
    "kinema.execution.run": ("run",),
    "kinema.files.join": ("Joined", "join"),
    "kinema.files.layout": ("FileLayout", "layout_of"),
    "kinema.files.salvage": ("Salvaged", "salvage"),
    "kinema.files.repack": ("Repacked", "repack"),
    "kinema.files.split": ("Split", "split"),
    "kinema.model.frame": ("Block", "Frame", "Gap", "Part"),
    "kinema.base.notes": ("Note",),
    "kinema.statistics.histogram": ("histogram2d",),
    "kinema.statistics.summary": ("summarise",),
    "kinema.trajectory.opening": ("open",),
    "kinema.formats.atoms": ("read_atoms",),
    "kinema.runners": ("Timings",),
    "kinema.model.atom_table": ("Atoms",),
    "kinema.model.selection.atoms": ("Selection",),
    "kinema.model.selection.frames": ("FrameSelection",),
    "kinema.model.within": ("within",),
    "kinema.trajectory.time_range": ("frames_between",),
    "kinema.model.topology": ("Topology",),
    "kinema.base.tracing.recording": ("trace",),
    "kinema.trajectory": ("Trajectory",),
    "kinema.files.convert": ("Converted", "convert"),
    "kinema.formats.all_writers": ("Writer",),
}
moved.install()

# KINEMA_TRACE has begun a trace, or could not
if trace_enabled() or TRACE_ERROR is not None:
    import_module("kinema.base.tracing.recording").begin_of_environment()

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'kinema' has no attribute {name!r}")


def __dir__() -> list[str]:
    # what is public and nothing else: the global names here are modules and helpers as well
    return sorted(__all__)
