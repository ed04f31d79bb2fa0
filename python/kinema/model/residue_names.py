"""Names of residues: waters, nucleotides, and which amino acid a name of a force field or of a file stands for."""

from __future__ import annotations

AMINO_ACIDS: tuple[str, ...] = tuple(
    "ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL".split()
)
"""The twenty that are coded for, in alphabetical order."""

NUCLEOTIDES = frozenset(
    "A C G U T DA DC DG DT DU RA RC RG RU ADE CYT GUA URA THY A5 A3 C5 C3 G5 G3 U5 U3 DA5 DA3 DC5 DC3 DG5 DG3 DT5 DT3 "
    "RA5 RA3 RC5 RC3 RG5 RG3 RU5 RU3".split()
)
"""Names of nucleotides in PDB files and force fields."""

# as in MDAnalysis' selection "water"
WATERS: tuple[str, ...] = (
    *("H2O", "HOH", "OH2", "HHO", "OHH", "T3P", "T4P", "T5P", "SOL", "WAT"),
    *("TIP", "TIP2", "TIP3", "TIP4", "TP3", "TP4", "TP5", "SPC"),
)

# protonation states and other names, in Amber, CHARMM, GROMOS and OPLS
_OTHER_NAMES = {
    "ARG": "ARGN",
    "ASP": "ASH ASPP ASPH AS4 ASPA ASPM",
    "CYS": "CYX CYM CYSH CYS1 CYS2 CYN",
    "GLU": "GLH GLUP GLUH GL4 GLUA GLUM",
    "HIS": "HID HIE HIP HSD HSE HSP HISA HISB HISD HISE HISH HISP HIS1 HIS2",
    "LYS": "LYN LSN LYSH LYSN LYP",
    "TYR": "TYM",
}
_STANDARD = {name: name for name in AMINO_ACIDS} | {
    other: name for name, others in _OTHER_NAMES.items() for other in others.split()
}


def amino_acid(name: str) -> str:
    """The amino acid that a residue of this name is, "HIS" for "HIE"; "" if it is none.

    Amber's names of the first and last residue of a chain, such as NALA and CHIE, count.
    """
    name = name.upper()
    found = _STANDARD.get(name, "")
    if not found and len(name) == 4 and name[0] in "NC":
        found = _STANDARD.get(name[1:], "")
    return found
