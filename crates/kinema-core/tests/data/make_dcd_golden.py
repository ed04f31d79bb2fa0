"""Writes small DCD files of many variants and the values that other programs read from them.

Does not use Kinema: variants are built here from the description of the format or written by MDAnalysis and mdtraj,
and read by MDAnalysis, mdtraj and chemfiles, which must agree. Usage:

    python make_dcd_golden.py FOLDER

writes FOLDER/*.dcd, FOLDER/expected.txt and FOLDER/mdanalysis_tests.txt. The last has the values of the DCD files of
the package MDAnalysisTests, which are not copied.
"""

import struct
import sys
import warnings
import zlib
from pathlib import Path

import chemfiles
import MDAnalysis
import MDAnalysisTests
import mdtraj
import numpy as np
from MDAnalysis.coordinates.DCD import DCDReader
from MDAnalysis.coordinates.LAMMPS import DCDReader as LAMMPSReader
from MDAnalysis.lib.mdamath import triclinic_vectors
from mdtraj.formats import DCDTrajectoryFile

N_ATOMS, N_FRAMES = 6, 3
DEGREES = [50.5, 85.0, 60.25, 80.0, 75.0, 70.125]  # A, gamma, B, beta, alpha, C
COSINES = [x if i in (0, 2, 5) else float(np.cos(np.radians(x))) for i, x in enumerate(DEGREES)]
# the first frame of CHARMM 36's triclinic test case in MDAnalysisTests
MATRIX = [30.84183587, 14.5786346, 31.78008804, 9.6263226, -2.60815015, 32.67009034]


def coordinates(frame):
    return np.random.default_rng(frame).uniform(-99, 99, (N_ATOMS, 3)).astype(np.float32)


def build(order="<", wide=False, version=24, cell=None, free=None, four_d=False, claimed=N_FRAMES):
    """A DCD file of one variant; `free` are the atoms (from 0) that move."""
    marker = order + ("q" if wide else "i")

    def record(payload):
        return struct.pack(marker, len(payload)) + payload + struct.pack(marker, len(payload))

    words = [claimed, 30, 10, 30, 0, 0, 0, 0, 0 if free is None else N_ATOMS - len(free)]
    if version:
        step = struct.pack(order + "fii", 0.5, cell is not None, four_d)
    else:
        step = struct.pack(order + "di", 0.5, 0)
    header = b"CORD" + struct.pack(order + "9i", *words) + step + struct.pack(order + "8i", *[0] * 7, version)
    out = record(header)
    out += record(struct.pack(order + "i", 2) + b"first line".ljust(80) + b"second line".ljust(80))
    out += record(struct.pack(order + "i", N_ATOMS))
    if free is not None:
        out += record(struct.pack(f"{order}{len(free)}i", *[atom + 1 for atom in free]))
    for frame in range(N_FRAMES):
        if cell is not None:
            out += record(struct.pack(order + "6d", *cell))
        xyz = coordinates(frame)
        stored = xyz if free is None or frame == 0 else xyz[free]
        for plane in stored.T:
            out += record(plane.astype(order + "f4").tobytes())
        if four_d:
            out += record(np.zeros(len(stored), order + "f4").tobytes())
    return out


VARIANTS = {
    "plain": {},
    "big": {"order": ">"},
    "wide": {"wide": True},
    "big_wide": {"order": ">", "wide": True},
    "xplor": {"version": 0},
    "big_xplor": {"version": 0, "order": ">"},
    "cosines": {"cell": COSINES},
    "degrees": {"cell": DEGREES},
    "big_degrees": {"cell": DEGREES, "order": ">"},
    "matrix": {"cell": MATRIX, "version": 36},
    "four_d": {"cell": COSINES, "four_d": True},
    "fixed": {"free": [1, 3, 4]},
    "big_fixed_cell": {"free": [0, 5], "cell": COSINES, "order": ">"},
    "count_zero": {"claimed": 0},
}


def by_mdanalysis(path):
    # LAMMPS writes its time step in its own units, of which MDAnalysis' reader for LAMMPS takes fs
    reader_class = LAMMPSReader if b"LAMMPS" in path.read_bytes()[:400] else DCDReader
    with reader_class(str(path)) as reader:
        header = reader._file.header
        frames = [
            (ts.time, None if ts.dimensions is None else ts.dimensions.copy(), ts.positions.copy()) for ts in reader
        ]
        return header["istart"], header["nsavc"], frames


def by_mdtraj(path):
    with DCDTrajectoryFile(str(path)) as file:
        return file.read()[0]


def by_chemfiles(path):
    with chemfiles.Trajectory(str(path)) as trajectory:
        frames = []
        for _ in range(trajectory.nsteps):
            frame = trajectory.read()  # kept: its positions are a view into it
            frames.append(frame.positions.astype(np.float32))
        return np.array(frames)


def attempt(read, path):
    """Positions that a program reads; None if it refuses the variant."""
    try:
        return read(path)
    except (OSError, ValueError, RuntimeError, chemfiles.ChemfilesError) as error:
        print(f"  {read.__name__}: {type(error).__name__}: {str(error)[:90]}")
        return None


def line_of(words):
    return " ".join(str(float(word)) if isinstance(word, np.floating) else str(word) for word in words)


def describe(path):
    """The lines of the table for one file, from every program that reads it."""
    print(path.name)
    first = attempt(by_mdanalysis, path)
    positions = {"mdtraj": attempt(by_mdtraj, path), "chemfiles": attempt(by_chemfiles, path)}
    if first is not None:
        positions["mdanalysis"] = np.array([frame[2] for frame in first[2]])
    positions = {name: xyz for name, xyz in positions.items() if xyz is not None}
    names = sorted(positions)
    majority = None
    for name in names:
        agree = [other for other in names if np.array_equal(positions[name], positions[other])]
        if majority is None or len(agree) > len(majority):
            majority = agree
    for name in set(names) - set(majority):
        print(f"  {name} reads other values")
    xyz = np.ascontiguousarray(positions[majority[0]], dtype="<f4")
    crc = zlib.crc32(xyz.tobytes())
    yield line_of(["file", path.name, xyz.shape[1], len(xyz), crc, ",".join(majority)])
    for frame in sorted({0, 1, len(xyz) - 1} & set(range(len(xyz)))):
        yield line_of(["atoms", frame, *xyz[frame, 0], *xyz[frame, -1]])
    if first is not None:
        start, stride, frames = first
        yield line_of(["steps", start, stride])
        # MDAnalysis does not swap the bytes of CHARMM's time step
        swapped = path.read_bytes()[0] != 84 and not path.name.endswith("xplor.dcd")
        for frame in sorted({0, len(frames) - 1}):
            time, cell, _ = frames[frame]
            if not swapped:
                yield line_of(["time", frame, time])
            cell = np.zeros(6, np.float32) if cell is None else cell
            yield line_of(["cell", frame, *cell, *triclinic_vectors(cell).ravel()])


def main(folder):
    warnings.simplefilter("ignore")
    chemfiles.set_warnings_callback(lambda message: None)
    folder.mkdir(parents=True, exist_ok=True)
    for name, options in VARIANTS.items():
        (folder / f"{name}.dcd").write_bytes(build(**options))
    universe = MDAnalysis.Universe.empty(N_ATOMS, trajectory=True)
    with MDAnalysis.Writer(str(folder / "by_mdanalysis.dcd"), n_atoms=N_ATOMS, dt=2.0) as writer:
        for frame in range(N_FRAMES):
            universe.atoms.positions = coordinates(frame)
            universe.dimensions = [50.5, 60.25, 70.125, 75, 80, 85 + frame]
            writer.write(universe.atoms)
    with DCDTrajectoryFile(str(folder / "by_mdtraj.dcd"), "w") as file:
        for frame in range(N_FRAMES):
            file.write(coordinates(frame), cell_lengths=[50.5, 60.25, 70.125], cell_angles=[90, 90, 60 + frame])
    versions = f"# MDAnalysis {MDAnalysis.__version__}, mdtraj {mdtraj.__version__}, chemfiles {chemfiles.__version__}"
    lines = [line for path in sorted(folder.glob("*.dcd")) for line in describe(path)]
    (folder / "expected.txt").write_text("\n".join([versions, *lines]) + "\n")
    data = Path(MDAnalysisTests.__file__).parent / "data"
    paths = [path for path in sorted(data.rglob("*.dcd")) if path.stat().st_size > 0]
    lines = [line.replace(path.name, path.relative_to(data).as_posix(), 1) for path in paths for line in describe(path)]
    (folder / "mdanalysis_tests.txt").write_text("\n".join([versions, *lines]) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
