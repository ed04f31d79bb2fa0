"""Conformance suites for formats, kernels and runners, to be subclassed in tests, and synthetic trajectories.

They need pytest and hypothesis, which Kinema itself does not; nothing else in the package imports them. Public names
are imported when they are first used, because child processes of tests need few of them.
"""

from typing import TYPE_CHECKING

from kinema.base.lazy_names import lazy_names

# imported at once: the module of that name would hide the function
from kinema.testing.synthetic import Synthetic, random_cells, random_walk, synthetic

if TYPE_CHECKING:
    from kinema.testing.dlpoly_files import history_bytes, unformatted_bytes, write_history
    from kinema.testing.formats import FormatTests, Golden
    from kinema.testing.keepers import KeeperTests, rewrite_middle
    from kinema.testing.kernels import KernelTests
    from kinema.testing.recording import RecordedTrajectory, open_recorded
    from kinema.testing.runners import RunnerTests
    from kinema.testing.strategies import atom_choices, atom_tables, frame_choices, trajectories
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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kinema.testing.dlpoly_files": ("history_bytes", "unformatted_bytes", "write_history"),
        "kinema.testing.formats": ("FormatTests", "Golden"),
        "kinema.testing.keepers": ("KeeperTests", "rewrite_middle"),
        "kinema.testing.kernels": ("KernelTests",),
        "kinema.testing.recording": ("RecordedTrajectory", "open_recorded"),
        "kinema.testing.runners": ("RunnerTests",),
        "kinema.testing.strategies": ("atom_choices", "atom_tables", "frame_choices", "trajectories"),
        "kinema.testing.writer_tests.suite": ("WriterTests",),
        "kinema.testing.writers": (
            "dcd_bytes",
            "write_dcd",
            "write_dl_poly_netcdf",
            "write_h5md",
            "write_netcdf",
            "write_trr",
            "write_xtc",
        ),
        "kinema.testing.written": ("GivenFrames", "lost_aspects", "read_frames"),
    },
)
