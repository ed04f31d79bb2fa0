"""Edits that tests on runners and MPI ranks share: each is done by threads and on a runner, and compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import random_walk, write_dcd
from kinema.trajectory.opening import files_stay

N_FRAMES, N_ATOMS = 300, 700


def make_sources(folder: Path) -> None:
    """An H5MD file in compressed chunks, and files of whole frames."""
    write_dcd(folder / "in.dcd", random_walk(N_FRAMES, N_ATOMS))
    with collected():
        kn.convert(folder / "in.dcd", folder / "in.h5md", compression="gzip")
        for suffix in ("xtc", "trr", "nc", "history"):
            kn.convert(folder / "in.dcd", folder / f"in.{suffix}", stop=100)


def edited(folder: Path, out: str, **how: Any) -> dict[str, Any]:
    """All edits into files that begin with `out`; what is to be the same whoever makes them."""
    found: dict[str, Any] = {}
    how = {"memory": "48 MiB", **how}
    with collected(), files_stay():
        for name, options in {
            "frames": {"compression": "zstd"},
            "atoms": {"layout": "atoms", "compression": "gzip"},
            "contiguous": {"layout": "contiguous"},
            "rounded": {"compression": "zstd", "max_error": 0.01, "select": range(5, 600)},
        }.items():
            done = kn.repack(folder / "in.h5md", folder / f"{out}-{name}.h5md", overwrite=True, **options, **how)
            assert done.verified
            found[name] = (done.n_frames, done.largest_change, kn.open(done.path).read().tobytes())
        for suffix in ("dcd", "xtc", "trr", "nc", "history", "h5md"):
            parts = kn.split(folder / f"in.{suffix}", folder / f"{out}-parts", parts=3, overwrite=True, **how).paths
            whole = kn.join(parts, folder / f"{out}-joined.{suffix}", copy=True, overwrite=True, **how)
            for path in (*parts, whole.path):
                h5md = path.endswith("h5md")
                content = kn.open(path, stored=False).read().tobytes() if h5md else Path(path).read_bytes()
                found[f"{suffix} {Path(path).name.removeprefix(out)}"] = content
    return found


def assert_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Both have the same bytes and numbers."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == value, name


def frames_of(path: Path) -> Any:
    """All positions."""
    return np.asarray(kn.open(path).read())
