"""Writes the golden values of the kernels: MDAnalysis' own analyses, and a float64 Kabsch fit by SVD beside them.

Run with MDAnalysis and MDAnalysisTests installed: `python make_golden.py`; it writes into `golden/` beside it.
"""

from pathlib import Path

import MDAnalysis as mda
import numpy as np
from MDAnalysis.analysis import rms
from MDAnalysisTests.datafiles import DCD, PSF

OUT = Path(__file__).parent / "golden"
STEP = 2
GROUPS = {"core": "resid 1:29 60:121 160:214", "lid": "resid 122:159", "nmp": "resid 30:59"}


def kabsch(x, y, w):
    """Weighted superposition of x on y: rmsd, and the function that moves positions."""
    w = w / w.mean()
    cx, cy = (np.average(a, axis=0, weights=w) for a in (x, y))
    u, _, vt = np.linalg.svd((w[:, None] * (x - cx)).T @ (y - cy))
    flip = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    rotation = u @ flip @ vt

    def move(positions):
        return (positions - cx) @ rotation + cy

    return np.sqrt(np.sum(w[:, None] * (move(x) - y) ** 2) / len(x)), move


def table(name, columns):
    header = ",".join(columns)
    np.savetxt(
        OUT / f"{name}.csv",
        np.column_stack(list(columns.values())),
        delimiter=",",
        header=header,
        comments="",
        fmt="%.17g",
    )


def main():
    OUT.mkdir(exist_ok=True)
    u = mda.Universe(PSF, DCD)
    ca = u.select_atoms("name CA")
    names = list(GROUPS)
    picks = [ca.select_atoms(GROUPS[name]) for name in names]
    positions = np.array([ca.positions for _ in u.trajectory[::STEP]], dtype="<f4")
    positions.tofile(OUT / "adk_ca.f32")
    # CA masses are all alike: weights that differ are made from the residue number.
    weights = 1.0 + (ca.resids % 7) / 3.0
    member = {name: np.isin(ca.ix, pick.ix).astype(int) for name, pick in zip(names, picks)}
    table("adk_atoms", {"weight": weights, **member})

    select = "name CA and (" + GROUPS["core"] + ")"
    others = ["name CA and " + GROUPS[name] for name in names[1:]]
    times, values = None, {}
    all_plain = rms.RMSD(u, select="name CA").run(step=STEP).results.rmsd
    all_weighted = rms.RMSD(u, select="name CA", weights=weights).run(step=STEP).results.rmsd
    in_core = weights[member["core"] == 1]
    grouped = (
        rms.RMSD(
            u,
            select=select,
            weights=in_core,
            groupselections=others,
            weights_groupselections=[weights[member[name] == 1] for name in names[1:]],
        )
        .run(step=STEP)
        .results.rmsd
    )
    times = all_plain[:, 1]
    values = {
        "mda_plain": all_plain[:, 2],
        "mda_weighted": all_weighted[:, 2],
        "mda_core": grouped[:, 2],
        "mda_lid": grouped[:, 3],
        "mda_nmp": grouped[:, 4],
    }

    frames = positions.astype(np.float64)
    masks = {name: member[name] == 1 for name in names}
    svd = {
        key: [] for key in ("svd_plain", "svd_weighted", "svd_core", "svd_lid", "svd_nmp", "centred", "as_is", "rgyr")
    }
    ones = np.ones(len(ca))
    for x in frames:
        y = frames[0]
        svd["svd_plain"].append(kabsch(x, y, ones)[0])
        svd["svd_weighted"].append(kabsch(x, y, weights)[0])
        core = masks["core"]
        rmsd, move = kabsch(x[core], y[core], weights[core])
        svd["svd_core"].append(rmsd)
        for name in names[1:]:
            m = masks[name]
            svd[f"svd_{name}"].append(rms.rmsd(move(x[m]), y[m], weights=weights[m]))
        svd["centred"].append(rms.rmsd(x, y, weights=weights, center=True))
        svd["as_is"].append(rms.rmsd(x, y, weights=weights))
        com = np.average(x, axis=0, weights=weights)
        svd["rgyr"].append(np.sqrt(np.sum(weights * np.sum((x - com) ** 2, axis=1)) / weights.sum()))
    # MDAnalysis' own radius of gyration takes masses from the topology.
    ca.masses = weights
    mda_rgyr = [ca.radius_of_gyration() for _ in u.trajectory[::STEP]]
    table(
        "adk_frames",
        {"time": times, **values, **{k: np.array(v) for k, v in svd.items()}, "mda_rgyr": np.array(mda_rgyr)},
    )

    rmsf = rms.RMSF(ca).run(step=STEP).results.rmsf
    mean = frames.mean(axis=0)
    aligned = np.array([kabsch(x, mean, weights)[1](x) for x in frames])
    by_mean = np.sqrt(((aligned - aligned.mean(axis=0)) ** 2).sum(axis=2).mean(axis=0))
    table(
        "adk_fluctuations",
        {"mda_rmsf": rmsf, "x": mean[:, 0], "y": mean[:, 1], "z": mean[:, 2], "aligned_rmsf": by_mean},
    )


if __name__ == "__main__":
    main()
