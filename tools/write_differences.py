"""Writes docs/differences.md: near pairs, groups, bonds, contacts and histograms of Kinema and its peers.

Each row is counted on the same files by both programs; a test keeps the page current.

    PYTHONPATH=python:tools python tools/write_differences.py
"""

import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from difference_rows import HistogramRow, Row, System, of_frames
from stored_differences import cpptraj, gromacs

PAGE = Path(__file__).resolve().parent.parent / "docs/differences.md"
SOLVENT = "resname SOL"
# frames of the large system, 47,681 atoms, that are compared
FRAMES = 1
HEAD = """\
# Differences from MDAnalysis, MDTraj, GROMACS and cpptraj

Near pairs, groups that change with the frame, hydrogen bonds, water bridges, native contacts and histograms, counted by
Kinema and by {versions} on the same files of MDAnalysisTests: `TPR, XTC` is
adenylate kinase in water in a rhombic dodecahedron (the first frame), `PSF, DCD` the protein alone without a cell,
`waterPSF, waterDCD` a box of water (ten frames each). `bulk` and `slab` are 213 waters in a cube and 199 with vacuum
about them (six frames each), in `tests/data/gmx`, with the stored output of `gmx`; that of cpptraj is in
`tests/data/cpptraj`. A row counts pairs, atoms, bonds or bridges of all these frames; of a histogram, the counts of all
bins, where "in both" is the smaller count of each bin.
`python tools/write_differences.py` writes this page, and a test counts all rows again.

| files | what | Kinema | peer | in both | Kinema alone | peer alone | why |
|---|---|---|---|---|---|---|---|
"""
TAIL = """
Where numbers of GROMACS 2022.5 differ by definition, which the tests take into account:

- `gmx rdf`: bins lie about multiples of `-bin`, so that the first is half as wide; within one group, the density is
  that of n atoms, and of n - 1 here; `-norm number_density` is per atom of the first group.
- `gmx potential`: integrates by the trapezoidal rule; `-correct` also takes off the mean field of slices with charges,
  and so changes the potential of a neutral system.
- `gmx covar`: divides by the number of frames, not by one less.
- `gmx cluster -method gromos`: if several frames have the most neighbours, the earliest need not come first.
- `gmx sasa`: other points on the spheres.
- `gmx hbond`: bonds of several hydrogens of a donor with one acceptor count once, unless `-nomerge` is given.

Where numbers of cpptraj 7.6.2 differ by definition, which the tests take into account; least distances of residues,
matrices of RMSDs and of correlations, RMSF, B factors, average structures, and labels and representatives of clusters
are equal to its last digit:

- `radial volume`: takes the mean of the volumes, as `volume="mean"` does here.
- `density`: numbers, masses and charges are sums of a slice, electrons are divided by its volume.
- `diagmatrix`: its covariance is divided by the number of frames, not by one less.
- `nativecontacts resoffset 4`: leaves out pairs up to four residues apart, as `min_separation=5` does here.
- `hbond`: takes the atoms of `donormask` and `acceptormask` whatever their elements are, also carbons and hydrogens;
  the massless sites in `solventdonor :SOL` count as ions, without an angle (907 bonds), `:SOL@OW` has none (401).
- `hbond ... bridgeout`: counts the waters that connect a set of two or more residues; a row here is one chain of bonds.
- `surf`: areas by pairs of neighbours (LCPO) without hydrogens, 4 to 8 per cent larger than those of the points here.
"""


def rows() -> list[Row]:
    """All rows of the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solvated, protein, water = (
            System.named(*names) for names in (("TPR", "XTC"), ("PSF", "DCD"), ("waterPSF", "waterDCD"))
        )
        return [
            *pairs(solvated),
            *groups(solvated),
            *hydrogen_bonds(solvated, protein, water),
            *bridges(solvated),
            *contacts(protein),
            *distributions(solvated),
            *densities(solvated, water),
            *gromacs(solvated),
            *cpptraj(solvated, protein),
        ]


def pairs(system: System) -> list[Row]:
    """Near pairs, and atoms near others."""
    from MDAnalysis.lib.distances import capped_distance, self_capped_distance

    heavy, oxygens = "protein and not name H*", "name OW"
    two = kn.analysis.Neighbors(system.ours, heavy, other=oxygens, cutoff=3.5).run(stop=FRAMES).results
    within = kn.analysis.Neighbors(system.ours, heavy, cutoff=4.5).run(stop=FRAMES).results
    first, second = (system.universe.select_atoms(one) for one in (heavy, oxygens))
    theirs, theirs_within = set(), set()
    for frame, step in system.steps(FRAMES):
        found, _ = capped_distance(first.positions, second.positions, 3.5, box=step.dimensions)
        atoms = np.column_stack([first.indices[found[:, 0]], second.indices[found[:, 1]]])
        theirs |= {(frame, *pair) for pair in atoms.tolist()}
        found, _ = self_capped_distance(first.positions, 4.5, box=step.dimensions)
        theirs_within |= {(frame, *pair) for pair in np.sort(first.indices[found], axis=1).tolist()}
    return [
        Row(
            system.files,
            "pairs of heavy atoms of the protein and oxygens of water, 3.5 angstrom",
            "`capped_distance`",
            of_frames(two, "i", "j"),
            theirs,
            "",
        ),
        Row(
            system.files,
            "pairs of heavy atoms of the protein, 4.5 angstrom",
            "`self_capped_distance`",
            of_frames(within, "i", "j"),
            theirs_within,
            "",
        ),
        *of_water(system, second),
    ]


def of_water(system: System, oxygens: Any) -> list[Row]:
    """Pairs of all oxygens of water, by MDAnalysis at a large cutoff and by MDTraj's list, which takes nm."""
    import mdtraj
    from MDAnalysis.lib.distances import self_capped_distance

    step = system.universe.trajectory[0]
    large, small = (
        kn.analysis.Neighbors(system.ours, oxygens.indices, cutoff=cutoff).run(stop=1).results for cutoff in (10.0, 3.5)
    )
    found, _ = self_capped_distance(oxygens.positions, 10.0, box=step.dimensions)
    topology = mdtraj.Topology()
    residue = topology.add_residue("ALL", topology.add_chain())
    for _ in oxygens:
        topology.add_atom("O", mdtraj.element.oxygen, residue)
    made = mdtraj.Trajectory(oxygens.positions[None] / 10, topology)
    made.unitcell_vectors = step.triclinic_dimensions[None] / 10
    near = mdtraj.compute_neighborlist(made, 0.35)
    theirs = {pair for i, one in enumerate(near) for pair in sorted_pairs(oxygens.indices[i], oxygens.indices[one])}
    return [
        Row(
            system.files,
            "pairs of oxygens of water, 10 angstrom",
            "`self_capped_distance`",
            set(sorted_pairs(large.i, large.j)),
            set(sorted_pairs(*oxygens.indices[found].T)),
            "pairs within rounding of the cutoff may differ: double precision here, single precision there",
        ),
        Row(
            system.files,
            "pairs of oxygens of water, 3.5 angstrom",
            "`md.compute_neighborlist`",
            set(sorted_pairs(small.i, small.j)),
            theirs,
            "MDTraj's list misses images in cells that are not right-angled",
        ),
    ]


def sorted_pairs(i: Any, j: Any) -> list[tuple[int, int]]:
    """Pairs of atoms, the lower one first."""
    i, j = np.broadcast_arrays(i, j)
    return list(zip(np.minimum(i, j).tolist(), np.maximum(i, j).tolist(), strict=True))


def groups(system: System) -> list[Row]:
    """Atoms of groups that change with the frame."""
    made = []
    for select in (
        "name OW and around 3.5 protein",
        "name OW and sphlayer 15 20 protein",
        "name OW and cyzone 12 8 -8 protein",
        "byres (name OW and point 30 30 30 10)",
    ):
        group = system.universe.select_atoms(select, updating=True)
        ours: set[Any] = set()
        theirs = {(frame, atom) for frame, _ in system.steps(FRAMES) for atom in group.indices.tolist()}
        for frame in range(FRAMES):
            ours |= {(frame, atom) for atom in system.ours.select(select, frame=frame).indices.tolist()}
        made.append(Row(system.files, f'atoms of "{select}"', "`updating=True`", ours, theirs, ""))
    return made


def hydrogen_bonds(solvated: System, protein: System, water: System) -> list[Row]:
    """Bonds as triples of atoms."""
    from MDAnalysis.analysis.hydrogenbonds import HydrogenBondAnalysis

    solute = {"hydrogens_sel": "protein and name H HE* HH* HZ* HG1", "acceptors_sel": "protein and name O* ND1 NE2"}
    shell = {"hydrogens_sel": "name HW* and around 3 protein", "acceptors_sel": "protein and name O*"}
    made = []
    for system, what, stop, given in (
        (protein, "hydrogen bonds, atoms guessed", 10, {}),
        (water, "hydrogen bonds, atoms guessed", 10, {}),
        (solvated, "hydrogen bonds within the protein", FRAMES, solute),
        (solvated, 'hydrogen bonds of "name HW* and around 3 protein" to the protein', FRAMES, shell),
    ):
        results = kn.analysis.HydrogenBondAnalysis(system.ours, **given).run(stop=stop).results
        ours = of_frames(results, "donor", "hydrogen", "acceptor")
        peer = HydrogenBondAnalysis(system.universe, **given).run(stop=stop).results.hbonds
        theirs = set(map(tuple, peer[:, :4].astype(int).tolist()))
        made.append(Row(system.files, what, "`HydrogenBondAnalysis`", ours, theirs, ""))
    return made


def bridges(system: System) -> list[Row]:
    """Bridges of one water as pairs of bonds, (hydrogen, acceptor) each."""
    from MDAnalysis.analysis.hydrogenbonds.wbridge_analysis import WaterBridgeAnalysis

    ends = {"selection1": "protein and resname ARG", "selection2": "protein and resname ASP GLU"}
    names = ["NE", "NH1", "NH2", "N", "O", "OE1", "OE2", "OD1", "OD2", "OW"]
    given, words = {"distance": 3.0, "angle": 120.0, "order": 1}, " ".join(names)
    # MDAnalysis takes seconds for all waters
    near = system.universe.select_atoms("resname SOL and byres around 5 (protein and resname ARG ASP GLU)")
    water = f"index {' '.join(map(str, near.indices))}"
    peer = WaterBridgeAnalysis(
        system.universe, **ends, water_selection=water, filter_first=True, forcefield="other", pbc=True,
        donors=names, acceptors=names, **given,
    ).run(stop=1)  # fmt: skip
    ours = kn.analysis.WaterBridgeAnalysis(
        system.ours, **ends, water_selection=water, **given,
        hydrogens_sel=f"name H* and bonded (name {words})", acceptors_sel=f"name {words}",
    ).run(stop=1)  # fmt: skip
    results = ours.results
    found: dict[int, list[tuple[int, int]]] = {}
    for bridge, hydrogen, acceptor in zip(results.bridge, results.hydrogen, results.acceptor, strict=True):
        found.setdefault(int(bridge), []).append((int(hydrogen), int(acceptor)))
    return [
        Row(
            system.files,
            "bridges of one water from ARG to ASP and GLU, names of donors and acceptors given",
            "`WaterBridgeAnalysis(pbc=True)`",
            {tuple(chain) for chain in found.values()},
            {chain for chain in chains_of(peer.results.network[0]) if len(chain) == 2},
            "by default MDAnalysis' bridges have no images, and take donors and acceptors by the names of CHARMM",
        )
    ]


def chains_of(network: dict[Any, Any] | None, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The chains of bonds of MDAnalysis' network."""
    if network is None:
        return [before]
    found = []
    for (first, first_heavy, second, _, _, _), rest in network.items():
        hydrogen, acceptor = (second, first) if first_heavy is None else (first, second)
        found += chains_of(rest, (*before, (int(hydrogen), int(acceptor))))
    return found


def contacts(system: System) -> list[Row]:
    """Native contacts as pairs of atoms."""
    from MDAnalysis.analysis.contacts import Contacts

    made = []
    acidic, basic = "(resname ASP GLU) and name OE* OD*", "(resname ARG LYS) and name NH* NZ"
    for what, words, radius, why in (
        ("native contacts of acids and bases, 6 angstrom", (acidic, basic), 6.0, ""),
        (
            "native contacts within C-alpha, 8 angstrom",
            ("name CA", "name CA"),
            8.0,
            "there each pair counts twice, and each atom with itself; `count_self=True` gives these numbers",
        ),
    ):
        system.universe.trajectory[0]
        atoms = tuple(system.universe.select_atoms(one) for one in words)
        peer = Contacts(system.universe, select=words, refgroup=atoms, radius=radius)
        at = np.argwhere(peer.initial_contacts[0])
        theirs = set(zip(atoms[0].indices[at[:, 0]].tolist(), atoms[1].indices[at[:, 1]].tolist(), strict=True))
        ours = kn.analysis.Contacts(system.ours, words, radius=radius).native[0].pairs
        made.append(Row(system.files, what, "`Contacts`", set(map(tuple, ours.tolist())), theirs, why))
    return made


def distributions(system: System) -> list[Row]:
    """Counts of radial distribution functions."""
    from MDAnalysis.analysis.rdf import InterRDF

    made: list[Row] = []
    oxygens, carbons = "name OW", "name CA"
    why = "distances and edges there are in single precision"
    for first, other, given, own, what in (
        (carbons, oxygens, {}, {}, "C-alpha - oxygen of water"),
        (oxygens, None, {"exclusion_block": (1, 1)}, {}, "oxygens of water, exclusion_block=(1, 1) there"),
        (carbons, None, {}, {}, "C-alpha"),
        (carbons, None, {}, {"count_self": True}, "C-alpha, count_self=True here"),
    ):
        ours = kn.analysis.InterRDF(system.ours, first, other, range=(0.0, 10.0), **own).run(stop=FRAMES).results.count
        one = system.universe.select_atoms(first)
        two = one if other is None else system.universe.select_atoms(other)
        theirs = InterRDF(one, two, range=(0.0, 10.0), **given).run(stop=FRAMES).results.count
        reason = why
        if other is None and not given and not own:
            reason = "an atom and itself count there"
        made.append(
            HistogramRow(system.files, f"pairs in bins up to 10 angstrom: {what}", "`InterRDF`", ours, theirs, reason)
        )
    return made


def densities(solvated: System, water: System) -> list[Row]:
    """Counts of slices and of grids."""
    from MDAnalysis.analysis.density import DensityAnalysis
    from MDAnalysis.analysis.lineardensity import LinearDensity

    profile = kn.analysis.LinearDensity(water.ours, "name OH2", quantity="mass", binsize=1.0).run().results.z
    theirs = LinearDensity(water.universe.select_atoms("name OH2"), binsize=1.0).run().results.z
    mass = water.universe.select_atoms("name OH2").masses[0] * 1.66053906892
    # mean counts of a frame, times the frames
    of = [one.mass_density * one.slice_volume / mass * len(water.universe.trajectory) for one in (profile, theirs)]
    grid = {"gridcenter": [40.0, 40.0, 28.0], "xdim": 60.0, "ydim": 60.0, "zdim": 50.0, "delta": 2.0}
    ours = kn.analysis.DensityAnalysis(solvated.ours, "name OW", **grid).run(stop=FRAMES).results
    of_grid = DensityAnalysis(solvated.universe.select_atoms("name OW"), **grid).run(stop=FRAMES).results.density.grid
    why = "edges there are in single precision"
    return [
        HistogramRow(water.files, "oxygens in slices of 1 angstrom along z", "`LinearDensity`", *of, why),
        HistogramRow(
            solvated.files,
            "oxygens of water in bins of 2 angstrom",
            "`DensityAnalysis`",
            ours.density * 8.0 * FRAMES,
            of_grid * 8.0 * FRAMES,
            why,
        ),
    ]


def versions() -> str:
    """The peers with their versions."""
    return f"MDAnalysis {version('MDAnalysis')} and MDTraj {version('mdtraj')}"


def page() -> str:
    """The whole page."""
    table = "\n".join(row.written() for row in rows())
    return HEAD.format(versions=versions()) + table + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
