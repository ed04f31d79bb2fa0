"""`repack`, `split` and `join` on MPI ranks, by the library and by the command."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.testing.amounts import LONG

sys.path.insert(0, str(Path(__file__).parent))
from edit_cases import N_FRAMES, edited, make_sources

pytestmark = pytest.mark.processes

EDITS = """
import pickle, warnings
from pathlib import Path
sys.path.insert(0, HERE)
from edit_cases import assert_same, edited
here = Path.cwd()
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        assert_same(edited(here, "made", runner=mpi), pickle.loads(Path("known.pickle").read_bytes()))
done = kn.split("in.xtc", "all", parts=2, runner="mpi", overwrite=True)
assert len(done.paths) == 2
say("same") if rank == 0 else None
"""


def test_same_as_threads(mpi: Any, tmp_path: Path) -> None:
    make_sources(tmp_path)
    (tmp_path / "known.pickle").write_bytes(pickle.dumps(edited(tmp_path, "threads", workers=2)))
    for n_ranks in (2, 3) if LONG else (3,):
        assert mpi.compute(n_ranks, EDITS.replace("HERE", repr(str(Path(__file__).parent))), tmp_path) == "same\n"
    assert not [found for found in tmp_path.rglob("*") if ".part-" in found.name]
    for n_ranks, words in (
        (3, ["repack", "in.h5md", "new.h5md", "--compress", "zstd"]),
        (2, ["split", "in.dcd", "--parts", "2", "-o", "cut"]),
        (2, ["join", "cut/in.000.dcd", "cut/in.001.dcd", "-o", "joined.dcd"]),
    ):
        code, out, err = mpi.ended(mpi.started(n_ranks, ["-m", "kinema", *words, "--json"], tmp_path))
        assert code == 0, err
        assert json.loads(out)
    assert (tmp_path / "joined.dcd").read_bytes() == (tmp_path / "in.dcd").read_bytes()
    assert kn.open(tmp_path / "new.h5md").n_frames == N_FRAMES
