"""Names and versions of the H5MD specification (1.1), of its modules, and of Kinema's attributes in H5MD files.

The data sets of an element, `value`, `step` and `time`, and its attributes `unit` and `offset` are not listed here, but
written out in the code.
"""

from __future__ import annotations

VERSION, UNITS_VERSION = (1, 1), (1, 0)
DIMENSION = 3

METADATA, PARTICLES, OBSERVABLES, CONNECTIVITY = "h5md", "particles", "observables", "connectivity"
"""Groups of the root."""

MODULES = f"{METADATA}/modules"
GROMACS_TOPOLOGY = f"{MODULES}/gromacs_topology"
"""Module of GROMACS (version 0.1, mdrun 2026): molecules and the number of copies of each."""

ELEMENTS = {"positions": "position", "velocities": "velocity", "forces": "force"}
"""Kinema's names of fields, and the names of the elements of a particles group."""
FIELDS = tuple(ELEMENTS)

PLURALS = {"force": ("forces",), "velocity": ("velocities",), "position": ("positions",)}
"""Other names under which programs (ZnH5MD) store an element."""

PER_PARTICLE = ("id", "species", "mass", "charge", "radius")
"""Elements of a particles group with one value for each particle; `radius` is not in the specification."""

NAMES = {
    "names": "particle_name",
    "types": "particle_type",
    "elements": "particle_element",
    "resnames": "residue_name",
    "icodes": "residue_insertion_code",
    "segids": "segment_name",
    "chainIDs": "chain_name",
}
"""Columns of `kinema.Atoms` that are text, and the data sets of a particles group that hold them: for each particle the
index into the data set of the same name with the suffix `TABLE`. The specification has no place for names.
`particle_name`, `residue_name`, their tables and `residue_id` are those of GROMACS 2026 (H5MD module
`gromacs_topology`, the same there for a molecule); the others are formed alike."""
TABLE = "_table"

NUMBERS = {"resids": "residue_id", "resindices": "residue_index", "molnums": "molecule_index"}
"""Columns that are whole numbers. `residue_index` exists if neighbouring residues agree in everything else."""

PROVENANCE = "parameters/kinema/provenance"
"""Provenance of a file of Kinema's, as JSON in UTF-8: a scalar. The group `parameters` is for data of applications."""

GUESSED = "kinema_guessed"
"""Attribute of data sets of particles whose values were guessed: the program that guessed them."""

MAX_ERROR, MAX_ERROR_UNIT, ROUNDING = "kinema_max_error", "kinema_max_error_unit", "kinema_rounding"
"""Attributes of rounded positions: the bound, its unit, and how they were rounded."""

SYMBOLS = tuple(
    (
        "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr "
        "Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir "
        "Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh "
        "Fl Mc Lv Ts Og"
    ).split()
)
"""Symbols of the elements, by atomic number from 1."""
