"""The serial runner passes the suite of all runners, and has one worker only."""

from pathlib import Path

import pytest

import kinema as kn
from kinema.testing import RunnerTests, random_walk, write_dcd


class TestSerial(RunnerTests):
    name = "serial"
    worker_counts = (None, 1)


def test_more_workers_are_refused(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(3, 4))
    with pytest.raises(kn.ArgumentError, match="one worker"):
        kn.analysis.RMSD(kn.open(tmp_path / "a.dcd")).run(runner="serial", workers=2)
