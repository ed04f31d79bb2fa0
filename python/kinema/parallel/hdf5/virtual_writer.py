"""`VirtualFieldsWriter`: an H5MD file with steps, times and cells, and virtual fields over files that grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kinema.formats.given_frames import FrameArrays
from kinema.formats.h5md.schema import PARTICLES
from kinema.formats.h5md.write.particles_group import TrajectoryGroup
from kinema.formats.h5md.write.virtual_fields import VIRTUAL_LIBVER, make_growing_fields, parts_of_fields
from kinema.formats.h5md.writer import H5mdWriter
from kinema.formats.hdf5.encoding import ChunkEncoder
from kinema.formats.hdf5.series import CountedRows


class VirtualFieldsWriter(H5mdWriter):
    """Counts the frames of fields that others write, from the first frame on, into the files of `parts`.

    Readers use as many frames as there are steps. So the frames flushed here can be read at any moment, if the other
    files were flushed before.

    `parts`: {name: runs of atoms}; as in `make_growing_fields`; to be set before the first frame of a new file.
    """

    parts: Mapping[str, Sequence[tuple[int, int]]] = {}
    _is_virtual = True
    _libver = VIRTUAL_LIBVER

    def __new__(cls, *args: Any, **options: Any) -> VirtualFieldsWriter:
        return object.__new__(cls)

    @property
    def is_new(self) -> bool:
        """Whether the file is new and has no frame yet."""
        return self._group is None

    def known_parts(self) -> dict[str, list[tuple[int, int]]]:
        """The parts of an existing file."""
        field = next(iter(self._group.fields.values()))
        return parts_of_fields(field.dataset.parent.parent)

    def _make_group(self, first: FrameArrays | None) -> TrajectoryGroup:
        # with an explicit step per frame, by which readers count
        group = TrajectoryGroup.create(self._h5, self._options, first, explicit=True)
        place = self._h5[f"{PARTICLES}/{self._options.group}"]
        fields = {name: (series.encoder, series.dataset.name) for name, series in group.fields.items()}
        group.fields.clear()
        make_growing_fields(place, self.parts)
        for name, (encoder, dataset) in fields.items():
            # without the deleted data set
            made = ChunkEncoder(encoder.storage, encoder.preparation)
            group.fields[name] = CountedRows(made, self._h5[dataset], 0)
        return group
