"""Trajectories through a node cache: the block size for their frames, and the files that are not read through it."""

from __future__ import annotations

import numpy as np

from kinema import _core
from kinema.cache.node_cache import NodeCache
from kinema.formats.all_formats import format_named


def sized_for(cache: NodeCache, core: _core.Trajectory) -> NodeCache:
    """The cache with blocks of whole frames, or chunks, of the first file; `core` is opened without a cache.

    If frames differ in size and the file must be searched for them, blocks have the default size.
    """
    if cache.block is not None or format_named(core.format).through_mdanalysis or core.unindexed() or not core.n_frames:
        return cache.sized(1)
    if core.hdf5:
        # size of the first chunk
        return cache.sized(core.locate(0)[3])
    offsets, lengths = core.extents(0)
    return cache.sized(int(np.diff(offsets[:2])[0]) if len(offsets) > 1 else int(lengths[0]))


def not_covered(core: _core.Trajectory, other_reader: str = "") -> list[str]:
    """Lists the parts of a scanned trajectory's files that are not read through a node cache.

    `other_reader`: name of an access method that reads instead of the core ("MPI-IO").
    """
    if other_reader:
        return [f"{other_reader} reads the files themselves, on each rank"]
    found: dict[str, None] = {}
    for part in core.parts():
        if format_named(part["format"]).through_mdanalysis:
            found[f"{part['path']}: MDAnalysis reads it, from the file itself"] = None
            continue
        if part["hdf5"]:
            found["h5py reads the structure of HDF5 files, atoms and observables, from the file itself"] = None
        for text in part["warnings"]:
            if "through h5py" in text:
                found[f"{part['path']}: {text}, from the file itself"] = None
    return list(found)


def explain_coverage(core: _core.Trajectory, cache: NodeCache, other_reader: str = "") -> str:
    """One line on the cache, and one for each part that it does not cover."""
    lines = [f"node cache: {cache.root}, blocks of {cache.block} bytes, at most {cache.limit} bytes"]
    return "\n".join(lines + [f"not through the node cache: {one}" for one in not_covered(core, other_reader)])
