"""NetCDF: RMSD of the first atoms of 111,815, in CDF-2 beside MDAnalysis, and in NetCDF-4.

Part of `make bench`; alone: `python benchmarks/netcdf.py [--quick]`. Every measurement is a process of its own
(`peers.py`), on one core, best of several; frames a second of CPU time. It asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from cases import Goal, selected_atoms
from kinema.base.notes import collected

HERE = Path(__file__).resolve().parent
# MDAnalysis gets as many frames as it does in about a second
_PEER_FRAMES = 200
_BESIDE_MDANALYSIS = Goal(10, at_least=True, source="step 9")
# suffix of a file -> format as the table has it, options of its writer
_FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "cdf2.nc": ("CDF-2", {}),
    "netcdf4.nc": ("NetCDF-4", {"netcdf4": True}),
    "gzip.nc": ("NetCDF-4 gzip", {"netcdf4": True, "compression": "gzip"}),
}


def netcdf(bench: Any) -> None:
    """All rows, recorded through `bench`."""
    source, frames = bench.files.paths["large", "dcd"], bench.files.frames["large", "dcd"]
    atoms = selected_atoms("first", kn.open(str(source)).n_atoms, bench.files.c_alpha)
    atoms_file = bench.folder / "atoms.npy"
    np.save(atoms_file, atoms)
    case, beside = "111,815 atoms, first", 0.0
    for name, (kind, options) in _FILES.items():
        path = source.with_name(f"{source.stem}.{name}")
        if not path.exists():
            with collected():
                kn.convert(str(source), path, verify=False, **options)
        if not beside:
            found = bench.python("mdanalysis", path, min(frames, _PEER_FRAMES), atoms=atoms_file)
            beside = found["frames"] / found["cpu"]
            bench.record(case, kind, "mdanalysis", figure=beside, unit="frames/s", repeats=found["repeats"])
        found = bench.python("kinema", path, frames, atoms=atoms_file)
        rate = frames / found["cpu"]
        bench.record(case, kind, "kinema", figure=rate, unit="frames/s", repeats=found["repeats"])
        if kind == "CDF-2":
            bench.record_beside_goal(case, kind, "kinema/mdanalysis", rate / beside, _BESIDE_MDANALYSIS)


def main() -> None:
    """This part alone."""
    from run import Bench, machine

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer frames and tries")
    parser.add_argument("--folder", type=Path, default=HERE / "results", help="files and results")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    facts = machine()
    bench = Bench(options.folder, options.quick)
    netcdf(bench)
    target = options.folder / f"netcdf-{facts['date'].replace(':', '')}.json"
    target.write_text(json.dumps({"machine": facts, "quick": options.quick, "rows": bench.rows}, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
