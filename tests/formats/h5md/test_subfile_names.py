"""Files below a virtual one: which of them a run that replaces it removes."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np

from kinema.formats.h5md.write.virtual_fields import SubfileNames


def _names(path: Path) -> list[SubfileNames]:
    """Names of three runs, each with a file."""
    runs = [SubfileNames(str(path), tag) for tag in ("0000000a", "0000000b", "0000000c")]
    for run in runs:
        run.make_folder()
        Path(run.subfile_path(0)).touch()
    return runs


def _left(run: SubfileNames) -> list[str]:
    return sorted(os.listdir(run.folder))


def test_those_of_other_runs_are_removed(tmp_path: Path) -> None:
    own, *_ = _names(tmp_path / "out.h5md")
    (tmp_path / "out.h5md.d" / "part0000.h5md").touch()  # no name of ours
    own.remove_others()
    assert _left(own) == ["part0000-0000000a.h5md", "part0000.h5md"]


def test_those_of_a_run_that_was_stopped_stay(tmp_path: Path) -> None:
    own, stopped, _ = _names(tmp_path / "out.h5md")
    with h5py.File(tmp_path / "out.part-host-k00000000-1.h5md", "w") as h5:
        layout = h5py.VirtualLayout((1, 1, 3), "f4")
        layout[:] = h5py.VirtualSource(stopped.relative(0), "value", (1, 1, 3))
        h5.create_virtual_dataset("particles/trajectory/position/value", layout)
        h5["particles/trajectory/position/step"] = np.arange(1)
    own.remove_others()
    assert _left(own) == [f"part0000-{run.tag}.h5md" for run in (own, stopped)]


def test_all_stay_where_a_file_of_a_stopped_run_cannot_be_read(tmp_path: Path) -> None:
    own, *others = _names(tmp_path / "out.h5md")
    (tmp_path / "out.part-host-k00000000-1.h5md").write_text("no HDF5 file")
    own.remove_others()
    assert _left(own) == [f"part0000-{run.tag}.h5md" for run in (own, *others)]
