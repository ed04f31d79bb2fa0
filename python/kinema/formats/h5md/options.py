"""Options that H5MD declares for `kinema.Writer`; its options for `kinema.open` are beside the description of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kinema._core import __version__
from kinema.base.frozen_dataclass import dataclass
from kinema.formats.declared import WritingOptions

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from kinema.model.atom_table import Atoms


@dataclass(frozen=True, eq=False)
class H5mdWriting(WritingOptions):
    """Options of `kinema.Writer` for H5MD."""

    old_names: ClassVar[Mapping[str, str]] = {"group": "particles"}

    fields: str | Sequence[str] | None = None
    """names out of "positions", "velocities", "forces"

    Fields of each frame; by default the fields of the first."""

    particles: str | None = None
    """str

    Name below `particles`; "trajectory" by default."""

    layout: str | Sequence[int] = "frames"
    """{"frames", "atoms", "contiguous"} or (frames, atoms, components)

    Chunks of whole frames, of few atoms over many frames, none at all (needs `n_frames`), or of this shape."""

    n_frames: int | None = None
    """int

    Number of frames to be written, if known."""

    chunk_bytes: int = 1 << 20
    """int

    Approximate size of chunks; 1 MiB."""

    align: int | None = None
    """int

    Chunks begin at multiples of this many bytes: the stripe of a parallel file system, or a page."""

    compression: str | tuple[int, Sequence[int]] | None = None
    """None, "gzip", "zstd", "lz4", "bitshuffle-lz4", "bitshuffle-zstd", "lzf", "szip", or (number, values)

    Only files with gzip (or none) are read by every HDF5, and with szip by most; LZF is h5py's own; the others need its
    plugins (package hdf5plugin). A registered filter may be named by its number with its client values:
    (32001, (0, 0, 0, 0, 5, 1, 1)) is Blosc. LZF, szip and those are encoded by libhdf5, on one thread."""

    level: int | None = None
    """int

    Level for gzip (1 to 9; 1), zstd and bitshuffle-zstd (1 to 22; 3)."""

    shuffle: bool | None = None
    """bool

    HDF5's shuffle before the compression; by default with gzip, zstd, lz4 and LZF."""

    checksum: bool = False
    """bool

    A Fletcher32 checksum of every chunk, which each reader compares."""

    max_error: float | None = None
    """float

    Round positions so that none moves by more than this, in `unit`; they compress better then."""

    unit: str = "angstrom"
    """{"angstrom", "nm", "pm"}

    Unit of `max_error`."""

    dtype: DTypeLike | None = None
    """{"float32", "float64"}

    Type of positions, velocities and forces; float32 by default."""

    length_unit: str | None = None
    """{"angstrom", "nm", "pm"}

    Unit of length of the file; angstrom by default."""

    time_unit: str | None = None
    """{"ps", "fs", "ns"}

    Unit of time of the file; ps by default."""

    native: bool = False
    """bool

    Values are given in the units of the file, and not divided."""

    cell: ArrayLike | None = None
    """(3,) or (3, 3), angstrom

    A box that does not change; otherwise each frame brings its own, or none does."""

    boundary: str | Sequence[str] | None = None
    """"periodic", "none", or three of these

    By default periodic if there is a cell."""

    atoms: Atoms | None = None
    """kinema.Atoms

    Names, residues, masses, charges, species (elements, or else types), identifiers and bonds of the atoms.
    `Trajectory.atoms` and `read_atoms` give back the same table. Guessed columns are marked as such, with a note."""

    topology: Any = None
    """MDAnalysis Universe or AtomGroup, kinema.Topology, or file name

    Source of the atoms, instead of `atoms`."""

    masses: ArrayLike | None = None
    """(n_atoms,) in u"""

    charges: ArrayLike | None = None
    """(n_atoms,) in elementary charges"""

    species: ArrayLike | Sequence[str] | None = None
    """(n_atoms,) numbers or names"""

    ids: ArrayLike | None = None
    """(n_atoms,) unique numbers"""

    bonds: ArrayLike | None = None
    """(bonds, 2) atom numbers from 0"""

    author: str = "N/A"
    """str"""

    author_email: str | None = None
    """str"""

    creator: str = "Kinema"
    """str"""

    creator_version: str = __version__
    """str"""

    provenance: str | None = None
    """str

    Provenance of the file, as text: the data set `parameters/kinema/provenance`."""

    dialect: str = "h5md"
    """{"h5md", "mdanalysis"}

    "h5md" follows the specification. "mdanalysis" deviates in one point, for MDAnalysis' own reader: strings have
    variable length. Also steps and boxes are then stored one by one even if they could be stored once."""

    resume_from: int | None = None
    """int

    With mode="a": cut the file after the last frame whose step is not greater; ArgumentError if there is none."""
