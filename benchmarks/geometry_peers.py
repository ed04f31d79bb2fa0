"""Times of MDTraj's distances and dihedrals, beside the lines of `geometry_speed` on standard input.

`cargo run --release -p kinema-analysis --example geometry_speed | python benchmarks/geometry_peers.py`; one thread
each, reading not counted, the least of many calls. It asserts nothing.
"""

import functools
import re
import sys
import time

import mdtraj
import numpy as np

ATOMS = 3341
CELLS = {
    "no cell": None,
    "orthorhombic": [[7.8, 0, 0], [0, 8.0, 0], [0, 0, 7.7]],
    "triclinic": [[8.0, 0, 0], [3.0, 7.1, 0], [-2.2, 2.75, 6.0]],
}


def best(call) -> float:
    """The least time of one call in ns."""
    times = []
    for _ in range(8):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return min(times)


def peers():
    """Name of a line of the example, and MDTraj's time for the same number of items."""
    rng = np.random.default_rng(1)
    top = mdtraj.Topology()
    residue = top.add_residue("ALL", top.add_chain())
    for _ in range(ATOMS):
        top.add_atom("C", mdtraj.element.carbon, residue)
    # many frames, so that what MDTraj does once in a call is not counted
    frames = 200
    positions = rng.uniform(0, 7.5, (frames, ATOMS, 3)).astype("f4")
    for name, cell in CELLS.items():
        traj = mdtraj.Trajectory(positions, top)
        if cell is not None:
            traj.unitcell_vectors = np.broadcast_to(np.array(cell, "f4"), (frames, 3, 3))
        periodic = cell is not None
        pairs = rng.integers(0, ATOMS, (1000, 2))
        start = np.arange(426)[:, None] * 7
        quadruples = start + 2 * np.arange(4)
        for quantity, compute, items in (
            ("distances", mdtraj.compute_distances, pairs),
            ("dihedrals", mdtraj.compute_dihedrals, quadruples),
        ):
            call = functools.partial(compute, traj, items, periodic=periodic)
            yield f"{quantity}, {name}", best(call) / frames


def main() -> None:
    lines = sys.stdin.read().splitlines()
    print("\n".join(lines))
    for name, theirs in peers():
        ours = next(line for line in lines if re.match(re.escape(name) + r"\s+\d+ items", line))
        gathered, picked = (float(re.search(rf"{word}\s+(\d+)", ours)[1]) for word in ("gathered", "picked"))
        print(
            f"{name:24} MDTraj {theirs:8.0f} ns a frame; gathered {gathered:6.0f}, {theirs / gathered:5.1f} times; "
            f"picked {picked:6.0f}, {theirs / picked:5.1f} times"
        )


if __name__ == "__main__":
    main()
