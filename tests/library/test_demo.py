"""The files of the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kinema as kn


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
