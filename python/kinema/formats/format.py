"""`Format`: all that Kinema knows of a file format, besides what the core does with its bytes.

Each sub-folder has the one of its format. Nothing outside `kinema.formats` compares names of formats: their differences
are attributes and methods here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from kinema.formats.declared import AxisReading, ReadingOptions, WritingOptions
from kinema.model.frame import VECTOR_FIELDS

if TYPE_CHECKING:
    from kinema.formats.splice import FileHead

Axis = Literal["atoms", "frames"]
FIXED = ("direct", "serial", "mpiio", "mpiio-collective")
"""Strategies for files in which the position of all bytes is known before writing."""


class Strategies(NamedTuple):
    """Strategies by which many workers write one file; "auto" stands for the first of each."""

    atoms: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()


class Format:
    """A file format; the attributes are the defaults."""

    name: ClassVar[str] = ""
    """The name in the core's registry, in errors and in `format=`."""

    remarks: ClassVar[str] = ""
    """Remarks for users on how the format is read, for docs/formats.md."""

    # -- what a file holds ----------------------------------------------------------------------------------------

    through_mdanalysis: ClassVar[bool] = False
    """Whether MDAnalysis reads it, frame by frame."""

    chunked: ClassVar[bool] = False
    """Whether frames are stored in chunks of HDF5 data sets, which `layout_of` judges and `repack` changes."""

    packed: ClassVar[bool] = False
    """Whether a frame is always read whole, whichever atoms are wanted; only finite numbers can be stored."""

    evenly_timed: ClassVar[bool] = False
    """Whether a first step, a stride and a time step in the header give the times of all frames."""

    wide_records: ClassVar[bool] = False
    """Whether the numbers of a record are float32 or float64, as `dtype=` says."""

    fields_of_each_frame: ClassVar[bool] = False
    """Whether one frame may have fields that another lacks."""

    observables: ClassVar[bool] = False
    """Whether it has the user's own series beside the frames."""

    labelled_records: ClassVar[bool] = False
    """Whether the record of each atom has the atom's number and name."""

    rising_steps: ClassVar[bool] = False
    """Whether a step must be greater than the one before."""

    markers: ClassVar[bool] = False
    """Whether a mark after the last frame can say that another is being written."""

    indexed: ClassVar[bool] = False
    """Whether frames are found by a scan, whose index is stored."""

    exact_copy: ClassVar[tuple[str, ...]] = ()
    """Fields whose copy, with no other field beside them, has the bits of its source."""

    writers_that_commit: ClassVar[tuple[str, ...]] = ()
    """Programs whose growing files say which frames are whole, by words in `variant`; () if all do."""

    mdanalysis_order: ClassVar[str] = "fac"
    """The order of axes in which MDAnalysis' reader gives series, if nobody states another."""

    written_fields: ClassVar[tuple[str, ...]] = VECTOR_FIELDS
    """Fields that a written file can hold."""

    written_through_mdanalysis: ClassVar[bool] = False
    """Whether MDAnalysis' writers write it, frame by frame, as text."""

    conventions: ClassVar[bool] = False
    """Whether `convention=` names a convention that defines its units and names."""

    reading: ClassVar[type[ReadingOptions]] = AxisReading
    """The options of `kinema.open` that it declares."""

    # -- writing --------------------------------------------------------------------------------------------------

    writing: ClassVar[type[WritingOptions] | None] = None
    """The options of `kinema.Writer` that it declares; None for a format that is not written."""

    writing_variants: ClassVar[Mapping[str, type[WritingOptions]]] = {}
    """The options of its variants, by the option that chooses each."""

    strategies: ClassVar[Mapping[str, Strategies]] = {}
    """Strategies for many workers, by what is written: the format's name, or a variant of it."""

    def usual_fields(self, given: Sequence[str]) -> tuple[str, ...]:
        """The fields of a file whose first frame has the `given` fields, if nobody states them."""
        return tuple(given)

    def written_kind(self, options: Mapping[str, Any], *, by_library: bool = False) -> str:
        """The key of `strategies` for a file with these options, or one that is written through a library."""
        return self.name

    def written_precision(self, path: str, n_atoms: int) -> float | None:
        """The precision that an extended file keeps, in numbers to a nm; None if it has none."""
        return None

    # -- atoms, and frames as bytes -------------------------------------------------------------------------------

    def own_atoms(self, path: str, n_atoms: int) -> Any:
        """The file itself as a source for `Topology`.

        None if it has no data on its atoms, and for HDF5 files, whose options decide.
        """
        return None

    def described_atoms(self, path: str, particles: str | None = None) -> Any:
        """A file of any format as a source for `Topology`, if it is of this format and describes its atoms; else None.

        With `particles` it must be of this format, and have this group.
        """
        return None

    spliced: ClassVar[bool] = False
    """Whether files can be made from whole frames of other files, copied byte for byte: split, join, salvage."""

    def head_of(self, path: str) -> FileHead:
        """The header before the frames of a file; raises the errors of files whose frames cannot be copied."""
        from kinema.formats.splice import FileHead

        return FileHead(path)


def leading_fields(given: Sequence[str]) -> tuple[str, ...]:
    """The fields up to the first missing one of positions, velocities, forces; without positions the first field."""
    levels = tuple(name for name, expected in zip(given, VECTOR_FIELDS, strict=False) if name == expected)
    return levels or tuple(given[:1])
