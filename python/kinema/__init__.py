"""Kinema: parallel, storage-speed reading and analysis of molecular-dynamics trajectories.

    import kinema as kn

    traj = kn.open("md.xtc", topology="top.psf")
    rmsd = kn.analysis.RMSD(traj, select="protein and name CA").run()
    rmsd.save("rmsd.csv")

Lengths are in angstrom, times in ps. Importing it imports neither MDAnalysis nor matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinema import analysis, errors, output, runners
from kinema._core import __version__
from kinema.analysis import RMSD, RMSF, Analysis, RadiusOfGyration, run
from kinema.blocks import Block, Frame, Gap, Part
from kinema.checking import CheckReport, Problem, check
from kinema.errors import (
    ArgumentError,
    CancelledError,
    CorruptFileError,
    Error,
    FileAccessError,
    FileIOError,
    FileNotFound,
    InternalError,
    MemoryLimitError,
    OutOfRangeError,
    TruncatedFileError,
    UnsupportedFormatError,
    WorkerError,
)
from kinema.opening import open
from kinema.registry import FormatInfo, formats
from kinema.runners import Timings
from kinema.selection import Selection
from kinema.time_window import frames_between
from kinema.topology import Topology
from kinema.trajectory import Trajectory

if TYPE_CHECKING:
    from kinema.joining import Joined, join
    from kinema.layout import FileLayout, layout_of
    from kinema.repacking import Repacked, repack
    from kinema.splitting import Split, split
    from kinema.writer import Writer

__all__ = [
    "RMSD",
    "RMSF",
    "Analysis",
    "ArgumentError",
    "Block",
    "CancelledError",
    "CheckReport",
    "CorruptFileError",
    "Error",
    "FileAccessError",
    "FileIOError",
    "FileLayout",
    "FileNotFound",
    "FormatInfo",
    "Frame",
    "Gap",
    "InternalError",
    "Joined",
    "MemoryLimitError",
    "OutOfRangeError",
    "Part",
    "Problem",
    "RadiusOfGyration",
    "Repacked",
    "Selection",
    "Split",
    "Timings",
    "Topology",
    "Trajectory",
    "TruncatedFileError",
    "UnsupportedFormatError",
    "WorkerError",
    "Writer",
    "__version__",
    "analysis",
    "check",
    "errors",
    "formats",
    "frames_between",
    "join",
    "layout_of",
    "open",
    "output",
    "repack",
    "run",
    "runners",
    "split",
]


# h5py is imported by those who write
_WRITING = {
    "Writer": "kinema.writer",
    "FileLayout": "kinema.layout",
    "Joined": "kinema.joining",
    "Repacked": "kinema.repacking",
    "Split": "kinema.splitting",
    "join": "kinema.joining",
    "layout_of": "kinema.layout",
    "repack": "kinema.repacking",
    "split": "kinema.splitting",
}


def __getattr__(name: str) -> Any:
    if name in _WRITING:
        return getattr(import_module(_WRITING[name]), name)
    raise AttributeError(f"module 'kinema' has no attribute {name!r}")
