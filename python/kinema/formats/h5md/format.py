"""H5MD as a format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinema.base.input_files import is_hdf5
from kinema.formats.format import FIXED, Format, Strategies
from kinema.formats.h5md import H5mdOptions, atoms_source
from kinema.formats.h5md.description import H5mdReading
from kinema.formats.h5md.options import H5mdWriting

_CONTIGUOUS = "H5MD (contiguous)"


class H5md(Format):
    """H5MD."""

    name = "H5MD"
    chunked = True
    reading = H5mdReading
    writing = H5mdWriting
    observables = True
    rising_steps = True
    writers_that_commit = ("kinema", "gromacs")
    strategies = {
        "H5MD": Strategies(
            atoms=("gather", "serial", "mpiio", "mpiio-collective", "subfiles"), frames=("gather", "serial", "subfiles")
        ),
        # values have fixed places there
        _CONTIGUOUS: Strategies(atoms=FIXED),
    }
    remarks = """\
Elements are joined by `step`. Without `step`, edges of the box, ids, images and charges are read row by row if they
are as many as the positions, and a note says so; edges that have the shape of one box are those of all frames. A `step`
of 0 does not separate rows: there are no steps then. A file without the group `h5md` is read if it has particles
groups. Errors in other data do not keep positions from being read: velocities, forces, times and ids that make no sense
are left out, with a note that says why, and a cell that makes no sense counts as unknown: whatever needs it is an
error."""

    def written_kind(self, options: Mapping[str, Any], *, by_library: bool = False) -> str:
        return _CONTIGUOUS if options.get("layout") == "contiguous" else self.name

    def described_atoms(self, path: str, particles: str | None = None) -> Any:
        if particles is None and not is_hdf5(path):
            return None
        return atoms_source(path, H5mdOptions(particles=particles), always=particles is not None)
