"""Opening: names, lists, universes, topologies, many parts, laziness."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd, write_xtc


def test_properties_of_a_trajectory(small):
    assert (small.n_atoms, small.n_frames, len(small), small.format) == (15, 20, 20, "DCD")
    assert "positions" in small.fields
    assert small.dt == pytest.approx(1.0, rel=1e-6)
    assert small.units["length"] == "angstrom"
    assert small.topology is None
    (part,) = small.parts
    assert part.path == small.paths[0]
    assert (part.kept, part.file_frames, part.first_frame) == ((0, 20), 20, 0)
    assert part.size == Path(part.path).stat().st_size
    assert small.gaps == ()
    assert "DCD, 20 frames of 15 atoms" in repr(small)


def test_opening_is_lazy(tmp_path):
    paths = [tmp_path / f"{i}.dcd" for i in range(3)]
    for i, path in enumerate(paths):
        write_dcd(path, random_walk(4, 5), first_step=4 * i)
    traj = kn.open(paths)
    assert traj.n_atoms == 5
    assert "frames" not in repr(traj)  # not scanned yet
    assert traj.n_frames == 12


def test_universe(adk_dcd):
    mda = pytest.importorskip("MDAnalysis")
    universe = mda.Universe(*adk_dcd)
    traj = kn.open(universe, stored=False)
    assert traj.paths == (adk_dcd.trajectory,)
    assert len(traj.select("name CA")) == 214
    universe.trajectory.add_transformations(lambda ts: ts)
    with pytest.raises(kn.ArgumentError, match="transformations that work on its own time steps"):
        kn.open(universe)
    universe = mda.Universe(*adk_dcd)
    universe.transfer_to_memory(stop=2)
    with pytest.raises(kn.ArgumentError, match="in memory"):
        kn.open(universe)
    with pytest.raises(kn.ArgumentError, match="AtomGroup"):
        kn.open(universe.atoms)
    with pytest.raises(kn.ArgumentError, match="in memory|no trajectory"):  # noqa: RUF043
        kn.open(mda.Universe.empty(5))


def test_topology_of_other_atoms(small, adk_dcd):
    traj = kn.open(small.paths[0], topology=adk_dcd.topology)
    for use in (
        lambda: traj.topology,
        lambda: traj.select("name CA"),
        lambda: kn.analysis.RadiusOfGyration(traj),
    ):
        with pytest.raises(kn.ArgumentError, match=r"adk\.psf has 3341 atoms.*small\.dcd has 15"):
            use()


def test_topologies_that_cannot_be_read(small, tmp_path):
    path = small.paths[0]
    with pytest.raises(FileNotFoundError, match="no such topology file"):
        kn.open(path, topology=tmp_path / "none.psf")
    with pytest.raises(kn.ArgumentError, match="is a directory"):
        kn.open(path, topology=tmp_path)
    with pytest.raises(kn.ArgumentError, match="found int"):
        kn.open(path, topology=3)
    wrong = tmp_path / "wrong.psf"
    wrong.write_text("not a topology\n")
    with pytest.raises(kn.ArgumentError, match=r"wrong\.psf: MDAnalysis cannot read this topology"):
        kn.open(path, topology=wrong).select("name CA")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("wrong.psf", b"", "the topology file is empty"),
        ("wrong.psf", b"hello\n", r"cannot read this topology as PSF: it is not valid PSF file \(header = hello \)"),
        ("wrong.gro", b"hello\n", "as GRO: its content is not of this format, or no atoms are in it"),
        ("wrong.pdb", b"hello\n", "as PDB: its content is not of this format, or no atoms are in it"),
        ("wrong.psf", bytes(range(256)), "as PSF: it is not text"),
        ("wrong.tpr", b"hello\n", "as TPR: Invalid tpr file or cannot be recognized"),
        ("wrong.txt", b"hello\n", "its format follows from the ending of the file's name, and .txt is not one of them"),
        ("wrong", b"hello\n", "its format follows from the ending of the file's name, and this name has none"),
    ],
)
def test_what_is_wrong_with_a_topology(small, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(kn.ArgumentError, match=f"{name}: .*{message}$") as caught:
        kn.open(small.paths[0], topology=tmp_path / name).select("name CA")
    assert "<class" not in str(caught.value)
    assert "Parser" not in str(caught.value)
    assert str(caught.value).count(str(tmp_path / name)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"overlap": "best"}, "'last', 'first', 'all'"),
        ({"on_truncated": "ignore"}, "'error' or 'drop'"),
        ({"index": "no"}, "'auto' or 'rebuild'"),
        ({"max_open_files": 0}, "max_open_files"),
        ({"format": "PDBX"}, "PDBX"),
    ],
)
def test_options_are_checked(small, arguments, message):
    with pytest.raises(ValueError, match=message):
        kn.open(small.paths[0], **arguments)


@pytest.mark.parametrize(
    ("paths", "message"), [([], "no files"), (3, "found int"), ([b"x"], "found bytes"), (b"x", "found bytes")]
)
def test_paths_are_checked(paths, message):
    with pytest.raises(kn.ArgumentError, match=message):
        kn.open(paths)


def test_parts_of_other_atoms(tmp_path):
    write_dcd(tmp_path / "a.dcd", random_walk(3, 5))
    write_dcd(tmp_path / "b.dcd", random_walk(3, 6), first_step=3)
    with pytest.raises(kn.Error, match=r"b\.dcd.*5.*6"):
        kn.open([tmp_path / "a.dcd", tmp_path / "b.dcd"]).read()


def test_formats_can_be_mixed(tmp_path):
    positions = random_walk(8, 20)
    write_dcd(tmp_path / "a.dcd", positions[:4])
    write_xtc(tmp_path / "b.xtc", positions[4:], first_step=4)
    traj = kn.open([tmp_path / "a.dcd", tmp_path / "b.xtc"], stored=False)
    np.testing.assert_allclose(traj.read(), positions, atol=2e-5)


MANY_PARTS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
import kinema as kn
traj = kn.open(sys.argv[2:], stored=False)
assert traj.n_frames == 2 * len(sys.argv[2:])
rmsd = kn.analysis.RMSD(traj, select=range(4)).run(workers=4)
assert traj.read(frames=slice(None, None, -7), workers=3).shape[0] == len(range(0, traj.n_frames, 7))
print(float(rmsd.results.values.sum()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_a_thousand_parts_under_256_open_files(tmp_path):
    assert resource.RLIMIT_NOFILE is not None
    paths = []
    for i in range(1000):
        paths.append(str(tmp_path / f"{i:04}.{'xtc' if i % 2 else 'dcd'}"))
        (write_xtc if i % 2 else write_dcd)(paths[-1], random_walk(2, 12, seed=i), first_step=2 * i)
    found = subprocess.run(
        [sys.executable, "-c", MANY_PARTS, "--", *paths], capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stderr
    expected = kn.analysis.RMSD(kn.open(paths, stored=False), select=range(4)).run().results.values.sum()
    assert float(found.stdout) == expected
