"""The laboratory beside published times: 2020's Fig. 2, Fig. 4, Table 4 and the I/O of Table 5, with the deviation.

    python benchmarks/lab_published.py FOLDER/khoshlessan2020

The folder has the publication's tables (DOI 10.5281/zenodo.3351616). CPU time of a frame is calibrated where the
publication has one rank (Table 4: its smallest run). Everything else follows from the platform's parameters, which were
fixed before. A large deviation is a finding about the model or its parameters, not a reason to change one.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kinema.studies.lab.calibration import PAPER_2020
from kinema.studies.lab.cases import split_trajectory
from kinema.studies.lab.operations import StoredFile
from kinema.studies.lab.platform import Platform, read_platform
from kinema.studies.lab.programs import AnalysisWork, FrameCost, FrameFile, analysis_program, split_evenly
from kinema.studies.lab.replay import EmulatedRun, emulate

N_FRAMES, SIZE, *_ = PAPER_2020
# bytes of a frame's result, as the publication gathers them: assumption
RESULT = 16
# Table 5 of the publication: seconds of I/O and of computing, a data set of 146 atoms read through MPI-IO
TABLE_5 = {1: (423.0, 225.0), 384: (1.57, 0.76)}

Row = tuple[str, int, float, float]


def main(folder: Path) -> None:
    """Prints all rows, with shared files on the platform's default of targets and on all targets."""
    platform = read_platform("lustre")
    print(f"{platform.name}: {platform.description}\n")
    for stripes in (platform.stripes, platform.targets):
        print(f"shared files on {stripes} of {platform.targets} targets (the publication does not say)")
        print(f"{'':>46} {'ranks':>6} {'theirs (s)':>11} {'emulated (s)':>13} {'ratio':>7}")
        for name, ranks, theirs, ours in rows(folder, platform, stripes):
            print(f"{name:>46} {ranks:>6} {theirs:>11.3g} {ours:>13.3g} {ours / theirs:>7.2f}")


def rows(folder: Path, platform: Platform, stripes: int) -> Iterator[Row]:
    """Name, ranks, published and emulated seconds."""
    shared = [FrameFile(StoredFile("shared.xtc", SIZE, stripes), N_FRAMES)]
    figures: list[tuple[str, str, dict[str, Any]]] = [("Fig. 2, shared XTC, gather", "fig2_summary.csv", {})]
    if stripes == platform.stripes:
        # files of single ranks lie on one target each in any case
        figures += [
            ("Fig. 4, subfiles, gather", "fig4_subfiling_mpi_summary.csv", {"opens": "own"}),
            (
                "Fig. 4, subfiles, Global Arrays",
                "fig4_subfiling_ga_summary.csv",
                {"opens": "own", "gather": "one-sided"},
            ),
        ]
    for title, name, options in figures:
        found = table(folder / name)
        cost = cost_of(shared, platform, float(found[0]["t_IO"]), float(found[0]["t_comp"]))
        for row in found:
            n = int(row["blocks"])
            files = split_evenly(shared, n, 1) if "opens" in options else shared
            run = of_mdanalysis(files, cost, n, platform, **options)
            yield f"{title}: largest total", n, float(row["t_tot_max"]), run.seconds
            yield f"{title}: mean t_IO", n, float(row["t_IO"]), run.mean("io", "decode")
    yield from table_4(folder, shared[0].file, platform)
    yield from table_5(platform, stripes)


def cost_of(files: list[FrameFile], platform: Platform, reading: float, computing: float) -> FrameCost:
    """The CPU time of a frame by which one rank takes as long as theirs: seconds of I/O with decoding, of computing."""
    compute = round(computing * 1e9 / N_FRAMES)
    alone = of_mdanalysis(files, FrameCost(0, compute, ""), 1, platform).mean("io")
    return FrameCost(max(0, round((reading - alone) * 1e9 / N_FRAMES)), compute, "one rank of the publication")


def of_mdanalysis(
    files: list[FrameFile], cost: FrameCost, n_ranks: int, platform: Platform, **options: Any
) -> EmulatedRun:
    """RMSD with MDAnalysis on ranks."""
    work = AnalysisWork(files, range(N_FRAMES), cost, reader="mdanalysis", result_bytes=RESULT, **options)
    return emulate(analysis_program(work, n_ranks), n_ranks, platform)


def table_4(folder: Path, file: StoredFile, platform: Platform) -> Iterator[Row]:
    """Splitting into files: with the CPU time of a frame by which the smallest run takes as long as theirs."""
    found = table(folder / "table4_splitting.csv")

    def seconds(n: int, frame_ns: int) -> float:
        return emulate(split_trajectory(file, N_FRAMES, n, frame_ns), n, platform).seconds

    low, high = 0, 10_000_000
    while high - low > 1000:
        middle = (low + high) // 2
        longer = seconds(int(found[0]["Np"]), middle) > float(found[0]["time"])
        low, high = (low, middle) if longer else (middle, high)
    for row in found:
        n = int(row["Np"])
        yield "Table 4, splitting", n, float(row["time"]), seconds(n, low)


def table_5(platform: Platform, stripes: int) -> Iterator[Row]:
    """A bare data set of 146 atoms in HDF5, which is not packed; reading it takes CPU time as on one rank."""
    file = [FrameFile(StoredFile("pos.h5", N_FRAMES * 146 * 12, stripes), N_FRAMES)]
    cost = cost_of(file, platform, *TABLE_5[1])
    for n, (theirs, _) in TABLE_5.items():
        yield (
            "Table 5, HDF5 through MPI-IO: t_IO",
            n,
            theirs,
            of_mdanalysis(file, cost, n, platform).mean("io", "decode"),
        )


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
