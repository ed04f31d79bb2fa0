"""A process that is forked while a writer is open: its copy of the writer leaves the file to the parent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from kinema.testing import read_frames

PROGRAM = """
import os, sys
import MDAnalysis
import numpy as np
import kinema as kn

def write(out, begin, end):
    for i in range(begin, end):
        out.write(np.full((5, 3), i, np.float32), time=float(i), step=i)

def forked(path, mode, options, flushes):
    if path.endswith(".pdb"):
        universe = MDAnalysis.Universe.empty(5, 5, 1, atom_resindex=range(5), trajectory=True)
        universe.add_TopologyAttr("names", ["A"] * 5)
        options = {"topology": universe}
    out = kn.Writer(path, 5, mode=mode, **options)
    write(out, 0, 5)
    if flushes:
        out.flush()
        write(out, 5, 7)
    child = os.fork()
    if child == 0:
        try:
            out.write(np.zeros((5, 3)), time=9.0, step=9)
        except kn.ArgumentError as error:
            assert "process that was forked" in str(error), error
        else:
            os._exit(3)
        out.close()
        out.abort()
        del out
        # what libraries and streams still hold is written when an interpreter ends
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, path
    write(out, 7 if flushes else 5, 12)
    out.close()

for number, (path, mode, options) in enumerate(eval(sys.argv[1])):
    forked(path, mode, options, number % 2)
"""

# every other one is flushed before the fork
FILES: list[tuple[str, str, dict[str, object]]] = [
    ("new.h5md", "w", {}),
    ("flushed.h5md", "w", {}),
    ("grows.h5md", "a", {"compression": "gzip"}),
    ("flushed.nc", "a", {"netcdf4": True}),
    ("new.nc", "w", {"netcdf4": True}),
    ("flushed.xtc", "w", {}),
    ("new.trr", "a", {}),
    ("flushed.dcd", "a", {}),
    ("new.pdb", "w", {}),
    ("flushed.pdb", "w", {}),
]


def test_a_fork_takes_nothing_from_its_parent(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, repr(FILES)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert left == {name for name, *_ in FILES}
    for name in left:
        found = read_frames(tmp_path / name)
        np.testing.assert_array_equal(found.fields["positions"][:, 4, 1], np.arange(12), err_msg=name)
