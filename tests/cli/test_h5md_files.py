"""The command line on H5MD files that bring their own topology, and on files that nothing can read."""

import subprocess
import sys

import pytest

from kinema.testing.h5md_files import CASES


def kinema(folder, *words):
    command = [sys.executable, "-m", "kinema", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def gromacs(tmp_path):
    """As GROMACS' mdrun writes it: names, masses and residues are in the file."""
    (case,) = (case for case in CASES if case.name == "gromacs")
    case.write(tmp_path / "traj.h5md")
    return tmp_path


@pytest.mark.parametrize(
    "words", [("rmsd", "--select", "name OW"), ("rgyr",), ("rmsf", "--select", "resid 1")], ids=str
)
def test_no_topology_file_is_needed(gromacs, words):
    done = kinema(gromacs, words[0], "-f", "traj.h5md", *words[1:], "-o", "out.csv")
    assert done.returncode == 0, done.stderr
    assert len((gromacs / "out.csv").read_text().splitlines()) > 5


def test_a_cut_file_is_named(gromacs):
    path = gromacs / "traj.h5md"
    path.write_bytes(path.read_bytes()[:5000])
    done = kinema(gromacs, "rmsd", "-f", "traj.h5md", "--select", "all", "-o", "out.csv")
    assert done.returncode == 2
    assert done.stderr.startswith("kinema: traj.h5md: H5MD: ")
    assert "cut off" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (gromacs / "out.csv").exists()
