"""The files of the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.demo.data_sets import choose_data_set, make_data_set


def test_making_the_files_says_nothing_of_other_packages(tmp_path: Path) -> None:
    # in a fresh process: MDAnalysis sets filters of warnings when it is imported
    code = "from pathlib import Path; from kinema.demo.case import make_case; print(make_case(Path(), 200).n_frames)"
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "196\n", "")
    assert kn.open(tmp_path / "adk_long.xtc").n_frames == kn.open(tmp_path / "adk_long.dcd").n_frames == 196
    for suffix in ("trr", "nc", "h5md", "history"):
        assert kn.open(tmp_path / f"adk_196_frames.{suffix}").n_frames == 196


@pytest.mark.parametrize(
    ("name", "sizes", "n_frames", "n_atoms"),
    [
        ("adk", {"times": 2}, 196, 3341),
        ("adk", {"times": 2, "virtual": True}, 196, 3341),
        ("yiip", {"times": 3, "frames": 2, "atoms": 500}, 6, 500),
        ("yiip", {"times": 3, "frames": 2, "atoms": 500, "virtual": True}, 6, 500),
        ("pyrochlore", {"times": 2, "atoms": 200}, 2, 176),
    ],
)
def test_data_sets_of_the_publications(
    tmp_path: Path, name: str, sizes: dict[str, Any], n_frames: int, n_atoms: int
) -> None:
    data_set = choose_data_set(name, **sizes)
    paths = make_data_set(data_set, tmp_path)
    for path in paths:
        if path.suffix == ".psf" or "once" in path.name:
            continue
        trajectory = kn.open(path, stored=False)
        assert (trajectory.n_frames, trajectory.n_atoms) == (n_frames, n_atoms)
        frames = trajectory.read()
        if name != "pyrochlore":
            assert np.array_equal(frames[: len(frames) // sizes["times"]], frames[-len(frames) // sizes["times"] :])
            assert np.array_equal(np.diff(trajectory.times), np.ones(n_frames - 1)) or name == "adk"
    if name in ("adk", "yiip"):
        topology = paths[0] if name == "adk" else path
        n_selected = kn.open(path, topology, stored=False).select("protein and name CA").n_atoms
        assert n_selected == (214 if name == "adk" else 500 // 128)
    assert sum(path.stat().st_size for path in paths) == pytest.approx(data_set.n_bytes, rel=0.1, abs=2_000_000)
    with pytest.raises(kn.ArgumentError, match="exists already"):
        make_data_set(data_set, tmp_path)


def test_samples_of_the_publication(tmp_path: Path) -> None:
    first, second = make_data_set(choose_data_set("mummi", times=2, frames=5, atoms=7), tmp_path)
    with np.load(first) as one, np.load(second) as other:
        assert (one["samples"].shape, one["samples"].dtype) == ((5, 7), np.float64)
        assert not np.array_equal(one["samples"], other["samples"])


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        ("water", {}, "case must be one of"),
        ("adk", {"frames": 5}, "adk: frames cannot be chosen, only times, virtual"),
        ("mummi", {"virtual": True}, "mummi: virtual cannot be chosen"),
        ("yiip", {"times": 0}, "times must be at least 1, found 0"),
    ],
)
def test_sizes_that_a_data_set_does_not_have(name: str, sizes: dict[str, Any], words: str) -> None:
    with pytest.raises(kn.ArgumentError, match=words):
        choose_data_set(name, **sizes)


def test_a_data_set_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(kn.ArgumentError, match=r"takes about .* are free there; choose fewer times"):
        make_data_set(choose_data_set("yiip", times=10**9), tmp_path)
    assert not list(tmp_path.iterdir())
