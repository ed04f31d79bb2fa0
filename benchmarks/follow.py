"""Following a file that another process writes: delay of frames, and what waiting costs.

`python benchmarks/follow.py` prints it alone; `make bench` has it among its rows. The delay is from the moment at which
the last byte of a frame is written to that at which the loop has the frame, in polling intervals; the goal is at most
2. The CPU time of waiting for a file that nobody writes is a share of one core; the goal is at most 1 %.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from cases import Goal
from kinema.testing import random_walk

POLL = 0.1
DELAY, IDLE = Goal(2.0, at_least=False, source="step 14"), Goal(0.01, at_least=False, source="step 14")
HERE = Path(__file__).resolve().parent
N_ATOMS = 5_000

# appends the frames of a file in pieces, and prints when the last byte of each was written; 0: as fast as it can
WRITER = """
import json, sys, time
source, target, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
ends = json.loads(sys.argv[4])
data = open(source, "rb").read()
moments = []
with open(target, "ab", buffering=0) as out:
    at = ends[0]
    for end in ends[1:]:
        # in three pieces, as buffers are written
        for stop in (at + (end - at) // 3, at + 2 * (end - at) // 3, end):
            out.write(data[at:stop])
            at = stop
        moments.append(time.monotonic())
        time.sleep(pause)
print(json.dumps(moments))
"""


def delays(folder: Path, n_frames: int, pause: float, *, events: bool) -> list[float]:
    """Seconds from the last byte of each frame to its yield; both processes have one monotonic clock."""
    source, target = folder / "whole.xtc", folder / "growing.xtc"
    if not source.exists():
        walk = random_walk(n_frames, N_ATOMS)
        with kn.Writer(source, N_ATOMS) as out:
            out.write(walk, cell=np.broadcast_to(80.0 * np.eye(3), (n_frames, 3, 3)))
    traj = kn.open(source, stored=False)
    n_frames = min(n_frames, len(traj))
    ends = [sum(traj.core.locate(i)[2:]) for i in range(n_frames)]
    target.write_bytes(source.read_bytes()[: ends[0]])
    given: dict[int, float] = {}
    following = kn.open(target, stored=False).follow(n_frames, timeout=30.0, poll=POLL, events=events)
    words = [sys.executable, "-c", WRITER, str(source), str(target), str(pause), json.dumps(ends)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
        for frame in following:
            given[frame.frame] = time.monotonic()
        assert writer.stdout is not None
        moments = json.loads(writer.stdout.read())
    assert sorted(given) == list(range(n_frames))
    return [given[i] - moment for i, moment in enumerate(moments, 1)]


def idle(folder: Path, seconds: float, *, events: bool) -> float:
    """CPU seconds a second of waiting."""
    traj = kn.open(folder / "growing.xtc", stored=False)
    following = traj.follow(timeout=seconds, poll=POLL, events=events)
    for _ in traj:
        next(following)
    began, cpu = time.monotonic(), time.process_time()
    if next(following, None) is not None:
        raise AssertionError("a frame came out of nothing")
    return (time.process_time() - cpu) / (time.monotonic() - began)


def follow(bench: Any) -> None:
    """The rows of this part."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=bench.folder) as name:
        warnings.simplefilter("ignore", kn.Note)
        for events in (True, False):
            looks = "inotify" if events else f"looks every {POLL:g} s"
            for pause in (0.0, 0.37 * POLL, 2.3 * POLL):
                found = np.array(delays(Path(name), 20 if bench.quick else 60, pause, events=events)) / POLL
                case = f"following, {looks}, a frame every {pause:.3g} s"
                bench.record(f"{case}, median", "xtc", "kinema", figure=float(np.median(found)), unit="intervals")
                longest = float(found.max())
                bench.record_beside_goal(f"{case}, longest delay", "xtc", "kinema", longest, DELAY, "intervals")
            share = idle(Path(name), 3.0 if bench.quick else 10.0, events=events)
            bench.record_beside_goal(f"following, {looks}, idle", "xtc", "kinema", share, IDLE, "of a core")


def main() -> None:
    """This part alone."""
    from run import Bench, machine

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer frames")
    parser.add_argument("--folder", type=Path, default=HERE / "results", help="results")
    options = parser.parse_args()
    facts = machine()
    # needs none of the files of the others
    bench: Any = Bench.__new__(Bench)
    bench.folder, bench.quick, bench.rows = options.folder, options.quick, []
    options.folder.mkdir(exist_ok=True)
    follow(bench)
    target = options.folder / f"follow-{facts['date'].replace(':', '')}.json"
    target.write_text(json.dumps({"machine": facts, "quick": options.quick, "rows": bench.rows}, indent=1) + "\n")
    print(f"written: {target}")


if __name__ == "__main__":
    main()
