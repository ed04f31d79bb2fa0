"""The tests of `base_classes_of_mdanalysis.py`, in a process of their own: MDAnalysis is imported to collect them."""

import os
import subprocess
import sys
from pathlib import Path

import kinema

MODULE = Path(__file__).with_name("base_classes_of_mdanalysis.py")


def test_base_classes_of_mdanalysis_pass(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(kinema.__file__).parents[1])}
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "tests")]
    words = [sys.executable, "-m", "pytest", *options, str(MODULE)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=280)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
