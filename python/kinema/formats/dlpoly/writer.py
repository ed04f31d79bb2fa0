"""Writes HISTORY and CONFIG files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from kinema.base.errors import ArgumentError
from kinema.formats.dlpoly.atoms import labels_of
from kinema.formats.record_writer import RecordWriter, vector_names
from kinema.model.atom_table import Atoms

__all__ = ["ConfigWriter", "HistoryWriter"]


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
