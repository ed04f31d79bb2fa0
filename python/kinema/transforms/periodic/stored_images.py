"""Images of atoms stored in files: the same trajectory with positions unwrapped by them, without counting jumps.

H5MD stores the element `image` beside `position`. LAMMPS dumps store columns ix iy iz, or unwrapped coordinates
xu yu zu, read through MDAnalysis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from kinema import _core
from kinema.base.errors import ArgumentError, CorruptFileError
from kinema.base.notes import emit
from kinema.formats.all_formats import format_named
from kinema.formats.external.frames import names_of, reader_class
from kinema.formats.external.reading import Describer, ExternalOptions
from kinema.model.snapshot import fresh_recipe

if TYPE_CHECKING:
    from kinema.formats.h5md import H5mdOptions
    from kinema.trajectory import Trajectory

# arguments of MDAnalysis' reader of LAMMPS dumps
_CONVENTION, _UNWRAPS = "lammps_coordinate_convention", "unwrap_images"
_UNWRAPPED = {"unwrapped": ("xu", "yu", "zu"), "scaled_unwrapped": ("xsu", "ysu", "zsu")}
_IMAGES, _WRAPPED = ("ix", "iy", "iz"), (("x", "y", "z"), ("xs", "ys", "zs"))
# the line with the names of columns is the ninth; some versions have more items before it
_MOST_LINES = 32


def reads_images(trajectory: Trajectory) -> bool:
    """Whether reading unwraps positions by images."""
    if trajectory.hdf5 is not None:
        return trajectory.hdf5.unwrap
    return format_named(trajectory.format).through_mdanalysis and _unwraps(_external_options(trajectory))


def unwrapped_by_images(trajectory: Trajectory) -> Trajectory | None:
    """The same frames, unwrapped by the files' images; None if the files store none.

    Emits a note that images are used, or why they cannot be used.
    """
    path = trajectory.paths[0]
    recipe = fresh_recipe(trajectory.core)
    hdf5 = trajectory.hdf5
    if hdf5 is not None:
        hdf5 = replace(hdf5, unwrap=True)
        recipe["describe"] = _with_options(recipe["describe"], hdf5)
    elif format_named(trajectory.format).through_mdanalysis:
        options = _reading_images(path, _external_options(trajectory))
        if options is None:
            return None
        recipe["external"] = Describer(options)
    else:
        return None
    try:
        core = _core.Trajectory(**recipe)
    except ArgumentError:
        return None  # no images, no cell, or another kind of HDF5 file
    except CorruptFileError as error:
        emit([f"images that the file stores are not used, and jumps are counted: {error}"])
        return None
    try:
        core.scan()
    except (ArgumentError, CorruptFileError) as error:
        emit([f"images that the first file stores are not used, and jumps are counted: {error}"])
        return None
    if core.n_frames != trajectory.viewed_trajectory().n_frames:
        emit([f"{path}: images are not stored for all frames, and are not used: jumps are counted"])
        return None
    emit([f"{path}: images that the file stores are used for all atoms, and no jumps are counted"])
    return trajectory.read_otherwise(core, hdf5)


def _with_options(describe: Any, options: H5mdOptions) -> Any:
    """The function that describes HDF5 files, with other options."""
    from functools import partial

    return partial(describe.func, *describe.args, **{**describe.keywords, "options": options})


def _external_options(trajectory: Trajectory) -> ExternalOptions:
    options: ExternalOptions = trajectory.core.recipe()["external"].options
    # the topology is not sent to other processes
    return options if trajectory.topology is None else replace(options, topology=trajectory.topology)


def _unwraps(options: ExternalOptions) -> bool:
    return options.images or bool(options.reader.get(_UNWRAPS)) or options.reader.get(_CONVENTION) in _UNWRAPPED


def _reading_images(path: str, options: ExternalOptions) -> ExternalOptions | None:
    """Options that read a LAMMPS dump unwrapped; None if it has no images, and for other formats."""
    cls = reader_class(path, options.format)
    if cls is None or "LAMMPSDUMP" not in names_of(cls):
        return None
    columns = _columns(path)
    given: Mapping[str, Any] = options.reader
    if columns.issuperset(_IMAGES) and any(columns.issuperset(names) for names in _WRAPPED):
        return replace(options, images=True)
    for convention, names in _UNWRAPPED.items():
        if columns.issuperset(names):
            return replace(options, reader={**given, _CONVENTION: convention})
    return None


def _columns(path: str) -> set[str]:
    """Names of the columns of a dump's first frame."""
    from MDAnalysis.lib.util import openany

    with openany(path) as file:
        for line in islice(file, _MOST_LINES):
            if line.startswith("ITEM: ATOMS"):
                return set(line.split()[2:])
    return set()
