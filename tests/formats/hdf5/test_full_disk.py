"""Full disks, and writes that fail: an error of ours for each HDF5 output, and a process that works on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# a crash comes with a later file, or when objects of the broken one are freed
PROGRAM = """
import gc, resource, signal
import numpy as np
import kinema as kn
from kinema.testing import random_walk
from kinema.testing.amounts import LONG

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
POSITIONS = random_walk(40, 500)
with kn.Writer("source.h5md", 500) as out:
    out.write(positions=POSITIONS)

def written(path, **options):
    with kn.Writer(path, 500, **options) as out:
        for number, frame in enumerate(POSITIONS):
            out.write(positions=frame, step=number)
            if options.get("compression"):
                out.flush()

OUTPUTS = {
    "a.h5md": lambda path: written(path),
    "b.h5md": lambda path: written(path, compression="zstd"),
    "c.h5md": lambda path: written(path, layout="contiguous", n_frames=40),
    "a.nc": lambda path: written(path, netcdf4=True),
    "d.h5md": lambda path: kn.convert("source.h5md", path, select=range(400)),
    "e.h5md": lambda path: kn.repack("source.h5md", path, compression="zstd"),
    "rows.h5": lambda path: rows(path),
}

def rows(path):
    trajectory = kn.open("source.h5md", stored=False)
    kn.analysis.RMSD(trajectory).run(out=path, runner="threads", workers=2, overwrite=True)
LIMITS = [*range(0, 4096, 512), 5000, 8000, 16000, 100_000, 200_000]

def limit(n):
    resource.setrlimit(resource.RLIMIT_FSIZE, (n, resource.RLIM_INFINITY))

lines = []
# the n-th write of HDF5 fails, with either error
from kinema.storage.hdf5 import journal
import errno, os

def fails_at(n, code):
    pwrite, left = os.pwrite, [n]

    def failing(handle, data, offset):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(code, os.strerror(code))
        return pwrite(handle, data, offset)

    return failing

pwrite = os.pwrite
for name, write in OUTPUTS.items():
    failed = 0
    # each of the first writes, of which most differ, and some later ones, with each error
    for n in range(40) if LONG else (*range(11), *range(12, 40, 5)):
        os.pwrite = fails_at(n, (errno.ENOSPC, errno.EIO)[n % 2])
        try:
            write(name)
        except kn.FileIOError as error:
            failed += 1
            reason = os.strerror((errno.ENOSPC, errno.EIO)[n % 2])
            assert name in str(error) and reason.lower() in str(error).lower(), error
        finally:
            os.pwrite = pwrite
        if os.path.exists(name):
            os.unlink(name)
    gc.collect()
    written("whole.h5md", overwrite=True)
    lines.append(f"{name}:writes {failed}")

for name, write in OUTPUTS.items():
    failed = 0
    for n in LIMITS:
        limit(n)
        try:
            write(name)
        except (kn.FileIOError, kn.FileAccessError):
            failed += 1
        finally:
            limit(resource.RLIM_INFINITY)
        gc.collect()
        written("whole.h5md", overwrite=True)
        # the first bytes of a file that is there stand for one that was written whole
        if os.path.exists(name):
            os.unlink(name)
    lines.append(f"{name} {failed}")
print(*lines, sep="\\n")
"""


def test_each_output_fails_with_an_error_of_ours_and_the_process_works_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )
    assert done.returncode == 0, done.stderr
    failed = dict(line.split() for line in done.stdout.splitlines())
    # outputs with fewer than 40 writes are whole in the end
    writes = {name.removesuffix(":writes"): int(failed.pop(name)) for name in list(failed) if name.endswith(":writes")}
    assert all(n > 4 for n in writes.values()), writes
    # 13 limits; compressed files are smaller than the last ones
    assert {name for name, n in failed.items() if int(n) < 5} == set(), failed
    assert all(int(failed[name]) == 13 for name in ("a.h5md", "c.h5md", "a.nc")), failed
