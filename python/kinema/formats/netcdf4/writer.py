"""`Netcdf4Writer`: NetCDF-4 trajectories of AMBER's and DL_POLY's conventions, in new files and in files that grow.

The structure of a file is in `kinema.formats.netcdf4`; ncdump and netCDF-C read it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from kinema.base.errors import ArgumentError
from kinema.base.input_files import is_hdf5
from kinema.base.resources import worker_count
from kinema.formats.given_frames import FrameArrays
from kinema.formats.h5md.write.options import field_names, float_type, whole_number
from kinema.formats.h5md.writer import table_of
from kinema.formats.hdf5_writer import Hdf5Writer
from kinema.formats.netcdf4.append import ExistingNetcdf
from kinema.formats.netcdf4.conventions import convention_named
from kinema.formats.netcdf4.write import FrameVariables, NetcdfOptions, check_first, create, label_losses, notes_of
from kinema.model.atom_table import Atoms
from kinema.storage.hdf5.filters import Compression
from kinema.storage.hdf5.output import GrowingFile, NewFile, damaged_file_errors
from kinema.storage.hdf5.storage import CHUNK_BYTES, Layout
from kinema.storage.output_checks import check_target

__all__ = ["Netcdf4Writer"]


class Netcdf4Writer(Hdf5Writer, format="NetCDF", variant="netcdf4"):
    """Writes NetCDF-4, which is stored in HDF5: `kn.Writer("out.nc", n_atoms, netcdf4=True)`.

    The first frame decides what all have: fields, a cell, a time. Times must not fall, and steps must rise where the
    convention has them. A file that mode="a" finds keeps its convention, layout and compression.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
    fields : names out of "positions", "velocities", "forces"
        By default those of the first frame.
    netcdf4 : bool
        True; with False the file is CDF-2, and has no option but `fields`.
    convention : {"amber", "dl_poly"}
        AMBER's, 1.0: cells as lengths and angles, times as float32, no steps. Velocities are stored divided by their
        scale_factor 20.455, and forces in kcal/(mol angstrom). Or DL_POLY's, 0.0: cells as vectors, steps, times as
        float64, forces in Da angstrom/ps^2, and of the atoms names, indices, masses and charges; without its variable
        RSD, and with `timestep` not filled in, which frames do not say.
    layout : "frames", "atoms", or (frames, atoms, components)
        As of `H5mdWriter`; "contiguous" is refused, since frames of netCDF can always be added to.
    n_frames, chunk_bytes, compression, level, shuffle, checksum : as `H5mdWriter`
        Programs with netCDF-C read gzip, or nothing, everywhere; others need plugins of HDF5.
    dtype : {"float32", "float64"}
        Of positions, velocities and forces; float32 by default.
    native : bool
        Values are given in the units of the file.
    atoms, topology : as `H5mdWriter`
        For DL_POLY's convention; AMBER's has nothing of atoms.

    Raises
    ------
    ArgumentError, FileNotFound, FileAccessError, FileIOError
        From each method as well. UnsupportedFormatError for files that cannot be appended to, and for frames that a
        reader would not give back.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        n_atoms: int | None = None,
        *,
        format: str | None = None,
        mode: Literal["w", "a"] = "w",
        overwrite: bool = False,
        keep_partial: bool = True,
        workers: int | None = None,
        fields: str | Sequence[str] | None = None,
        netcdf4: bool = True,
        convention: str | None = None,
        layout: str | Sequence[int] | None = None,
        n_frames: int | None = None,
        chunk_bytes: int = CHUNK_BYTES,
        compression: str | tuple[int, Sequence[int]] | None = None,
        level: int | None = None,
        shuffle: bool | None = None,
        checksum: bool = False,
        dtype: DTypeLike | None = None,
        native: bool = False,
        atoms: Atoms | None = None,
        topology: Any = None,
    ) -> None:
        super().__init__(path, format=format, mode=mode, overwrite=overwrite, keep_partial=keep_partial)
        self._asked_fields = field_names(fields)
        kind = None if dtype is None else float_type(dtype)
        asked = None if convention is None else convention_named(convention)
        self._workers, self._native = worker_count(workers), native
        if mode == "a" and os.path.exists(self.path):
            given = {
                "n_atoms": n_atoms,
                "fields": self._asked_fields,
                "dtype": kind,
                "convention": None if asked is None else asked.name,
            }
            self._open_existing(self.path, given)
            self._closed = False
            return
        table = table_of(atoms, topology)
        if n_atoms is None and table is not None:
            n_atoms = table.n_atoms
        if n_atoms is None:
            raise ArgumentError("n_atoms is needed to make a file")
        if layout == "contiguous":
            raise ArgumentError(
                "layout='contiguous' is not for NetCDF-4, whose frames are a dimension without a limit, which HDF5 "
                "stores in chunks; choose another layout"
            )
        self._options = NetcdfOptions(
            convention=asked or convention_named(None),
            n_atoms=whole_number("n_atoms", n_atoms),
            fields=self._asked_fields,
            dtype=kind or np.dtype("<f4"),
            layout=Layout(
                layout or "frames",
                Compression(compression, level, shuffle, checksum),
                whole_number("chunk_bytes", chunk_bytes),
            ),
            n_frames=None if n_frames is None else whole_number("n_frames", n_frames),
            native=native,
            atoms=table,
            workers=self._workers,
        )
        if table is not None and table.n_atoms != n_atoms:
            raise ArgumentError(f"atoms are {table.n_atoms}, but the file is made for n_atoms={n_atoms}")
        self._options.layout.new_field(self._options.n_atoms, self._options.dtype, n_frames)
        self.n_atoms = self._options.n_atoms
        check_target(self.path, overwrite=overwrite, or_else=", mode='a' appends to it")
        self._file = NewFile(self.path, overwrite=overwrite, ordered=True)
        self._h5 = self._file.h5
        self._closed = False
        self._lose(label_losses(self._options.convention, table))
        self._note(notes_of(self._options.convention, table))

    @classmethod
    def continues(cls, path: str | os.PathLike[str]) -> bool:
        return is_hdf5(path)

    # how

    def _checked(self, frames: FrameArrays) -> FrameArrays:
        convention = self._options.convention if self._group is None else self._group.convention
        if convention.has_steps:
            frames.check_series()
        else:
            # which are not kept, whatever they are
            replace(frames, steps=None).check_series()
        return frames

    def _check_first(self, first: FrameArrays | None) -> None:
        asked = self._options.fields
        if first is not None and asked is not None and set(asked) != set(first.fields):
            raise ArgumentError(f"the frame has {', '.join(first.fields)}, expected {', '.join(asked)}")
        if first is not None:
            check_first(self._options, first)

    def _make_group(self, first: FrameArrays | None) -> FrameVariables:
        return create(self._h5, self._options, first)

    def _go_on_in(self, path: str) -> None:
        self._open_existing(path, {})

    def _open_existing(self, path: str, given: dict[str, Any]) -> None:
        """Opens the file behind its last whole frame; what was given must agree with it."""
        growing = GrowingFile(path)
        try:
            with damaged_file_errors(self.path):
                existing = ExistingNetcdf(growing.h5, self.path, native=self._native)
                existing.check(given)
                self._group = existing.open_variables(self._workers)
        except BaseException:
            growing.discard()
            raise
        self._file, self._h5 = growing, growing.h5
        self.n_atoms = existing.n_atoms
        self._n_flushed = self._group.rows
