"""Selection of atoms in a rewritten H5MD file: all objects with an entry per atom, or that refer to atom numbers.

- Data sets of the particles group with one entry per atom (mass, charge, species, id, ...) keep the selected entries.
- Connectivity keeps the tuples whose atoms were all selected. Atoms are renumbered, ids stay.
- GROMACS' topology module, which counts molecules and cannot hold a part of one, is left out. Its names, residues,
  masses, charges and species are written into the particles group, where Kinema reads them.
- Names, residues, masses, charges and elements from a given topology are written there too; values that MDAnalysis has
  guessed are marked.
- Connectivity that changes with time is left out.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError
from kinema.base.notes import emit
from kinema.files.h5md.elements import Contents, ParticlesGroup
from kinema.files.h5md.tasks import Tasks, WriteDataset
from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.atoms import tuples_in
from kinema.formats.h5md.read.groups import creator_of
from kinema.formats.h5md.read.row_readers import IdOrder
from kinema.formats.h5md.schema import CONNECTIVITY, GROMACS_TOPOLOGY, TABLE
from kinema.formats.h5md.write.atoms import FileAtoms
from kinema.formats.h5md.write.metadata import Dialect
from kinema.model.atom_table import Atoms
from kinema.storage.hdf5.file import object_key
from kinema.storage.hdf5.text import attribute
from kinema.storage.hdf5.virtual import values_of


def check_columns(positions: Any, path: str) -> None:
    """Raises ArgumentError if the column of an atom changes between frames."""
    if positions is not None and isinstance(positions.reader, IdOrder):
        raise ArgumentError(
            "particles change their places (id), and only the whole file has the order of each frame: "
            "atoms cannot be selected, frames not be split; repack it whole",
            at=path,
            format="H5MD",
        )


def reduce_to(
    opened: H5mdFile, contents: Contents, group: ParticlesGroup, atoms: NDArray[np.int64], tasks: Tasks
) -> None:
    """Adds the tasks for all members of a group except its elements with rows."""
    node = opened.file[group.path]
    for name in node:
        member = node.get(name)
        if not isinstance(member, h5py.Dataset) or object_key(member) in tasks.by_key or not member.shape:
            continue
        # a table of names may have as many entries as there are atoms
        is_table = name.endswith(TABLE) and name.removesuffix(TABLE) in node
        if member.shape[0] == group.n_atoms and not is_table:
            tasks.by_key[object_key(member)] = WriteDataset(member, values_of(opened, member)[atoms])
    for element in contents.elements:
        if element.particles == group.path and element.n_columns is None and group.n_atoms in element.value.shape[1:]:
            tasks.note(f"{element.path.strip('/')} is not by atom in its second dimension, and is kept whole")
    _reduce_connectivity(opened, contents, group, atoms, tasks)
    module = contents.root.get(GROMACS_TOPOLOGY)
    if isinstance(module, h5py.Group):
        tasks.by_key[object_key(module)] = None
        tasks.note(
            f"{module.name.strip('/')} counts whole molecules and is left out; what it says of the selected atoms is "
            f"written into {group.path.strip('/')}"
        )


def _reduce_connectivity(
    opened: H5mdFile, contents: Contents, group: ParticlesGroup, atoms: NDArray[np.int64], tasks: Tasks
) -> None:
    holder = contents.root.get(CONNECTIVITY)
    for name in holder if isinstance(holder, h5py.Group) else ():
        node = holder.get(name)
        if node is None or not _concerns(opened, contents, group, node):
            continue
        if not isinstance(node, h5py.Dataset) or node.dtype.kind not in "iu" or node.ndim != 2:
            tasks.by_key[object_key(node)] = None
            tasks.note(f"{node.name.strip('/')} is not a fixed list of tuples of atoms and is left out")
            continue
        tuples = tuples_in(opened, node, group.n_atoms)
        kept = _kept_tuples(opened, contents, group, atoms, tuples)
        counts = {
            key: np.asarray(len(kept), np.asarray(value).dtype)
            for key, value in node.attrs.items()
            if key.endswith("_count") and np.size(value) == 1 and np.array_equal(np.ravel(value), [len(tuples)])
        }
        tasks.by_key[object_key(node)] = WriteDataset(node, kept, counts)


def _concerns(opened: H5mdFile, contents: Contents, group: ParticlesGroup, node: Any) -> bool:
    """Whether a connectivity belongs to this group: it says so, or the file has no other group."""
    reference = attribute(node, "particles_group")
    if isinstance(reference, h5py.Reference) and reference:
        return bool(opened.file[reference].name == group.path)
    return len(contents.groups) == 1


def _kept_tuples(
    opened: H5mdFile, contents: Contents, group: ParticlesGroup, atoms: NDArray[np.int64], tuples: NDArray[Any]
) -> NDArray[Any]:
    ids = opened.file[group.path].get("id")
    if isinstance(ids, h5py.Group):
        ids = ids.get("value")
    if isinstance(ids, h5py.Dataset) and not creator_of(contents.root).lower().startswith("gromacs"):
        names = values_of(opened, ids, None if ids.ndim == 1 else 0)
        return tuples[np.isin(tuples, names[atoms]).all(axis=1)]
    if tuples.size and (tuples.min() < 0 or tuples.max() >= group.n_atoms):
        raise opened.corrupt(f"connectivity names an atom beyond the {group.n_atoms} of {group.path.strip('/')}")
    place = np.full(group.n_atoms, -1, np.int64)
    place[atoms] = np.arange(len(atoms))
    new = place[tuples.astype(np.int64)]
    kept: NDArray[Any] = new[(new >= 0).all(axis=1)].astype(tuples.dtype)
    return kept


def write_columns(file: Any, group: str, atoms: Atoms, *, residues_alone: bool = False) -> None:
    """Writes atom data of the selected atoms that the particles group of the new file lacks. Emits notes.

    The data come from GROMACS' module or a given topology. `residues_alone`: for a file whose columns were copied, in
    which residues that are now neighbours may look like one.
    """
    # connectivity in the file refers to atoms by number; with identifiers it would refer to other atoms
    written = FileAtoms(atoms.replace(ids=None))
    if residues_alone:
        written.write_residues(file[group], Dialect())
        return
    written.write_columns(file[group], Dialect())
    emit(written.notes())
