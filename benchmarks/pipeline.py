"""The reading pipeline: orders of frames, blocks beside a consumer, chains of files, openings, leaves, merging.

Part of `make bench`; alone: `python benchmarks/pipeline.py [--quick]`. Every measurement is a process of its own
(`one_pipeline.py`), best of several. It asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from cases import LARGE_ATOMS, Goal
from kinema.demo import run_json
from kinema.testing import random_walk, write_dcd
from kinema.testing.h5md_files import write_small_chunks

HERE = Path(__file__).resolve().parent
# of MDAnalysis' loop
_LOOP_FRAMES = 4900
_CHAIN = 1000
_RANKS = 400
_CHUNKS = 1_000_000
# frames of runs of which leaves are counted
_LENGTHS = (30_000, 33_000, 100_000)


def _goal(value: float, *, at_least: bool) -> Goal:
    return Goal(value, at_least, source="step 7")


_SHUFFLED = _goal(0.8, at_least=True)
_BESIDE_CONSUMER = _goal(1.15, at_least=False)
_LOOP = _goal(4, at_least=True)
_OPENS = _goal(_CHAIN, at_least=False)
_MERGING = _goal(0.1, at_least=False)
_LEAVES = _goal(8, at_least=True)
_SECOND = _goal(0.1, at_least=False)


def pipeline(bench: Any) -> None:
    """All rows, recorded through `bench`."""
    for kind in ("xtc", "dcd"):
        small = bench.files.paths["small", kind]
        _shuffled(bench, kind, small)
        _blocks(bench, kind, small)
        _loop(bench, kind, small)
    for kind in ("xtc", "dcd"):
        _merging(bench, kind, bench.files.paths["large", kind])
    _opens(bench)
    _second_opening(bench)
    _leaves(bench)


def _measured(name: str, *arguments: object) -> dict[str, Any]:
    return run_json([sys.executable, str(HERE / "one_pipeline.py"), name, *map(str, arguments)])


def _shuffled(bench: Any, kind: str, path: Path) -> None:
    """`Trajectory.read` of frames in any order, beside the same frames in theirs."""
    found = _measured("shuffled", path, bench.tries)
    case = f"read of {found['read']:,} of {found['frames']:,} frames"
    for order in ("sorted", "shuffled"):
        bench.record(case, kind, order, figure=found["read"] / found[order], unit="frames/s wall")
    bench.record_beside_goal(case, kind, "shuffled/sorted", found["sorted"] / found["shuffled"], _SHUFFLED)


def _blocks(bench: Any, kind: str, path: Path) -> None:
    """`Trajectory.blocks` and a consumer that takes as long as reading: alone, and one beside the other."""
    found = _measured("blocks", path, bench.tries)
    case = "blocks() and a consumer that takes as long"
    for part in ("reading alone", "consumer alone", "both"):
        bench.record(case, kind, part, figure=found[part], unit="s wall")
    longer = max(found["reading alone"], found["consumer alone"])
    bench.record_beside_goal(case, kind, "both/the longer of them", found["both"] / longer, _BESIDE_CONSUMER)


def _loop(bench: Any, kind: str, path: Path) -> None:
    """MDAnalysis' loop over frames with both readers, as `interop.py` has it."""
    frames = min(_LOOP_FRAMES, bench.files.frames["small", "dcd"])
    found = _measured("loops", path, frames)
    case = "MDAnalysis' loop over all frames, 3341 atoms"
    for reader in ("kinema", "mdanalysis"):
        bench.record(case, kind, reader, figure=frames / found[reader], unit="frames/s wall")
    bench.record_beside_goal(case, kind, "kinema/mdanalysis", found["mdanalysis"] / found["kinema"], _LOOP)


def _merging(bench: Any, kind: str, path: Path) -> None:
    """Share of merging partials in a run of RMSF."""
    found = _measured("merging", path, bench.tries)
    case = f"RMSF of {LARGE_ATOMS:,} atoms, {found['frames']:,} frames"
    bench.record(case, kind, "leaves", figure=found["leaves"], unit="")
    bench.record(case, kind, "one merge", figure=1e3 * found["merge"], unit="ms CPU")
    bench.record(case, kind, "the run", figure=found["run"], unit="s CPU")
    share = found["merge"] * (found["leaves"] - 1) / found["run"]
    bench.record_beside_goal(case, kind, "merges/the run", share, _MERGING)


def _opens(bench: Any) -> None:
    """How often files of a chain are opened."""
    folder = bench.folder / "files" / f"chain_{_CHAIN}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        part.mkdir(parents=True, exist_ok=True)
        for number in range(_CHAIN):
            write_dcd(part / f"{number:04}.dcd", random_walk(10, 5, seed=number))
        part.rename(folder)
    for work, opened in _measured("opens", folder).items():
        bench.record_beside_goal(f"opens of a chain of {_CHAIN:,} files", "dcd", work, opened, _OPENS, unit="opens")


def _second_opening(bench: Any) -> None:
    """Opening an H5MD file of so many chunks that where they lie is stored, in an empty cache folder, and once more."""
    chunks = _CHUNKS // (10 if bench.quick else 1)
    for kind in ("earliest", "latest"):
        path = bench.folder / "files" / f"chunks_{chunks}_{kind}.h5md"
        if not path.exists():
            write_small_chunks(path.with_suffix(".part"), chunks, libver=kind).rename(path)
        found = _measured("openings", path, bench.tries)
        case = f"opening of {chunks:,} chunks, libver {kind}"
        for which in ("--no-stored", "first", "second"):
            bench.record(case, "h5md", which, figure=found[which], unit="s wall")
        bench.record(case, "h5md", "one read of the map's file", figure=found["plain read"], unit="s wall")
        bench.record_beside_goal(case, "h5md", "second/first", found["second"] / found["first"], _SECOND)


def _leaves(bench: Any) -> None:
    """Leaves of a run for each of many ranks, which bound how evenly it can be divided."""
    path = bench.folder / "files" / f"few_atoms_{_LENGTHS[-1]}.dcd"
    if not path.exists():
        write_dcd(path, random_walk(_LENGTHS[-1], 3))
    for frames, leaves in _measured("leaves", path, *_LENGTHS).items():
        case = f"leaves per rank, {_RANKS} ranks"
        bench.record_beside_goal(case, "", f"{int(frames):,} frames", leaves / _RANKS, _LEAVES, unit="leaves")


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
    pipeline(bench)
    target = options.folder / f"pipeline-{facts['date'].replace(':', '')}.json"
    target.write_text(json.dumps({"machine": facts, "quick": options.quick, "rows": bench.rows}, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
