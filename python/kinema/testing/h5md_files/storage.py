"""Rows 15 and 16 of the checklist: how bytes are stored, and files that are not finished.

All of them have the same structure and values.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from kinema.testing.h5md_files.building import (
    N_ATOMS,
    N_FRAMES,
    Expected,
    add_box,
    add_element,
    case,
    clock,
    particles_all,
    plain_file,
    replace_positions,
    scaled,
    start_h5md,
    walk,
)

# 15, 16: storage, files that grow


@case("15 storage", "contiguous")
@case("15 storage", "chunk_a_frame", chunks=(1, N_ATOMS, 3))
@case("15 storage", "chunks_split_all", chunks=(2, 2, 1))
@case("15 storage", "chunk_beyond_the_extent", chunks=(64, 8, 3), maxshape=(None, None, 3))
@case("15 storage", "gzip_shuffle", chunks=(2, 3, 3), compression="gzip", shuffle=True)
@case("15 storage", "gzip_shuffle_fletcher32", chunks=(2, 3, 3), compression="gzip", shuffle=True, fletcher32=True)
@case("15 storage", "lzf", chunks=(3, 3, 2), compression="lzf")
def _storage(path: Path, **storage: Any) -> Expected:
    return plain_file(path, **storage)


@case("15 storage", "scale_offset")
def _scale_offset(path: Path) -> Expected:
    values = np.round(walk(), 3)
    expected = plain_file(path, values, chunks=(2, N_ATOMS, 3), scaleoffset=3)
    with h5py.File(path) as file:
        expected.positions = scaled(file["particles/all/position/value"][()], 10.0)
    return expected


@case("15 storage", "nbit")
def _nbit(path: Path) -> Expected:
    """Integers of which 20 bits are kept, packed by the nbit filter."""
    values = np.abs(walk() * 20).astype(np.int32)
    expected = plain_file(path, values)
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_precision(20)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((2, N_ATOMS, 3))
    plist.set_filter(5, 0)
    replace_positions(path, values, kind, plist)
    expected.through_library = True
    return expected


@case("15 storage", "compact")
def _compact(path: Path) -> Expected:
    values = walk()
    expected = plain_file(path, values)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    replace_positions(path, values, h5py.h5t.IEEE_F32LE, plist)
    return expected


@case("15 storage", "edge_chunks_unfiltered")
def _edge_chunks(path: Path) -> Expected:
    """As GROMACS asks for: chunks that extend beyond the data set are stored without filters."""
    values = walk()
    expected = plain_file(path, values)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((2, 3, 3))
    plist.set_shuffle()
    plist.set_deflate(6)
    set_options = ctypes.CDLL(h5py.h5p.__file__).H5Pset_chunk_opts
    set_options.argtypes = [ctypes.c_int64, ctypes.c_uint]
    if set_options(plist.id, 2) < 0:
        raise RuntimeError("libhdf5 does not take chunk options")
    replace_positions(path, values, h5py.h5t.IEEE_F32LE, plist, (h5py.h5s.UNLIMITED, N_ATOMS, 3))
    return expected


@case("15 storage", "filter_mask")
def _filter_mask(path: Path) -> Expected:
    """Two chunks that were stored without any of their filters."""
    values = walk()
    expected = plain_file(path, values, chunks=(1, N_ATOMS, 3), compression="gzip", shuffle=True)
    with h5py.File(path, "r+") as file:
        dataset = file["particles/all/position/value"]
        values[[1, 4]] += 1
        dataset.id.write_direct_chunk((1, 0, 0), values[1].tobytes(), 0b11)
        dataset.id.write_direct_chunk((4, 0, 0), values[4].tobytes(), 0b11)
    expected.positions = scaled(values, 10.0)
    return expected


@case("15 storage", "chunks_never_written", fill=None)
@case("15 storage", "chunks_never_written_fill", fill=2.5)
def _holes(path: Path, fill: float | None) -> Expected:
    values = walk()
    expected = plain_file(path, values[:0], chunks=(1, N_ATOMS, 3), maxshape=(None, N_ATOMS, 3), fillvalue=fill)
    values[[0, 3]] = 0 if fill is None else fill
    steps, times = clock()
    with h5py.File(path, "r+") as file:
        position = file["particles/all/position"]
        del position["step"], position["time"]
        position["step"], position["time"] = steps, times
        position["time"].attrs["unit"] = "ps"
        position["value"].resize(N_FRAMES, axis=0)
        for frame in (1, 2, 4, 5, 6):
            position["value"][frame] = values[frame]
    expected.positions, expected.steps, expected.times = scaled(values, 10.0), steps, times
    return expected


@case("15 storage", "user_block", userblock_size=1024, libver="earliest")
@case("15 storage", "newest_format", libver="latest")
@case("15 storage", "oldest_format", libver="earliest")
def _file_formats(path: Path, **how: Any) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path, **how) as group:
        storage: dict[str, Any] = {"chunks": (2, 3, 3), "compression": "gzip", "shuffle": True}
        add_element(group, "position", values, steps=steps, times=times, unit="nm", **storage)
        add_element(group, "velocity", values, steps=steps, times=times, unit="nm ps-1")
    return Expected(positions=scaled(values, 10.0), velocities=scaled(values, 10.0), steps=steps, times=times)


@case("15 storage", "virtual", compression=None)
@case("15 storage", "virtual_of_filtered", compression="gzip")
def _virtual(path: Path, compression: str | None) -> Expected:
    """Two files and a data set of the file itself, one after the other; the second file gives rows from its middle."""
    values, (steps, times) = walk(), clock()
    layout = h5py.VirtualLayout(values.shape, "f4")
    for number, (start, stop) in enumerate(((0, 3), (3, 5))):
        source = path.with_name(f"{path.stem}_{number}.h5")
        before = 2 * number
        with h5py.File(source, "w") as file:
            stored = np.concatenate([np.zeros((before, N_ATOMS, 3), "f4"), values[start:stop]])
            file.create_dataset(
                "x", data=stored, chunks=(1, N_ATOMS, 3) if compression else None, compression=compression
            )
            layout[start:stop] = h5py.VirtualSource(file["x"])[before:]
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values[:0], steps=steps, times=times)
        del position["value"]
        file["tail"] = values[5:]
        layout[5:7] = h5py.VirtualSource(".", "tail", shape=(2, N_ATOMS, 3))
        position.create_virtual_dataset("value", layout)
        position["value"].attrs["unit"] = "nm"
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


@case("15 storage", "virtual_joins_atoms")
def _virtual_atoms(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        position = add_element(group, "position", values[:0], steps=steps, times=times)
        del position["value"]
        layout = h5py.VirtualLayout(values.shape, "f4")
        for name, columns in (("left", slice(0, 2)), ("right", slice(2, N_ATOMS))):
            file[name] = values[:, columns]
            layout[:, columns] = h5py.VirtualSource(file[name])
        position.create_virtual_dataset("value", layout)
        position["value"].attrs["unit"] = "nm"
    return Expected(scaled(values, 10.0), None, None, None, steps, times, through_library=True)


@case("15 storage", "external_link")
def _external_link(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    other = path.with_name(f"{path.stem}_linked.h5")
    with h5py.File(other, "w") as file:
        file["x"] = values
        file["x"].attrs["unit"] = "nm"
    with particles_all(path) as group:
        position = add_element(group, "position", values[:0], steps=steps, times=times)
        del position["value"]
        position["value"] = h5py.ExternalLink(other.name, "x")
    return Expected(positions=scaled(values, 10.0), steps=steps, times=times)


@case("16 growing", "value_longer_than_step")
def _longer(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        add_element(group, "position", values, steps=steps[:5], times=times[:6], unit="nm")
    return Expected(positions=scaled(values[:5], 10.0), steps=steps[:5], times=times[:5])


@case("16 growing", "box_shorter_than_positions")
def _shorter_box(path: Path) -> Expected:
    values, (steps, times) = walk(), clock()
    edges = np.ones((N_FRAMES - 1, 3), np.float32)
    with particles_all(path) as group:
        position = add_element(group, "position", values, steps=steps, times=times, unit="nm")
        add_element(add_box(group), "edges", edges, steps=position["step"], times=position["time"], unit="nm")
    cells = np.broadcast_to(10 * np.eye(3), (N_FRAMES - 1, 3, 3))
    return Expected(scaled(values[:-1], 10.0), None, None, cells, steps[:-1], times[:-1])


@case("16 growing", "rows_never_written")
def _trailing(path: Path) -> Expected:
    """The data set has room for more frames than were written before the program was killed."""
    values, (steps, times) = walk(), clock()
    with particles_all(path) as group:
        storage: dict[str, Any] = {"chunks": (1, N_ATOMS, 3), "maxshape": (None, N_ATOMS, 3)}
        position = add_element(group, "position", values[:4], steps=steps, times=times, unit="nm", **storage)
        position["value"].resize(N_FRAMES, axis=0)
    return Expected(positions=scaled(values[:4], 10.0), steps=steps[:4], times=times[:4])
