"""`open`: a trajectory from names of files, with what is said of them checked.

It reads no frame; what an opened trajectory can do is in `kinema.trajectory`.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from typing import Any, Literal, cast

from kinema import _core, h5md
from kinema.errors import ArgumentError
from kinema.files import file_names, files_of_universe
from kinema.topology import Topology, is_atom_group, is_universe
from kinema.trajectory import Trajectory

__all__ = ["open"]


def open(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Any,
    topology: str | os.PathLike[str] | Any | None = None,
    *,
    format: str | None = None,
    overlap: str = "last",
    on_truncated: str = "error",
    index: str = "auto",
    max_open_files: int = 64,
    group: str | None = None,
    dataset: str | None = None,
    units: Mapping[str, str] | None = None,
    axis: str | None = None,
    absent: str = "error",
    unwrap: bool = False,
    root: str | None = None,
    absent_particles: str = "mask",
) -> Trajectory:
    """Opens one or several trajectory files as one trajectory. Only the first file's header is read now.

    Parameters
    ----------
    paths : path, list of paths, or MDAnalysis Universe
        The files, parts of one trajectory in their order. Of a Universe, its trajectory's files and its topology.
    topology : path or MDAnalysis Universe, optional
        For selection strings and masses; anything that MDAnalysis reads. It is read when first needed. An H5MD file
        that holds names or elements needs none.
    format : str, optional
        "XTC", "DCD", ...; by default found from the file's first bytes.
    overlap : {"last", "first", "all"}
        Which frames to keep where a part begins before its predecessor ends, as restarted simulations write.
    on_truncated : {"error", "drop"}
        Whether an incomplete last frame of a file is an error or is left out.
    index : {"auto", "memory", "rebuild"}
        "auto" loads, extends or builds the frame index and stores it; "memory" never stores it.
    max_open_files : int
        How many files may be open at once; parts are opened when touched and closed again.

    The others are for HDF5 files:

    group : str, optional
        The particles group ("system"); needed where a file has several.
    dataset : str, optional
        A bare data set of positions, (frames, 3 N) or (frames, N, 3), in any HDF5 file.
    units : mapping, optional
        Units where the file has none: {"length": "nm", "time": "ps", "velocity": "nm ps-1", "force": "kJ mol-1 nm-1"}.
    axis : {"positions", "velocities", "forces"}, optional
        The quantity whose steps are the frames, where they were written at different strides; by default the first
        of them that is there.
    absent : {"error", "nan", "hold"}
        What a quantity gives in frames for which it was not written.
    unwrap : bool
        Add the image vectors to the positions.
    root : str, optional
        The group that holds the H5MD structure, where it is not the file's root and there are several.
    absent_particles : {"mask", "error"}
        What particles give that are not there in some frames: NaN, or an error.

    Raises
    ------
    FileNotFound, FileAccessError, UnsupportedFormatError, CorruptFileError, TruncatedFileError, ArgumentError
    """
    if is_universe(paths):
        if topology is None:
            topology = paths
        paths = files_of_universe(paths)
    elif is_atom_group(paths):
        raise ArgumentError("open takes file names or a Universe, found an AtomGroup; pass it as select= instead")
    names = file_names(paths)
    for option, value, allowed in (
        ("overlap", overlap, ("last", "first", "all")),
        ("on_truncated", on_truncated, ("error", "drop")),
        ("index", index, ("auto", "memory", "rebuild")),
        ("axis", axis, (None, "positions", "velocities", "forces")),
        ("absent", absent, ("error", "nan", "hold")),
        ("absent_particles", absent_particles, ("mask", "error")),
    ):
        if value not in allowed:
            raise ArgumentError(f"{option} must be one of {', '.join(map(repr, allowed))}, found {value!r}")
    if max_open_files < 1:
        raise ArgumentError(f"max_open_files must be at least 1, found {max_open_files}")
    known = None if topology is None else topology if isinstance(topology, Topology) else Topology(topology)
    options = h5md.H5mdOptions(
        group=group,
        dataset=dataset,
        units=None if units is None else dict(units),
        axis=cast("h5md.Quantity | None", axis),
        absent=cast('Literal["error", "nan", "hold"]', absent),
        unwrap=unwrap,
        root=root,
        absent_particles=cast('Literal["mask", "error"]', absent_particles),
    )
    began = time.perf_counter()
    core = _core.Trajectory(
        names,
        format=format,
        overlap=overlap,
        on_truncated=on_truncated,
        index=index,
        max_open_files=max_open_files,
        describe=functools.partial(h5md.describe, options=options),
    )
    opening = {"trajectory": time.perf_counter() - began}
    if core.format != "H5MD" and options != h5md.H5mdOptions():
        given = ", ".join(f.name for f in dataclass_fields(options) if getattr(options, f.name) != f.default)
        raise ArgumentError(f"{names[0]}: {given} is for HDF5 files, and this is {core.format}")
    if core.format != "H5MD":
        return Trajectory(core, known, opening=opening)
    own = h5md.topology_source(names[0], options) if known is None else None
    return Trajectory(core, known if own is None else Topology(own), hdf5=options, opening=opening)
