"""Rows of docs/differences.md about programs whose output is stored: GROMACS and cpptraj."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from difference_rows import HistogramRow, Row, System, of_frames

DATA = Path(__file__).resolve().parent.parent / "tests/data"
GMX = DATA / "gmx"
SOLVENT = "resname SOL"
# names of stored bonds of the protein, and the other group
GROUPS = {"protein": "protein", "water": SOLVENT}
POLAR = f"(protein or {SOLVENT}) and element"
# angstrom^2
SLAB_FACE = 19.0 * 18.0


def gromacs(system: System) -> list[Row]:
    """Stored output of `gmx`: the first frame of the large system, and all frames of small ones."""
    stored = np.load(GMX / "gmx.npz")
    near = kn.analysis.Neighbors(system.ours, "name OW", other="protein", cutoff=3.5).run(stop=1).results
    least = kn.analysis.MinimumDistance(system.ours, "protein", other="resname SOL", cutoff=4.5).run().results
    bulk, slab = (kn.open(GMX / f"{name}.xtc", topology=GMX / f"{name}.tpr", stored=False) for name in ("bulk", "slab"))
    counts = kn.analysis.InterRDF(bulk, "name OW", nbins=80, range=(0, 8)).run().results.count
    slices = kn.analysis.LinearDensity(slab, "all", binsize=1.0, axis="z").run().results
    theirs = stored["density-number"][:, 1] / 1000
    # atoms of all frames in each slice
    of_slices = [one * SLAB_FACE * 1.0 * len(slab) for one in (np.asarray(slices.number), theirs)]
    why = "distances and edges there are in single precision"
    return [
        Row(
            system.files,
            "oxygens of water within 3.5 angstrom of the protein",
            "`gmx select`",
            set(np.asarray(near.i).tolist()),
            set(stored["near-0"].tolist()),
            "",
        ),
        *(
            bonds_row(
                system,
                stored[f"hbond-{name}-0"],
                group,
                "gmx hbond -nomerge",
                'criterion="gromacs"',
                criterion_options={"criterion": "gromacs"},
            )
            for name, group in GROUPS.items()
        ),
        HistogramRow(
            system.files,
            "pairs of atoms of the protein and of water, 4.5 angstrom, ten frames",
            "`gmx mindist`",
            least.pairs,
            stored["contacts"],
            "distances there are in single precision",
        ),
        HistogramRow(
            "bulk",
            "pairs in bins up to 7.9 angstrom: oxygens of water",
            "`gmx rdf`",
            counts[1:-1].reshape(-1, 2).sum(axis=1),
            stored["rdf-none"][1:, 1] * 213 * len(bulk) * 0.02,
            why,
        ),
        HistogramRow("slab", "atoms in slices of 1 angstrom along z", "`gmx density`", *of_slices, why),
    ]


def bonds_row(
    system: System, bonds: Any, group: str, peer: str, criterion: str, criterion_options: dict[str, Any]
) -> Row:
    """Hydrogen bonds of the protein and a group in the first frame; `bonds` are those of the peer."""
    ours = kn.analysis.HydrogenBondAnalysis(
        system.ours,
        hydrogens_sel=f"{POLAR} H and bonded element N O",
        acceptors_sel=f"{POLAR} N O",
        between=["protein", group],
        **criterion_options,
    )
    found = of_frames(ours.run(stop=1).results, "donor", "hydrogen", "acceptor")
    what = f"hydrogen bonds of the protein and {'itself' if group == 'protein' else 'water'}, {criterion}"
    return Row(system.files, what, f"`{peer}`", found, {(0, *row) for row in bonds.tolist()}, "")


def cpptraj(system: System, protein: System) -> list[Row]:
    """Stored output of cpptraj: the first frame of the large system, and all frames of the others."""
    stored = np.load(DATA / "cpptraj/cpptraj.npz")
    shells = kn.analysis.WaterShell(system.ours, "protein", SOLVENT, radii=(3.4, 5.0)).run().results
    box = {"gridcenter": [40.0, 40.0, 28.0], "xdim": 60.0, "ydim": 60.0, "zdim": 52.0, "delta": 2.0}
    grid = kn.analysis.DensityAnalysis(system.ours, "name OW", **box).run(stop=1).results.density
    bulk = kn.open(GMX / "bulk.xtc", topology=GMX / "bulk.tpr", stored=False)
    counts = kn.analysis.InterRDF(bulk, "name OW", nbins=80, range=(0, 8)).run().results.count
    contacts = kn.analysis.Contacts(
        protein.ours, "name CA", radius=8.0, min_separation=5, method="radius_cut", minimum_image=False
    )
    native = np.rint(contacts.run().results.q[:, 0] * len(contacts.native[0].pairs))
    edge = "a pair lies upon an edge of two bins; distances there are in double precision, from positions in nm"
    return [
        HistogramRow(
            system.files,
            "waters within 3.4 and within 5 angstrom of the protein, ten frames",
            "`watershell`",
            shells.cumulative,
            stored["watershell"],
            "",
        ),
        *(
            bonds_row(
                system,
                stored[f"hbond-{name}-0"],
                group,
                "hbond",
                "3 angstrom, 135 degrees",
                criterion_options={"d_a_cutoff": 3.0, "d_h_a_angle_cutoff": 135.0},
            )
            for name, group in GROUPS.items()
        ),
        cpptraj_bridges(system, stored),
        HistogramRow(system.files, "oxygens of water in bins of 2 angstrom", "`grid`", grid * 8.0, stored["grid"], ""),
        HistogramRow(
            "bulk",
            "pairs in bins up to 8 angstrom: oxygens of water",
            "`radial`",
            counts,
            stored["radial-raw"][:, 1],
            edge,
        ),
        HistogramRow(
            protein.files,
            "native contacts of C-alpha, 8 angstrom, min_separation=5, 98 frames",
            "`nativecontacts resoffset 4`",
            native,
            stored["nativecontacts"][:, 1],
            "",
        ),
        cpptraj_states(protein, stored),
    ]


def cpptraj_bridges(system: System, stored: Any) -> Row:
    """Sets of residues that a water connects, each with the number of its waters."""
    found = kn.analysis.WaterBridgeAnalysis(
        system.ours,
        "protein",
        "protein",
        water_selection=SOLVENT,
        hydrogens_sel=f"{POLAR} H and bonded element N O",
        acceptors_sel=f"{POLAR} N O",
        criterion="distance-angle",
        distance=3.0,
        angle=135.0,
    ).run(stop=1)
    residues = system.universe.atoms.resindices
    sides: dict[int, set[int]] = defaultdict(set)
    for first, water, second in found.bridges()[0]:
        sides[water] |= {int(residues[first]), int(residues[second])}
    sets = [tuple(sorted(one)) for one in sides.values() if len(one) > 1]
    ours = {(one, sets.count(one)) for one in sets}
    theirs = {(tuple(one for one in row[:-1] if one >= 0), row[-1]) for row in stored["bridges-0"].tolist()}
    return Row(system.files, "sets of residues that one water connects", "`hbond ... bridgeout`", ours, theirs, "")


def cpptraj_states(system: System, stored: Any) -> Row:
    """Letters of the secondary structure, all frames."""
    states = kn.analysis.DSSP(system.ours, "protein", hydrogens="file", pi="1983").run().results.values
    theirs = np.frombuffer(b" EBGHITS", np.uint8)[stored["secstruct"]]
    letters = (
        set(zip(*np.indices(one.shape).reshape(2, -1).tolist(), one.ravel().tolist(), strict=True))
        for one in (states, theirs)
    )
    why = "a bridge beside another bridge of the chain is E there, also if the two make no ladder"
    return Row(system.files, 'letters of the secondary structure, pi="1983", 98 frames', "`secstruct`", *letters, why)
