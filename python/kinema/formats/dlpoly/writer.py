"""Writes HISTORY and CONFIG files."""

from __future__ import annotations

from dataclasses import replace

from kinema.base.errors import ArgumentError
from kinema.formats.dlpoly.atoms import labels_of
from kinema.formats.dlpoly.format import DlpolyWriting
from kinema.formats.record_writer import RecordWriter, vector_names
from kinema.formats.writer import Target


class _DlpolyWriter(RecordWriter):
    """Common part of the writers of DL_POLY files."""

    takes = DlpolyWriting

    def _start(self, target: Target, options: DlpolyWriting) -> None:
        atoms = options.atoms
        labels = labels_of(atoms)
        if atoms is not None:
            if target.n_atoms not in (None, atoms.n_atoms):
                raise ArgumentError(f"atoms= has {atoms.n_atoms} atoms, and n_atoms= is {target.n_atoms}")
            target = replace(target, n_atoms=atoms.n_atoms)
        own = {"title": options.title, "labels": labels}
        self._open(target, options.resume_from, fields=vector_names(options.fields), **own)


class HistoryWriter(_DlpolyWriter, format="DL_POLY HISTORY"):
    """Writes HISTORY as DL_POLY_4 does: cell, step, time; name, index, mass and charge of each atom; 10-digit vectors.

    The first frame decides which vectors all frames have (keytrj): positions, with velocities, or with velocities and
    forces. A file named HISTORY has this format too. Options are those of `DlpolyWriting`; `n_atoms` may be left out if
    `atoms` are given.
    """


class ConfigWriter(_DlpolyWriter, format="DL_POLY CONFIG"):
    """Writes DL_POLY's CONFIG (REVCON, CFGMIN) as DL_POLY_4 does: one frame. A second one is refused.

    A file named CONFIG, REVCON or CFGMIN has this format too. Options are those of `DlpolyWriting`, as for
    `HistoryWriter`.
    """
