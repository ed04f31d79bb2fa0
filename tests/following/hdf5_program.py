"""A program that writes an HDF5 file one step a line that it reads; run by the tests of this folder.

Arguments: how ("kinema", "netcdf4", "gromacs"), the file, an array of positions (frames, atoms, 3), the seed. A line
"cut N" makes the program of GROMACS' kind trim the file to N frames and continue with positions that are 0.5
larger, as after a crash.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import numpy as np


def kinema_steps(path: str, positions: np.ndarray, rng: random.Random, **options: bool) -> Iterator[None]:
    import kinema as kn

    n = 0
    while n < len(positions):
        # stopped and begun again
        with kn.Writer(path, positions.shape[1], mode="a", **options) as out:
            for _ in range(rng.randint(3, 9)):
                if n == len(positions):
                    break
                out.write(positions[n], cell=[50, 50, 50], time=0.5 * n, **({} if options else {"step": 10 * n}))
                n += 1
                if rng.random() < 0.6:
                    out.flush()
                yield
        yield


def netcdf4_steps(path: str, positions: np.ndarray, rng: random.Random) -> Iterator[None]:
    """AMBER's convention, which has no steps."""
    return kinema_steps(path, positions, rng, netcdf4=True)


def gromacs_steps(path: str, positions: np.ndarray, rng: random.Random) -> Iterator[int | None]:
    """One chunk a frame, no filter for values; data sets grow one by one, and are flushed now and then only."""
    import h5py

    file = h5py.File(path, "w", libver=("earliest", "v108"))
    file.create_group("h5md").attrs["version"] = [1, 1]
    for name in ("author", "creator"):
        file["h5md"].create_group(name).attrs["name"] = "GROMACS"
    group = file.create_group("particles/system/position")
    box = file["particles/system"].create_group("box")
    box.attrs["dimension"], box.attrs["boundary"] = 3, ["periodic"] * 3
    n_atoms = positions.shape[1]
    value = group.create_dataset("value", (0, n_atoms, 3), "f4", maxshape=(None, n_atoms, 3), chunks=(1, n_atoms, 3))
    value.attrs["unit"] = "nm"
    steps = group.create_dataset("step", (0,), "i8", maxshape=(None,), chunks=(1,), shuffle=True, compression=1)
    times = group.create_dataset("time", (0,), "f8", maxshape=(None,), chunks=(1,), shuffle=True, compression=1)
    times.attrs["unit"] = "ps"
    edges = box.create_group("edges")
    cells = edges.create_dataset("value", (0, 3, 3), "f4", maxshape=(None, 3, 3), chunks=(1, 3, 3))
    cells.attrs["unit"] = "nm"
    edges["step"], edges["time"] = steps, times
    file.flush()
    sets = [(steps, lambda i: 10 * i), (times, lambda i: 0.5 * i), (cells, lambda i: 5 * np.eye(3))]
    n = 0
    while n < len(positions):
        order = [*sets, (value, lambda i: positions[i] / 10)]
        rng.shuffle(order)
        # longer before they are filled, in any order
        for data, _ in order:
            data.resize(n + 1, 0)
            if rng.random() < 0.3:
                file.flush()
                yield None
        for data, of in order:
            data[n] = of(n)
            if rng.random() < 0.3:
                file.flush()
                yield None
        n += 1
        if rng.random() < 0.5:
            file.flush()
        cut = yield None
        if cut is not None:
            for data, _ in order:
                data.resize(cut, 0)
            positions[cut:] += 0.5
            n = cut
            file.flush()
            yield None
    file.close()


def main() -> None:
    how, path, array, seed = sys.argv[1:]
    steps = {"kinema": kinema_steps, "netcdf4": netcdf4_steps, "gromacs": gromacs_steps}[how](
        path, np.load(array), random.Random(seed)
    )
    next(steps)
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "cut":
                # where it takes one
                while True:
                    steps.send(int(words[1]))
                    break
            else:
                next(steps)
        except StopIteration:
            print("done", flush=True)
            return
        print("step", flush=True)


if __name__ == "__main__":
    main()
