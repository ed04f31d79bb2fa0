"""Molecules as GROMACS and MDTraj store them: repeated molecule types, or chains of residues, in atom order.

GROMACS' module `gromacs_topology` 0.1 (mdrun 2026): attributes `molecule_block_names` and `molecule_block_counts`, a
group for each type with `mass`, `charge`, `species`, `particle_name`, `residue_id`, `residue_name`, the names as
indices into tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from kinema.formats.h5md.file import H5mdFile
from kinema.formats.h5md.read.particle_values import Columns, particle_values, table_of
from kinema.formats.h5md.schema import NAMES, NUMBERS, SYMBOLS, TABLE
from kinema.storage.hdf5.file import numbers
from kinema.storage.hdf5.text import as_text, as_texts, attribute, text_array, text_attributes
from kinema.storage.hdf5.virtual import values_of

# most bytes of MDTraj's stored text, or of a table of names, and of what each atom may add: compressed, they may expand
# to thousands of times the file's size
_FREE_JSON, _JSON_AN_ATOM = 1 << 24, 1 << 12
_FREE_TABLE, _TABLE_AN_ATOM = 1 << 24, 1 << 8


def symbols(atomic_numbers: NDArray[Any]) -> NDArray[np.str_]:
    """Symbols of elements; "" for invalid atomic numbers."""
    table = np.array(["", *SYMBOLS])
    whole = np.nan_to_num(np.asarray(atomic_numbers, np.float64), nan=0.0)
    known = (whole >= 1) & (whole <= len(SYMBOLS))
    return table[np.where(known, whole, 0).astype(np.int64)]


@dataclass(frozen=True)
class _Molecule:
    """One type of molecule."""

    n_atoms: int
    values: dict[str, NDArray[Any]]
    """Masses, charges, names, elements: (n_atoms,)."""
    residues: NDArray[np.int64]
    """(n_atoms,) index of the residue within the molecule."""
    residue_names: NDArray[np.str_] | None
    residue_ids: NDArray[np.int64]


def from_module(opened: H5mdFile, module: Any, n_atoms: int) -> dict[str, Any] | None:
    """Columns of `Atoms` from the module's molecule blocks; None, with a warning, if they describe other atoms.

    Residues of molecules with only one residue are numbered on, as GROMACS does in its own files: waters 130, 131, ...
    """
    version = numbers(attribute(module, "version"))
    names, counts = text_attributes(module, "molecule_block_names"), numbers(attribute(module, "molecule_block_counts"))
    if version is not None and version.size and int(version.reshape(-1)[0]) != 0:
        opened.warn(f"{module.name} has version {version.tolist()}, which is not known: it is not used")
        return None
    usable = counts is not None and counts.dtype.kind in "iu" and len(names) == counts.size
    if counts is None or not usable or not names or (counts < 0).any():
        opened.warn(f"{module.name} has no usable list of molecule blocks: it is not used")
        return None
    repeats = [int(count) for count in counts.reshape(-1)]
    kinds = {name: _molecule(opened, module, name) for name in set(names)}
    total = sum(kinds[name].n_atoms * count for name, count in zip(names, repeats, strict=True))
    if total != n_atoms:
        opened.warn(f"{module.name} has {total} atoms, but the group {n_atoms}: it is not used")
        return None
    blocks = [(name, kinds[name], count) for name, count in zip(names, repeats, strict=True)]
    return _expanded([one for one in blocks if one[1].n_atoms and one[2] > 0])


def _expanded(blocks: list[tuple[str, _Molecule, int]]) -> dict[str, Any]:
    """All copies of all molecules, concatenated."""
    fields: dict[str, Any] = {}
    for key in ("names", "elements", "masses", "charges"):
        if all(key in kind.values for _, kind, _ in blocks):
            fields[key] = np.concatenate([np.tile(kind.values[key], count) for _, kind, count in blocks])
    next_id = 1 + max((int(kind.residue_ids.max()) for _, kind, _ in blocks if len(kind.residue_ids) > 1), default=0)
    residues, molecules, ids, segments, residue_names = [], [], [], [], []
    n_residues = n_molecules = 0
    for name, kind, count in blocks:
        here = len(kind.residue_ids)
        copies = np.repeat(np.arange(count), kind.n_atoms)
        residues.append(n_residues + copies * here + np.tile(kind.residues, count))
        molecules.append(n_molecules + copies)
        if here == 1:
            ids.append(next_id + np.arange(count))
            next_id += count
        else:
            ids.append(np.tile(kind.residue_ids, count))
        segments.append(np.full(here * count, name))
        if kind.residue_names is not None:
            residue_names.append(np.tile(kind.residue_names, count))
        n_residues += here * count
        n_molecules += count
    of_atoms = np.concatenate(residues)
    fields |= {"resindices": of_atoms, "molnums": np.concatenate(molecules)}
    fields |= {"resids": np.concatenate(ids)[of_atoms], "segids": np.concatenate(segments)[of_atoms]}
    if len(residue_names) == len(blocks):
        fields["resnames"] = np.concatenate(residue_names)[of_atoms]
    return fields


def _molecule(opened: H5mdFile, module: Any, name: str) -> _Molecule:
    group = module.get(name)
    if not isinstance(group, h5py.Group):
        raise opened.corrupt(f"{module.name} has no molecule type {name!r}, which one of its blocks consists of")
    sizes = [node.shape[0] for node in map(group.get, ("mass", "charge", "species", "particle_name", "residue_id")) if
             isinstance(node, h5py.Dataset) and node.ndim == 1]  # fmt: skip
    if not sizes or len(set(sizes)) > 1:
        raise opened.corrupt(f"{group.name} has arrays of different length, {sizes}, for the atoms of a molecule")
    columns = Columns(int(sizes[0]), None, None)
    values: dict[str, NDArray[Any]] = {}
    for stored, key in (("mass", "masses"), ("charge", "charges")):
        stored_values, _ = particle_values(opened, group, stored, columns)
        if stored_values is not None and stored_values.dtype.kind in "iuf":
            values[key] = stored_values.astype(np.float64)
    species, _ = particle_values(opened, group, "species", columns)
    if species is not None and species.dtype.kind in "iuf":
        values["elements"] = symbols(species)
    names = text_column(opened, group, NAMES["names"], columns)
    if names is not None:
        values["names"] = names
    residues, ids, residue_names = _residues_of(opened, group, columns)
    return _Molecule(columns.n_columns, values, residues, residue_names, ids)


def _residues_of(
    opened: H5mdFile, group: Any, columns: Columns
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.str_] | None]:
    """The residue of each atom of a molecule, numbers of the residues, and their names if there are any."""
    names = text_column(opened, group, NAMES["resnames"], columns)
    numbers_of_atoms, _ = particle_values(opened, group, NUMBERS["resids"], columns)
    if numbers_of_atoms is None or numbers_of_atoms.dtype.kind not in "iu":
        return np.zeros(columns.n_columns, np.int64), np.ones(1, np.int64), None
    ids = numbers_of_atoms.astype(np.int64)
    starts = np.ones(len(ids), bool)
    starts[1:] = ids[1:] != ids[:-1]
    if names is not None:
        starts[1:] |= names[1:] != names[:-1]
    return np.cumsum(starts) - 1, ids[starts], None if names is None else names[starts]


def text_column(opened: H5mdFile, group: Any, name: str, columns: Columns) -> NDArray[np.str_] | None:
    """One text for each particle: stored as such, or as indices into the data set `<name>_table`; None without them.

    Raises CorruptFileError for an index beyond the table.
    """
    values, _ = particle_values(opened, group, name, columns)
    if values is None:
        return None
    if values.dtype.kind in "SO":
        return text_array(opened, f"{group.name}/{name}", as_texts(values))
    table = table_of(group, name + TABLE)
    if table is None or values.dtype.kind not in "iu":
        return None
    most = _FREE_TABLE + _TABLE_AN_ATOM * values.size
    if table.nbytes > most:
        raise opened.corrupt(f"{table.name} has {table.nbytes} bytes of names, expected at most {most}")
    words = text_array(opened, table.name, as_texts(values_of(opened, table)), values.size)
    if values.size and (values.min() < 0 or values.max() >= len(words)):
        raise opened.corrupt(f"{group.name}/{name} has an index beyond the {len(words)} names of its table")
    return words[values] if values.size else words[:0]


def from_mdtraj(opened: H5mdFile) -> dict[str, Any] | None:
    """Columns of `Atoms`, and the number of atoms, from the JSON text that MDTraj stores; None if there is none.

    Raises CorruptFileError for a text that is not of MDTraj's form.
    """
    node = opened.file.get("topology")
    if not isinstance(node, h5py.Dataset) or node.size != 1:
        return None
    coordinates = opened.file["coordinates"]
    most = _FREE_JSON + (_JSON_AN_ATOM * coordinates.shape[1] if coordinates.ndim == 3 else 0)
    if node.nbytes > most:
        raise opened.corrupt(f"topology is a text of {node.nbytes} bytes, expected at most {most}")
    text = as_text(values_of(opened, node))
    if text is None:
        return None
    try:
        topology = json.loads(text)
        rows = [
            (chain_number, residue, atom)
            for chain_number, chain in enumerate(topology["chains"])
            for residue in chain["residues"]
            for atom in residue["atoms"]
        ]
        rows.sort(key=lambda row: row[2]["index"])
        n_atoms = len(rows)
        if [atom["index"] for _, _, atom in rows] != list(range(n_atoms)):
            raise ValueError("atoms are not numbered from 0")
        residues = [(residue["index"], chain, residue) for chain, residue, _ in rows]
        starts = np.array([i == 0 or residues[i][0] != residues[i - 1][0] for i in range(n_atoms)])
        bonds = np.array([bond[:2] for bond in topology.get("bonds", [])], np.int64).reshape(-1, 2)
        elements = [str(atom.get("element") or "") for _, _, atom in rows]
        fields: dict[str, Any] = {
            "n_atoms": n_atoms,
            "names": text_array(opened, "topology", [str(atom["name"]) for _, _, atom in rows]),
            "elements": text_array(opened, "topology", ["" if element == "VS" else element for element in elements]),
            "resindices": np.cumsum(starts) - 1,
            "resnames": text_array(opened, "topology", [str(residue["name"]) for _, _, residue in residues]),
            "resids": np.array([int(residue.get("resSeq", index)) for index, _, residue in residues], np.int64),
            "segids": text_array(
                opened, "topology", [str(residue.get("segmentID") or chain) for _, chain, residue in residues]
            ),
        }
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise opened.corrupt(f"topology is not MDTraj's JSON: {type(error).__name__} {error}") from None
    if bonds.size and (bonds.min() < 0 or bonds.max() >= n_atoms):
        raise opened.corrupt(f"topology has a bond beyond its {n_atoms} atoms")
    if bonds.size:
        fields["bonds"] = bonds
    return fields
