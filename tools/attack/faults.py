"""Full disks, and calls of the system that fail: a clear error, and nothing that was committed is lost."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import kinema as kn
from attack.children import called, traced
from attack.trials import Broken, attack
from attack.writing import Work, drawn
from kinema.testing import random_walk, write_dcd


@attack("full disks: writers", 300)
def full_disks(moments: random.Random, folder: Path) -> None:
    """No file can be larger than a random size."""
    work = drawn(moments, folder)
    outcome = called(_and_something_else, work, file_bytes=moments.randrange(1, 30_000))
    _check(work, outcome.refused())


@attack("injected faults: writers", 120)
def failing_calls(moments: random.Random, folder: Path) -> None:
    """One call that changes a file fails, as on a full or broken disk; the interpreter keeps working."""
    work = drawn(moments, folder)
    fault = moments.choice(("error=ENOSPC", "error=EIO"))
    outcome = traced(_and_something_else, work, fault=fault, at=moments.randrange(1, 60))
    _check(work, outcome.refused())


@attack("injected faults: tables", 40)
def failing_tables(moments: random.Random, folder: Path) -> None:
    """A table appears whole or not at all."""
    write_dcd(folder / "in.dcd", random_walk(50, 5))
    path = folder / f"out.{moments.choice(('csv', 'xvg', 'h5'))}"
    fault = moments.choice(("error=ENOSPC", "error=EIO", "signal=KILL"))
    outcome = traced(_saved, folder / "in.dcd", path, fault=fault, at=moments.randrange(1, 30))
    if not outcome.signal and outcome.refused() and path.exists():
        raise Broken(f"{path.name} is there after an error: {outcome.error}")
    if path.exists():
        whole = folder / f"whole{path.suffix}"
        called(_saved, folder / "in.dcd", whole).checked()
        if path.stat().st_size != whole.stat().st_size:
            raise Broken(f"{path.name} is there and not whole")


def _and_something_else(work: Work) -> None:
    """Writes, and then writes another file whether or not that failed, as the next cell of a notebook would."""
    try:
        work.write()
    finally:
        try:
            with kn.Writer(work.folder / f"next{work.path.suffix}", 1, **work.options) as out:
                out.write([[1.0, 2.0, 3.0]], cell=[9.0, 9.0, 9.0])
        except kn.Error:
            pass  # the disk may still be full


def _check(work: Work, failed: bool) -> None:
    n_frames = work.check()
    if not failed and work.left() != work.path:
        raise Broken(f"{work}: no error, and {n_frames} frames are not under the final name")


def _saved(source: Path, path: Path) -> None:
    warnings.simplefilter("ignore")
    kn.analysis.RMSD(kn.open(source)).run(runner="serial").save(path)
