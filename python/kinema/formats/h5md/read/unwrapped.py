"""Positions unwrapped with the `image` element of a file, on request; an error if there is none."""

from __future__ import annotations

from typing import Any

from kinema.base.errors import ArgumentError
from kinema.formats.h5md.description import FieldDescription
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.elements import as_rows, find_element
from kinema.formats.h5md.read.fields import LocatedElement, rows_of_rows, stored_rows, through_library
from kinema.formats.h5md.read.row_readers import CellRows, Unwrapped


def unwrapped(
    opened: H5mdFile,
    group: Any,
    located: dict[str, LocatedElement],
    fields: dict[str, FieldDescription | None],
    cell: LocatedElement | None,
) -> FieldDescription | None:
    """The positions as r + image * edges; the images and the box are joined to them by step.

    Raises ArgumentError if positions, images or box are missing, CorruptFileError if they do not fit.
    """
    image = find_element(opened, group, "image")
    for needed, what in ((image, "no image"), (cell, "no periodic box"), (fields.get("positions"), "no positions")):
        if needed is None:
            raise ArgumentError(
                f"{group.name.strip('/')} has {what}, so that unwrap=True has nothing to go by",
                at=opened.path,
                format="H5MD",
            )
    positions, field = located["positions"].element, fields["positions"]
    assert image is not None and cell is not None and field is not None
    expected = positions.value.shape[0 if positions.fixed else 1 :]
    image = as_rows(image, positions.n_rows, expected)
    if image.value.shape[0 if image.fixed else 1 :] != expected:
        raise opened.corrupt(f"{image.name} has shape {image.value.shape}, which does not fit {positions.value.shape}")
    reader = Unwrapped(
        opened.path,
        stored_rows(opened, positions),
        stored_rows(opened, image),
        CellRows(stored_rows(opened, cell.element)),
        rows_of_rows(opened, positions, image),
        rows_of_rows(opened, positions, cell.element),
    )
    return through_library(opened, field, positions, reader, "unwrapped by its images")
