"""The writers of the formats whose frames are records, each with its options: XTC, DCD, TRR, NetCDF, DL_POLY."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from numpy.typing import DTypeLike

from kinema.base.errors import ArgumentError
from kinema.formats.dlpoly.atoms import labels_of
from kinema.formats.record_writer import RecordWriter, vector_names
from kinema.model.atom_table import Atoms
from kinema.model.frame import float_name

__all__ = ["ConfigWriter", "DcdWriter", "HistoryWriter", "NetcdfWriter", "TrrWriter", "XtcWriter"]


class XtcWriter(RecordWriter, format="XTC"):
    """Writes XTC: positions rounded to a precision, cell, step and time.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
    resume_from : int, optional
        With mode="a": the file is cut behind the last frame whose step is not greater, as a restart needs it.
        ArgumentError if there is none.
    fields : "positions"
    precision : float
        Numbers to a nm; 1000 by default. A file that mode="a" finds keeps that of its last frame.
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
        resume_from: int | None = None,
        fields: str | Sequence[str] | None = None,
        precision: float | None = None,
    ) -> None:
        options = {"fields": vector_names(fields), "precision": precision}
        self._open(path, n_atoms, format, mode, overwrite, keep_partial, workers, resume_from, **options)


class DcdWriter(RecordWriter, format="DCD"):
    """Writes DCD as CHARMM and NAMD do: positions or velocities as float32, and the cell.

    Steps and times follow from a first step, a stride and a time step in the header, which the first two frames decide;
    the first that does not follow is noted. The first frame decides whether the file has cells.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
    resume_from : as `XtcWriter`
    fields : "positions" or "velocities"
        By default positions where the first frame has them.
    """


class TrrWriter(RecordWriter, format="TRR"):
    """Writes TRR: positions, velocities, forces that each frame has, cell, step and time.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
    resume_from : as `XtcWriter`
    fields : names out of "positions", "velocities", "forces"
        What is written of frames that have it; by default all.
    dtype : "float32" or "float64"
        Precision of all numbers of a frame; float32 by default, as of GROMACS in its usual build. What mode="a" adds to
        a file has by default that of its first frame.
    """

    _fields_of_each = True

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
        resume_from: int | None = None,
        fields: str | Sequence[str] | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        options = {"fields": vector_names(fields), "dtype": None if dtype is None else float_name(dtype)}
        self._open(path, n_atoms, format, mode, overwrite, keep_partial, workers, resume_from, **options)


class NetcdfWriter(RecordWriter, format="NetCDF"):
    """Writes AMBER's NetCDF trajectories: float32 positions, velocities and forces, the cell, times.

    The first frame decides what all have. A file of more than 357 million atoms is CDF-5, others are CDF-2.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
    resume_from : as `XtcWriter`
    fields : names out of "positions", "velocities", "forces"
        By default those of the first frame.
    netcdf4 : bool
        Write NetCDF-4 instead: `Netcdf4Writer`, with its options. A file that mode="a" finds stays what it is.
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
        resume_from: int | None = None,
        fields: str | Sequence[str] | None = None,
        netcdf4: bool = False,
    ) -> None:
        options = {"fields": vector_names(fields)}
        self._open(path, n_atoms, format, mode, overwrite, keep_partial, workers, resume_from, **options)


class _DlpolyWriter(RecordWriter):
    """What the writers of DL_POLY's files share."""

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
        resume_from: int | None = None,
        fields: str | Sequence[str] | None = None,
        title: str | None = None,
        atoms: Atoms | None = None,
    ) -> None:
        labels = labels_of(atoms)
        if atoms is not None:
            n_atoms = atoms.n_atoms if n_atoms is None else n_atoms
            if n_atoms != atoms.n_atoms:
                raise ArgumentError(f"atoms= has {atoms.n_atoms} atoms, and n_atoms= is {n_atoms}")
        options = {"fields": vector_names(fields), "title": title, "labels": labels}
        self._open(path, n_atoms, format, mode, overwrite, keep_partial, workers, resume_from, **options)


class HistoryWriter(_DlpolyWriter, format="DL_POLY HISTORY"):
    """Writes DL_POLY's HISTORY as DL_POLY_4 does: cell, step, time, and of each atom its name, index, mass and charge,
    and vectors of 10 digits.

    The first frame decides which vectors all have (keytrj): positions, with velocities, or with velocities and forces.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
        A file named HISTORY is one as well. `n_atoms` may be left out where `atoms` are given.
    resume_from : as `XtcWriter`
    fields : names out of "positions", "velocities", "forces"
        By default those of the first frame.
    title : str, optional
        The first line, cut at 72 characters.
    atoms : kinema.Atoms, optional
        Names, masses and charges; without them all atoms are named X, which is noted. A file that mode="a" finds keeps
        its own unless others are given.
    """


class ConfigWriter(_DlpolyWriter, format="DL_POLY CONFIG"):
    """Writes DL_POLY's CONFIG (REVCON, CFGMIN) as DL_POLY_4 does: one frame. A second one is refused.

    Parameters
    ----------
    path, n_atoms, format, mode, overwrite, keep_partial, workers : as `Writer`
        A file named CONFIG, REVCON or CFGMIN is one as well.
    resume_from : as `XtcWriter`
    fields, title, atoms : as `HistoryWriter`
    """
