"""Conformance suites for formats, kernels and runners, to be subclassed in tests, and synthetic trajectories.

It needs pytest and hypothesis, which Kinema itself does not; nothing else in the package imports it.
"""

from kinema.testing.dlpoly_files import history_bytes, unformatted_bytes, write_history
from kinema.testing.formats import FormatTests, Golden
from kinema.testing.keepers import KeeperTests, rewrite_middle
from kinema.testing.kernels import KernelTests
from kinema.testing.recording import RecordedTrajectory, open_recorded
from kinema.testing.runners import RunnerTests
from kinema.testing.strategies import atom_choices, atom_tables, frame_choices, trajectories
from kinema.testing.synthetic import Synthetic, random_cells, random_walk, synthetic
from kinema.testing.writer_tests.suite import WriterTests
from kinema.testing.writers import (
    dcd_bytes,
    write_dcd,
    write_dl_poly_netcdf,
    write_h5md,
    write_netcdf,
    write_trr,
    write_xtc,
)
from kinema.testing.written import GivenFrames, lost_aspects, read_frames

__all__ = [
    "FormatTests",
    "GivenFrames",
    "Golden",
    "KeeperTests",
    "KernelTests",
    "RecordedTrajectory",
    "RunnerTests",
    "Synthetic",
    "WriterTests",
    "atom_choices",
    "atom_tables",
    "dcd_bytes",
    "frame_choices",
    "history_bytes",
    "lost_aspects",
    "open_recorded",
    "random_cells",
    "random_walk",
    "read_frames",
    "rewrite_middle",
    "synthetic",
    "trajectories",
    "unformatted_bytes",
    "write_dcd",
    "write_dl_poly_netcdf",
    "write_h5md",
    "write_history",
    "write_netcdf",
    "write_trr",
    "write_xtc",
]
