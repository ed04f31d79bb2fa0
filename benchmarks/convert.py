"""Conversion between formats beside its parts (decoding, encoding, the disk's own speed) and beside peers.

Part of `make bench`; alone: `python benchmarks/convert.py [--quick]`. Every measurement is a process of its own
(`one_convert.py`), best of several. It asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import kinema as kn
from cases import LARGE_ATOMS, SMALL_ATOMS, Goal
from kinema.demo import run_json

HERE = Path(__file__).resolve().parent
# source and target, peers
PAIRS = (
    ("xtc", "dcd", ("mdanalysis", "mdtraj")),
    ("xtc", "h5md", ("mdanalysis",)),
    ("dcd", "xtc", ("mdanalysis", "mdtraj")),
)
# a peer gets as many frames as it converts in some seconds
_PEER_FRAMES = {"small": 980, "large": 20}
_ATOMS = {"small": SMALL_ATOMS, "large": LARGE_ATOMS}
_OF_PARTS = Goal(0.7, at_least=True, source="step 8")
_ENCODE = Goal(11, at_least=False, source="step 8")
_TWO_THREADS = Goal(1.9, at_least=True, source="step 8")


def convert(bench: Any) -> None:
    """All rows, recorded through `bench`."""
    _xtc_encode(bench)
    for system in ("small", "large"):
        for source, target, peers in PAIRS:
            _pair(bench, system, source, target, peers)


def _measured(bench: Any, name: str, *arguments: object) -> dict[str, Any]:
    """The run that took the shortest time."""
    words = [sys.executable, str(HERE / "one_convert.py"), name, *map(str, arguments)]
    found = [run_json(words) for _ in range(bench.tries)]
    return min(found, key=lambda one: float(one.get("wall", one.get("kinema"))))


def _xtc_encode(bench: Any) -> None:
    """Nanoseconds to encode an atom, ours beside the C library's; and two threads beside one, without a disk."""
    for system in ("small", "large"):
        frames = min(bench.files.frames[system, "dcd"], 40 * LARGE_ATOMS // _ATOMS[system])
        found = _measured(bench, "xtc-encode", bench.files.paths[system, "dcd"], frames)
        case = f"XTC encode, {_ATOMS[system]:,} atoms"
        ours, theirs = (1e9 * found[name] / found["atoms"] for name in ("kinema", "libmdaxdr"))
        bench.record(case, "xtc", "libmdaxdr", figure=theirs, unit="ns/atom CPU")
        bench.record_beside_goal(case, "xtc", "kinema", ours, _ENCODE, unit="ns/atom CPU")
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            source, out = bench.files.paths[system, "dcd"], Path(folder) / "converted.xtc"
            every = bench.files.frames[system, "dcd"]
            walls = [_measured(bench, "kinema", source, out, every, workers)["wall"] for workers in (1, 2)]
        bench.record_beside_goal(f"{case}, DCD in memory", "xtc", "two threads/one", walls[0] / walls[1], _TWO_THREADS)


def _pair(bench: Any, system: str, source: str, target: str, peers: tuple[str, ...]) -> None:
    """One conversion on one thread and two, what its parts take alone, and peers."""
    path, frames = bench.files.paths[system, source], bench.files.frames[system, "dcd"]
    out = bench.folder / f"converted.{target}"
    case = f"{source.upper()} -> {target.upper()}, {_ATOMS[system]:,} atoms"
    walls = {}
    for workers in sorted({1, min(2, len(os.sched_getaffinity(0)))}):
        found = _measured(bench, "kinema", path, out, frames, workers)
        decode = _measured(bench, "decode", path, frames, workers)["wall"]
        encode = found.get("encode", 0.0) / workers
        disk = _measured(bench, "disk", out, found["bytes"])["wall"]
        walls[workers] = found["wall"]
        bench.record(case, f"{workers} thread(s)", "kinema", figure=frames / found["wall"], unit="frames/s wall")
        for name, seconds in (("decode alone", decode), ("encode", encode), ("plain write", disk)):
            bench.record(case, f"{workers} thread(s)", name, figure=seconds, unit="s wall")
        slower = max(decode + encode, disk)
        bench.record_beside_goal(case, f"{workers} thread(s)", "slower part/wall", slower / found["wall"], _OF_PARTS)
    if 2 in walls:
        bench.record(case, "", "two threads/one", figure=walls[1] / walls[2], unit="ratio")
    count = min(frames, _PEER_FRAMES[system])
    for peer in peers:
        try:
            wall = _measured(bench, peer, path, out, count)["wall"]
        except kn.InternalError as error:
            print(f"{peer} is left out here: {error}")
            bench.rows.append({"case": case, "program": peer, "failed": str(error)})
            continue
        ratio = wall / count * frames / walls[1]
        bench.record(case, "one thread", peer, figure=count / wall, unit="frames/s wall")
        bench.record(case, "one thread", f"kinema/{peer}", figure=ratio, unit="ratio")
    out.unlink(missing_ok=True)


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
    convert(bench)
    target = options.folder / f"convert-{facts['date'].replace(':', '')}.json"
    target.write_text(json.dumps({"machine": facts, "quick": options.quick, "rows": bench.rows}, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
