"""All registered analyses with arguments made from their declarations, and a solvated peptide to run them on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.analysis.declaration import Argument, arguments_of, takes_select
from kinema.analysis.declared import DeclaredAnalysis
from kinema.analysis.registry import ANALYSES
from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.testing.writers import write_dcd
from kinema.trajectory import Trajectory

#: atoms of a peptide for analyses that take a selection
SOME_ATOMS = "resid 2:5"

# two strands of adenylate kinase that lie beside each other
_RESIDUES = "resid 1:6 or resid 80:84"
_N_WATERS = 32
# edge of the rhombic dodecahedron, angstrom; the peptide crosses its faces
_EDGE = 24.0
# of TIP3P: angstrom, degrees, charges, masses
_BOND, _ANGLE = 0.9572, 104.52
_WATER = (("OH2", 75, -0.834, 15.9994), ("H1", 4, 0.417, 1.008), ("H2", 4, 0.417, 1.008))
# what atoms are drawn back by and pushed by in a frame: they stay within some 0.3 angstrom
_MEMORY, _PUSH = 0.95, 0.08


def examples_of(analysis: type[DeclaredAnalysis]) -> list[dict[str, Any]]:
    """Constructor arguments for a peptide: the required ones, alone and with each optional one."""
    arguments = arguments_of(analysis)
    given = {one.name: next(_values(one)) for one in arguments if one.required} | dict(analysis.short_run)
    choices = [{one.name: value} for one in arguments if not one.required for value in _values(one)]
    # if one of several is required, the first that may be alone
    needed = next((one for one in ({}, *choices) if _may_be({**given, **one}, analysis)), {})
    given |= needed
    found = [given, *({**given, **one} for one in choices if one != needed and _may_be({**given, **one}, analysis))]
    found += [one for one in choices if needed and one != needed and _may_be(one, analysis)]
    if takes_select(analysis):
        found += [one for one in ({**given, "select": SOME_ATOMS} for given in found) if _may_be(one, analysis)][:1]
    return found


def _may_be(given: dict[str, Any], analysis: type[DeclaredAnalysis]) -> bool:
    """Whether the arguments do not exclude each other, and none is missing."""
    try:
        analysis.check_arguments(given)
    except ArgumentError:
        return False
    return True


def every_analysis(trajectory: Trajectory, *, options: bool = True) -> list[DeclaredAnalysis]:
    """All registered analyses with all of their examples, or the first of each; notes are left out."""
    most = None if options else 1
    with collected():
        return [cls(trajectory, **given) for cls in ANALYSES.values() for given in examples_of(cls)[:most]]


def _values(argument: Argument) -> Iterator[Any]:
    """Values besides the default. Files of a reference have tests of their own."""
    match argument.kind:
        case "flag":
            yield not argument.default
        case "choice":
            yield from (None if one == "none" else one for one in argument.choices if one != argument.written_default)
        case "integer":
            yield int(max(1, argument.option.least))
        case "number":
            yield float(max(2.5, argument.option.least))
            yield from argument.choices
        case "atoms":
            yield argument.option.example or SOME_ATOMS
        case "list of atoms":
            yield [SOME_ATOMS, "name CA"]
        case "list of numbers":
            yield [2.5, 6.0]
        case "two numbers":
            yield (2.0, 9.0)
        case "tuples":
            # neighbours in the chain, overlapping
            each = argument.option.atoms_each
            yield np.arange(20)[:, None] * 2 + np.arange(each)


def option_words(analysis: type[DeclaredAnalysis], given: dict[str, Any], folder: Path) -> list[str]:
    """The words of the command line for arguments from `examples_of`; files that they read are written first."""
    words = []
    for one in arguments_of(analysis):
        if one.name not in given:
            continue
        value = given[one.name]
        match one.kind:
            case "flag":
                words += [one.flag] if value else [one.option.flag.partition("/")[2]]
            case "list of atoms":
                words += [word for text in value for word in (one.flag, text)]
            case "two numbers":
                words += [one.flag, *map(str, value)]
            case "list of numbers":
                words += [word for number in value for word in (one.flag, str(number))]
            case "tuples":
                path = folder / f"{one.name}.txt"
                np.savetxt(path, np.asarray(value) + 1, fmt="%d")
                words += [one.flag, str(path)]
            case _:
                words += [one.flag, "none" if value is None else str(value)]
    return [*words, "--select", given["select"]] if "select" in given else words


def write_solvated_peptide(folder: Path, n_frames: int, seed: int = 1) -> tuple[Path, Path]:
    """Residues 1 to 6 and 80 to 84 of adenylate kinase with 32 waters, as `peptide.psf` and `peptide.dcd`.

    Atoms move at random about their places, so that bonds, contacts and hydrogen bonds come and go.
    """
    import MDAnalysis
    from MDAnalysisTests import datafiles

    peptide = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD).select_atoms(_RESIDUES)
    peptide.positions -= peptide.center_of_geometry()
    random = np.random.default_rng(seed)
    places = np.concatenate([peptide.positions, _waters(peptide.positions, random)])
    topology, trajectory = folder / "peptide.psf", folder / "peptide.dcd"
    topology.write_text(_psf(peptide))
    cells = np.broadcast_to(_EDGE * np.array([[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0.5**0.5]]), (n_frames, 3, 3))
    write_dcd(trajectory, places + _motion(n_frames, len(places), random), cell=cells.astype(np.float32))
    return topology, trajectory


def _motion(n_frames: int, n_atoms: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Displacements, (frames, atoms, 3), of which each remembers the one before; none in the first frame."""
    displacements = np.zeros((n_frames, n_atoms, 3), np.float32)
    for before, after in pairwise(displacements):
        after[:] = _MEMORY * before + random.normal(0.0, _PUSH, before.shape)
    return displacements


def _waters(peptide: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
    """Atoms of waters turned at random, on a grid, the nearest to the peptide that do not touch it."""
    axis = np.arange(-15.0, 15.0, 3.1)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    nearest = np.linalg.norm(grid[:, None] - peptide, axis=-1).min(axis=1)
    free = np.flatnonzero(nearest > 2.6)
    oxygens = grid[free[np.argsort(nearest[free], kind="stable")[:_N_WATERS]]]
    half = np.radians(_ANGLE / 2)
    water = _BOND * np.array([[0, 0, 0], [np.sin(half), np.cos(half), 0], [-np.sin(half), np.cos(half), 0]])
    turns = [np.linalg.qr(random.normal(size=(3, 3)))[0] for _ in oxygens]
    return np.concatenate([oxygen + water @ turn for oxygen, turn in zip(oxygens, turns, strict=True)])


def _psf(peptide: Any) -> str:
    """The topology: atoms of the peptide and of the waters, then bonds, four pairs a line."""
    n_peptide = len(peptide)
    of_peptide = zip(
        peptide.resids, peptide.resnames, peptide.names, peptide.types, peptide.charges, peptide.masses, strict=True
    )
    atoms = [("PEP", *one) for one in of_peptide]
    atoms += [("WAT", number, "TIP3", *one) for number in range(1, _N_WATERS + 1) for one in _WATER]
    oxygens = range(n_peptide, len(atoms), len(_WATER))
    bonds = _bonds_within(peptide)
    bonds += [(oxygen, oxygen + hydrogen) for oxygen in oxygens for hydrogen in (1, 2)]
    lines = ["PSF", "", "       1 !NTITLE", " REMARKS a solvated peptide for tests", "", f"{len(atoms):8d} !NATOM"]
    lines += [
        f"{i:8d} {segment:<4} {residue:<4d} {resname:<4} {name:<4} {kind:>4} {charge:10.6f} {mass:13.4f} {0:11d}"
        for i, (segment, residue, resname, name, kind, charge, mass) in enumerate(atoms, 1)
    ]
    numbers = [f"{atom + 1:8d}" for bond in bonds for atom in bond]
    lines += ["", f"{len(bonds):8d} !NBOND: bonds", *("".join(numbers[i : i + 8]) for i in range(0, len(numbers), 8))]
    return "\n".join([*lines, ""])


def _bonds_within(peptide: Any) -> list[tuple[int, int]]:
    """Pairs of places in the peptide."""
    place = {index: i for i, index in enumerate(peptide.indices)}
    pairs = peptide.bonds.to_indices()
    return [(place[a], place[b]) for a, b in pairs if a in place and b in place]
