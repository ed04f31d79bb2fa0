"""Traces as DFTracer's programs read them: the same events, by name, with the same times. Part of `make test-ml`."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.report.traces import read_trace
from kinema.report.traces.strace import import_log
from kinema.testing import random_walk, write_dcd

DFTRACER = Path(__file__).parents[2] / "data" / "traces" / "dftracer.pfw.gz"
# programs of this environment come first
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
PROGRAMS = {name: shutil.which(name, path=PATH) for name in ("dftracer_info", "dftracer_stats")}

pytestmark = pytest.mark.skipif(
    None in PROGRAMS.values(), reason="needs dftracer-utils, a wheel of 74 MB, which make test-ml installs"
)

LOG = """\
7 1700000000.000001000 openat(AT_FDCWD</work>, "in.dat", O_RDONLY|O_CLOEXEC) = 3</work/in.dat> <0.000005500>
7 1700000000.000012000 pread64(3</work/in.dat>, ""..., 512, 1024) = 512 <0.000021999>
7 1700000000.000034000 pread64(3</work/in.dat>, ""..., 512, 4096) = 100 <0.000000999>
7 1700000000.000056000 close(3</work/in.dat>) = 0 <0.000001000>
"""


def output(program: str, path: Path, *more: str) -> str:
    words = [PROGRAMS[program], "--log-level", "error", "--files", str(path), "--index-dir", str(path.parent / "i")]
    return subprocess.run([*words, *more], capture_output=True, text=True, timeout=120, check=True).stdout


def trace_kinema(folder: Path) -> Path:
    write_dcd(folder / "a.dcd", random_walk(60, 500))
    with kn.trace(folder / "t", compress=True):
        kn.analysis.RadiusOfGyration(kn.open(folder / "a.dcd", stored=False), weights=None).run(workers=2)
    return next((folder / "t").iterdir())


def trace_strace(folder: Path) -> Path:
    (folder / "log").write_text(LOG)
    with gzip.open(folder / "strace.pfw.gz", "wb") as out:
        import_log(str(folder / "log"), out, host="node0", command="a")
    return folder / "strace.pfw.gz"


def trace_dftracer(folder: Path) -> Path:
    return Path(shutil.copy(DFTRACER, folder))


@pytest.mark.parametrize("made", [trace_kinema, trace_strace, trace_dftracer])
def test_they_find_the_same_events(tmp_path: Path, made: Any) -> None:
    path = made(tmp_path)
    trace = read_trace(path)
    found = re.search(r"Valid Events: +(\d+)", output("dftracer_info", path))
    assert found is not None and int(found[1]) == len(trace) > 3
    expected: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for function, ns in zip(trace.columns["function"].tolist(), trace.columns["duration"].tolist(), strict=True):
        row = expected[trace.functions[function].name]
        row[0] += 1
        # of each event whole microseconds, which is all that they read
        row[1] += ns // 1000
    (stats,) = json.loads(output("dftracer_stats", path, "--json", "--report", "detailed", "--group-by", "name"))
    grouped = stats["detailed"]["grouped_duration"]
    assert {name: [row["count"], row["sum"]] for name, row in grouped.items()} == expected
