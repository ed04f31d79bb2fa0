"""The command line on H5MD files that bring their own topology, and on files that nothing can read."""

import json

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.cli.in_process import call_kinema
from kinema.testing.h5md_files import CASES


def kinema(folder, *words):
    return call_kinema(*words, cwd=folder)


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


def test_info_lists_what_is_known_of_the_atoms(gromacs):
    done = kinema(gromacs, "info", "traj.h5md")
    assert (
        "atoms: names, elements, masses, charges, resids, resnames, resindices, segids, molnums, bonds; of traj.h5md\n"
    ) in done.stdout
    atoms = kn.Atoms(2, names=["A", "B"], masses=[1.0, 2.0], types=["a", "b"], guessed=["masses"])
    with kn.Writer(gromacs / "own.h5md", 2, atoms=atoms) as out:
        out.write(np.eye(2, 3))
    assert "atoms: names, types, masses (guessed); of own.h5md\n" in kinema(gromacs, "info", "own.h5md").stdout
    found = json.loads(kinema(gromacs, "info", "own.h5md", "--json").stdout)["atoms"]
    assert found == {"from": "own.h5md", "columns": ["names", "types", "masses"], "guessed": ["masses"]}
    with kn.Writer(gromacs / "bare.h5md", 2) as out:
        out.write(np.eye(2, 3))
    assert json.loads(kinema(gromacs, "info", "bare.h5md", "--json").stdout)["atoms"] is None
    done = kinema(gromacs, "info", "bare.h5md", "-s", "own.h5md")
    assert "atoms: names, types, masses (guessed); of own.h5md\n" in done.stdout


def test_a_topology_without_a_column_is_named(gromacs):
    with kn.Writer(gromacs / "named.h5md", 2, atoms=kn.Atoms(2, names=["A", "B"])) as out:
        out.write(np.eye(2, 3))
    done = kinema(gromacs, "rgyr", "-f", "named.h5md", "-o", "out.csv")
    assert done.returncode == 2
    assert "named.h5md has no masses" in done.stderr


def test_a_cut_file_is_named(gromacs):
    path = gromacs / "traj.h5md"
    path.write_bytes(path.read_bytes()[:5000])
    done = kinema(gromacs, "rmsd", "-f", "traj.h5md", "--select", "all", "-o", "out.csv")
    assert done.returncode == 2
    assert done.stderr.startswith("kinema: traj.h5md: H5MD: ")
    assert "cut off" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (gromacs / "out.csv").exists()


def test_repack_takes_every_filter(tmp_path):
    with kn.Writer(tmp_path / "in.h5md", 5) as out:
        out.write(positions=np.zeros((9, 5, 3)))
    for words, filters in (
        (["--compress", "szip", "--checksum"], [4, 3]),
        (["--compress", "gzip:3", "--no-shuffle"], [1]),
        (["--compress", "307:9", "--shuffle"], [2, 307]),
    ):
        done = kinema(tmp_path, "repack", "in.h5md", "out.h5md", "--force", *words)
        assert done.returncode == 0, done.stderr
        with h5py.File(tmp_path / "out.h5md") as file:
            plist = file["particles/trajectory/position/value"].id.get_create_plist()
            assert [plist.get_filter(i)[0] for i in range(plist.get_nfilters())] == filters
    refused = kinema(tmp_path, "repack", "in.h5md", "out.h5md", "--force", "--checksum")
    assert refused.returncode == 2
    assert "--checksum needs --compress, which is kept as it was" in refused.stderr


def test_files_that_are_drawn_in_are_listed_or_refused(gromacs):
    (gromacs / "own").mkdir()
    with h5py.File(gromacs / "own" / "a.h5md", "w") as file, h5py.File(gromacs / "traj.h5md") as traj:
        for name in traj:
            traj.copy(name, file)
        file["more"] = h5py.ExternalLink("../traj.h5md", "/")
    refused = kinema(gromacs / "own", "info", "a.h5md")
    assert refused.returncode == 2 and "expected files in" in refused.stderr and "--external any" in refused.stderr
    listed = kinema(gromacs / "own", "info", "a.h5md", "--external", "any")
    assert listed.returncode == 0 and f"  draws in other files: {gromacs / 'traj.h5md'}\n" in listed.stdout
    copied = kinema(gromacs / "own", "repack", "a.h5md", "b.h5md", "--external", "any")
    assert copied.returncode == 0 and "draws in other files by links or virtual data sets" in copied.stderr
