"""Files and conversions that tests of `kn.convert` on runners share."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import random_walk, write_dcd

# file of each format, with what it takes besides; CONFIG and GRO hold one frame
TARGETS: dict[str, dict[str, Any]] = {
    "o.xtc": {},
    "o.dcd": {},
    "o.trr": {},
    "o.nc": {},
    "o.history": {},
    "o.config": {"dump": 3.0},
}
STRATEGIES = ("auto", "direct", "serial")
MPI_STRATEGIES = (*STRATEGIES, "mpiio", "mpiio-collective")
N_FRAMES, N_ATOMS = 60, 37


def make_sources(folder: Path) -> list[str]:
    """A small file of each format that is read, and a long one; their names."""
    write_dcd(folder / "in.dcd", random_walk(N_FRAMES, N_ATOMS))
    names = ["in.dcd"]
    with collected():
        for suffix in ("xtc", "trr", "nc", "history", "h5md"):
            kn.convert(folder / "in.dcd", folder / f"in.{suffix}")
            names.append(f"in.{suffix}")
        kn.convert(folder / "in.dcd", folder / "in4.nc", netcdf4=True)
        kn.convert(folder / "in.dcd", folder / "long.xtc", frames=np.arange(3000) % N_FRAMES)
    return [*names, "in4.nc", "long.xtc"]


def digest(path: Path) -> str:
    """Digest of the bytes of a file."""
    return blake2b(path.read_bytes()).hexdigest()


def conversions(sources: list[str]) -> list[tuple[str, str, dict[str, Any]]]:
    """Source, target and arguments: all pairs, the same format with atoms selected, frames in another order."""
    found = [(source, target, more) for source in sources for target, more in TARGETS.items()]
    atoms = [30, 2, 3, 5, 8]
    found += [(f"in.{suffix}", f"o.{suffix}", {"select": atoms}) for suffix in ("xtc", "trr", "nc", "dcd", "history")]
    found += [("long.xtc", f"o.{suffix}", {"select": atoms, "step": -3}) for suffix in ("xtc", "dcd")]
    return found


def converted(folder: Path, source: str, target: str, **options: Any) -> kn.Converted:
    """One conversion, its notes aside."""
    with collected():
        return kn.convert(folder / source, folder / target, overwrite=True, **options)


def expected(folder: Path, sources: list[str]) -> list[tuple[str, str, dict[str, Any], str]]:
    """All conversions with the digest of what threads make of them."""
    result = []
    for source, target, more in conversions(sources):
        converted(folder, source, target, workers=2, **more)
        result.append((source, target, more, digest(folder / target)))
    return result
