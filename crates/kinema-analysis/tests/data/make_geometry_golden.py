"""Writes the golden values of geometry: MDAnalysis' and MDTraj's own, and NumPy's in float64 beside them.

Run with MDAnalysis, MDAnalysisTests and MDTraj installed: `python make_geometry_golden.py`; it writes into `golden/`.
"""

import itertools
from pathlib import Path

import MDAnalysis as mda
import mdtraj
import numpy as np
from MDAnalysis.lib import distances
from MDAnalysisTests import datafiles

OUT = Path(__file__).parent / "golden"
SYSTEMS = {
    "adk": ("PSF", "DCD", (0, 97), "backbone and name N CA C"),
    "orthorhombic": ("PRMncdf", "NCDF", (0, 29), "index 0:299"),
    "triclinic": ("PSF_TRICLINIC", "DCD_TRICLINIC", (0, 9), "all"),
}
PERIODIC_ITEMS = 100


def frames(name):
    """Positions (float32), row vectors of the cell (float32, zero without one), and masses of a system's frames."""
    topology, trajectory, numbers, select = SYSTEMS[name]
    u = mda.Universe(getattr(datafiles, topology), getattr(datafiles, trajectory))
    atoms = u.select_atoms(select)
    for number in numbers:
        ts = u.trajectory[number]
        box = None if name == "adk" else ts.dimensions.copy()
        cell = np.zeros((3, 3), "f4") if box is None else mda.lib.mdamath.triclinic_vectors(box)
        yield atoms.positions.copy(), cell, box, atoms.masses


def as_mdtraj(positions, cell):
    top = mdtraj.Topology()
    residue = top.add_residue("ALL", top.add_chain())
    for _ in positions:
        top.add_atom("C", mdtraj.element.carbon, residue)
    t = mdtraj.Trajectory(positions[None] / 10, top)
    if cell.any():
        t.unitcell_vectors = cell[None] / 10
    return t


def nearest(vectors, cell):
    """The shortest of 125 images of a compact basis; the basis is made compact by trying all small sums."""
    if not cell.any():
        return vectors
    whole = np.array(list(itertools.product(range(-3, 4), repeat=3)))
    sums = whole @ cell.astype("f8")
    order = np.argsort((sums**2).sum(axis=1), kind="stable")[1:]
    basis = []
    for i in order:
        if np.linalg.matrix_rank([*basis, sums[i]], tol=1e-3) > len(basis):
            basis.append(sums[i])
    basis = np.array(basis)
    assert np.isclose(abs(np.linalg.det(basis)), abs(np.linalg.det(cell.astype("f8"))))
    rounded = vectors - np.rint(vectors @ np.linalg.inv(basis)) @ basis
    images = rounded[:, None] + np.array(list(itertools.product(range(-2, 3), repeat=3))) @ basis
    return images[np.arange(len(images)), (images**2).sum(axis=2).argmin(axis=1)]


def by_numpy(points, cell):
    """Length, angle or dihedral in float64: the angle between vectors, and that of projections onto a plane."""
    bonds = [nearest(b.astype("f8") - a.astype("f8"), cell) for a, b in itertools.pairwise(points)]
    if len(bonds) == 1:
        return np.linalg.norm(bonds[0], axis=1)
    if len(bonds) == 2:
        u, v = (b / np.linalg.norm(b, axis=1)[:, None] for b in (-bonds[0], bonds[1]))
        return 2 * np.arctan2(np.linalg.norm(u - v, axis=1), np.linalg.norm(u + v, axis=1))
    axis = bonds[1] / np.linalg.norm(bonds[1], axis=1)[:, None]
    before, after = (b - (b * axis).sum(axis=1)[:, None] * axis for b in (-bonds[0], bonds[2]))
    return np.arctan2((np.cross(axis, before) * after).sum(axis=1), (before * after).sum(axis=1))


def items(name, n_atoms, length, rng):
    """Phi and psi of the protein, every fourth of its bonds and angles; atoms at random in periodic systems."""
    if name == "adk":
        start = np.arange(0, 213, 1 if length == 4 else 4)[:, None] * 3
        return np.concatenate([start + 2 + np.arange(length), start + np.arange(length)])
    return np.array([rng.choice(n_atoms, length, replace=False) for _ in range(PERIODIC_ITEMS)])


def of_items(length, rng):
    by_mda = {2: distances.calc_bonds, 3: distances.calc_angles, 4: distances.calc_dihedrals}[length]
    by_mdtraj = {2: mdtraj.compute_distances, 3: mdtraj.compute_angles, 4: mdtraj.compute_dihedrals}[length]
    rows = []
    for system, name in enumerate(SYSTEMS):
        for frame, (positions, cell, box, _) in enumerate(frames(name)):
            chosen = items(name, len(positions), length, rng)
            points = [positions[column] for column in chosen.T]
            theirs = by_mdtraj(as_mdtraj(positions, cell), chosen, periodic=bool(cell.any()))[0]
            if length == 2:
                theirs = theirs * 10
            columns = [by_mda(*points, box=box), theirs, by_numpy(points, cell)]
            for atoms, *values in zip(chosen, *columns, strict=True):
                rows.append([system, frame, *atoms, *values])
    return np.array(rows)


def table(name, header, rows, fmt="%.17g"):
    np.savetxt(OUT / f"{name}.csv", rows, delimiter=",", header=",".join(header), comments="", fmt=fmt)


def shapes():
    """Centres and gyration tensors of the protein's backbone."""
    rows = []
    topology, trajectory, numbers, select = SYSTEMS["adk"]
    u = mda.Universe(getattr(datafiles, topology), getattr(datafiles, trajectory))
    atoms = u.select_atoms(select)
    for number in numbers:
        u.trajectory[number]
        t = as_mdtraj(atoms.positions, np.zeros((3, 3)))
        tensor = mdtraj.compute_gyration_tensor(t)[0] * 100
        rows.append(
            [
                *atoms.center_of_mass(),
                *atoms.center_of_geometry(),
                *np.sort(atoms.gyration_moments()),
                atoms.asphericity(),
                *tensor[np.triu_indices(3)],
                *np.sort(mdtraj.principal_moments(t)[0] * 100),
                mdtraj.asphericity(t)[0] * 100,
                mdtraj.acylindricity(t)[0] * 100,
                mdtraj.relative_shape_antisotropy(t)[0],
            ]
        )
    names = "mass_x mass_y mass_z mean_x mean_y mean_z moment_1 moment_2 moment_3 mda_asphericity xx xy xz yy yz zz"
    table(
        "geometry_shapes",
        [*names.split(), *"plain_1 plain_2 plain_3 asphericity acylindricity anisotropy".split()],
        rows,
    )
    table("geometry_masses", ["mass"], atoms.masses[:, None])


def main():
    rng = np.random.default_rng(23)
    cells = []
    for system, name in enumerate(SYSTEMS):
        kept = list(frames(name))
        np.array([positions for positions, *_ in kept], dtype="<f4").tofile(OUT / f"geometry_{name}.f32")
        cells += [[system, frame, *cell.ravel()] for frame, (_, cell, *_) in enumerate(kept)]
    table("geometry_cells", ["system", "frame", *"ax ay az bx by bz cx cy cz".split()], cells)
    for length, name in ((2, "pairs"), (3, "triples"), (4, "quadruples")):
        rows = of_items(length, rng)
        for column, who in ((-3, "MDAnalysis"), (-2, "MDTraj")):
            apart = np.abs(rows[:, column] - rows[:, -1])
            if length == 4:
                apart = np.minimum(apart, 2 * np.pi - apart)
            other = apart > 1e-2
            by_system = [int(other[rows[:, 0] == system].sum()) for system in range(len(SYSTEMS))]
            print(f"{name}: {who} has another image {by_system}; else greatest difference {apart[~other].max():.1e}")
        header = ["system", "frame", *["first", "second", "third", "fourth"][:length], "mda", "mdtraj", "numpy"]
        fmt = ["%d"] * (2 + length) + ["%.17g", "%.9g", "%.17g"]
        table(f"geometry_{name}", header, rows, fmt)
    shapes()


if __name__ == "__main__":
    main()
