"""`Netcdf4Writer`: NetCDF-4 trajectories of AMBER's and DL_POLY's conventions, in new files and in growing files.

The structure of a file is in `kinema.formats.netcdf4`; ncdump and netCDF-C read it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from kinema.base.choices import whole_number
from kinema.base.errors import ArgumentError
from kinema.base.input_files import is_hdf5
from kinema.base.resources import worker_count
from kinema.formats.given_frames import FrameArrays
from kinema.formats.h5md.read.netcdf4.conventions import convention_named
from kinema.formats.h5md.write.options import field_names, float_type
from kinema.formats.h5md.writer import table_of
from kinema.formats.hdf5.writer import Hdf5Writer
from kinema.formats.netcdf.format import Netcdf4Writing
from kinema.formats.netcdf4.append import ExistingNetcdf
from kinema.formats.netcdf4.write import FrameVariables, NetcdfOptions, check_first, create, label_losses, notes_of
from kinema.formats.writer import Target
from kinema.storage.hdf5.filters import Compression
from kinema.storage.hdf5.output import GrowingFile, NewFile, damaged_file_errors
from kinema.storage.hdf5.storage import Layout
from kinema.storage.output_checks import check_target


class Netcdf4Writer(Hdf5Writer, format="NetCDF", variant="netcdf4"):
    """Writes NetCDF-4, which is stored in HDF5: `kn.Writer("out.nc", n_atoms, netcdf4=True)`.

    The first frame decides what all have: fields, a cell, a time. Times must not fall, and steps must rise if the
    convention has them. With mode="a" an existing file keeps its convention, layout and compression.

    Options are those of `Netcdf4Writing`.

    Raises
    ------
    ArgumentError, FileNotFound, FileAccessError, FileIOError
        From each method as well. UnsupportedFormatError for files that cannot be appended to, and for frames that a
        reader would not give back.
    """

    takes = Netcdf4Writing

    def _start(self, target: Target, options: Netcdf4Writing) -> None:
        n_atoms = target.n_atoms
        self._asked_fields = field_names(options.fields)
        kind = None if options.dtype is None else float_type(options.dtype)
        asked = None if options.convention is None else convention_named(options.convention)
        self._workers, self._native = worker_count(target.workers), options.native
        if target.is_there:
            given = {
                "n_atoms": n_atoms,
                "fields": self._asked_fields,
                "dtype": kind,
                "convention": None if asked is None else asked.name,
            }
            self._open_existing(self.path, given)
            self._closed = False
            return
        table = table_of(options.atoms, options.topology)
        if n_atoms is None and table is not None:
            n_atoms = table.n_atoms
        if n_atoms is None:
            raise ArgumentError("n_atoms is needed to make a file")
        if options.layout == "contiguous":
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
                options.layout or "frames",
                Compression(options.compression, options.level, options.shuffle, options.checksum),
                whole_number("chunk_bytes", options.chunk_bytes),
            ),
            n_frames=None if options.n_frames is None else whole_number("n_frames", options.n_frames),
            native=options.native,
            atoms=table,
            workers=self._workers,
        )
        if table is not None and table.n_atoms != n_atoms:
            raise ArgumentError(f"atoms are {table.n_atoms}, but the file is made for n_atoms={n_atoms}")
        self._options.layout.new_field(self._options.n_atoms, self._options.dtype, options.n_frames)
        self.n_atoms = self._options.n_atoms
        check_target(self.path, overwrite=target.overwrite, or_else=", mode='a' appends to it")
        self._file = NewFile(self.path, overwrite=target.overwrite, ordered=True)
        self._h5 = self._file.h5
        self._closed = False
        self._lose(label_losses(self._options.convention, table))
        self._note(notes_of(self._options.convention, table))

    @classmethod
    def continues(cls, path: str | os.PathLike[str]) -> bool:
        return is_hdf5(path)

    def _checked(self, frames: FrameArrays) -> FrameArrays:
        convention = self._options.convention if self._group is None else self._group.convention
        if convention.has_steps:
            frames.check_series()
        else:
            # steps, whatever they are, are not kept
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
        """Opens the file after its last whole frame; the given values must agree with it."""
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
