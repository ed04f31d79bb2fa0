"""The formats that Kinema reads and writes, as data; the core declares those that Kinema reads itself."""

from __future__ import annotations

from kinema._core import formats as core_formats
from kinema.base.frozen_dataclass import dataclass


@dataclass(frozen=True)
class FormatInfo:
    """Facts about a file format.

    Attributes
    ----------
    name : str
    file_names : tuple of str
        File names without an extension: "HISTORY".
    extensions : tuple of str
        Extensions of file names, without the dot. The first bytes of a file decide, not its name.
    description : str
    reads, writes : bool
    fields : tuple of str
        Fields that a file of the format may hold.
    length_unit, time_unit : str
        The file's own units; Kinema gives angstrom and ps.
    reference : str
        Where the format is specified.
    slow : bool
        Read frame by frame through MDAnalysis; `kinema.open` takes whatever else MDAnalysis reads as well.
    """

    name: str
    extensions: tuple[str, ...]
    description: str
    reads: bool
    writes: bool
    fields: tuple[str, ...]
    length_unit: str
    time_unit: str
    reference: str
    slow: bool = False
    file_names: tuple[str, ...] = ()


def _through_mdanalysis(name: str, endings: str, description: str, fields: str) -> FormatInfo:
    return FormatInfo(
        name=name,
        extensions=tuple(endings.split()),
        description=description,
        reads=True,
        writes=name in ("PDB", "GRO"),
        fields=tuple(fields.split()),
        length_unit="as MDAnalysis converts it",
        time_unit="as MDAnalysis converts it",
        reference="MDAnalysis, doi 10.25080/Majora-629e541a-00e",
        slow=True,
    )


# formats of files that MDAnalysis reads and Kinema does not; their fields are those that MDAnalysis gives
_THROUGH_MDANALYSIS = tuple(
    _through_mdanalysis(*one)
    for one in (
        ("TRJ", "trj mdcrd crdbox", "AMBER text trajectory; needs a topology", "positions cell"),
        ("INPCRD", "inpcrd restrt rst7", "AMBER restart file", "positions time"),
        ("LAMMPSDUMP", "lammpsdump lammpstrj dump", "LAMMPS dump", "positions velocities forces cell step"),
        ("DATA", "data", "LAMMPS data file; needs a topology", "positions velocities cell"),
        ("TRC", "trc", "GROMOS11 trajectory", "positions cell step time"),
        ("TRZ", "trz", "IBIsCO and YASP trajectory; needs a topology", "positions velocities cell time"),
        ("TNG", "tng", "TNG, with the package pytng", "positions velocities forces cell step time"),
        ("GSD", "gsd", "HOOMD, with the package gsd", "positions cell step"),
        ("XYZ", "xyz", "XYZ", "positions"),
        ("TXYZ", "txyz arc", "Tinker", "positions"),
        ("PDB", "pdb ent", "Protein Data Bank, one model or several", "positions cell"),
        ("CIF", "cif mmcif", "mmCIF", "positions cell"),
        ("PDBQT", "pdbqt", "AutoDock", "positions cell"),
        ("PQR", "pqr", "PDB with charges and radii", "positions"),
        ("GRO", "gro", "GROMACS coordinates; the first frame of a file", "positions velocities cell step time"),
        ("CRD", "crd", "CHARMM coordinates", "positions"),
        ("COOR", "coor namdbin", "NAMD binary coordinates", "positions"),
        ("MOL2", "mol2", "Tripos molecules, a frame each", "positions"),
        ("DMS", "dms", "DESRES molecular structure", "positions velocities"),
        ("GMS", "gms", "GAMESS output", "positions"),
        ("IN", "in fhiaims", "FHI-aims input", "positions velocities cell"),
    )
)


EXTERNAL_ENDINGS = {ending: one.name for one in _THROUGH_MDANALYSIS for ending in one.extensions}
"""MDAnalysis' names of formats by the usual extensions."""


def formats() -> tuple[FormatInfo, ...]:
    """All formats: those that Kinema reads itself, in the order in which files are tried, then the slow ones."""
    own = tuple(
        FormatInfo(
            name=known["name"],
            extensions=tuple(known["extensions"]),
            description=known["description"],
            reads=known["reads"],
            writes=known["writes"],
            fields=tuple(known["fields"]),
            length_unit=known["length_unit"],
            time_unit=known["time_unit"],
            reference=known["reference"],
            file_names=tuple(known["file_names"]),
        )
        for known in core_formats()
    )
    return own + _THROUGH_MDANALYSIS
