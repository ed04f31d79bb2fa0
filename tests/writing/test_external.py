"""PDB and GRO through MDAnalysis' writers."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.formats.external import writer as external
from kinema.formats.external.writer import ExternalWriter
from kinema.model.universe import universe_of
from kinema.testing import random_walk
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
data = lazy("MDAnalysisTests.datafiles")

POSITIONS = random_walk(4, 12)
CELL = np.array([[30.0, 0, 0], [5, 28, 0], [3, 2, 25]])


@pytest.fixture(scope="module")
def atoms() -> kn.Atoms:
    return kn.Atoms.from_mdanalysis(MDAnalysis.Universe(data.GRO).atoms[:12])


def stopped(writer: ExternalWriter) -> None:
    """A loop that raises."""
    with writer:
        writer.write(positions=POSITIONS[:1])
        writer.flush()
        writer.write(positions=POSITIONS[1])
        raise RuntimeError("of the caller")


def lost(out: ExternalWriter) -> list[str]:
    """Losses of the frames, without the name of the file."""
    return [loss.removeprefix(f"{out.path}: ") for loss in out.losses]


def left(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("suffix", ["pdb", "gro"])
def test_one_frame(suffix: str, atoms: kn.Atoms, tmp_path: Path) -> None:
    path = tmp_path / f"one.{suffix}"
    velocities = np.full((12, 3), 1.25)
    with ExternalWriter(path, atoms=atoms, n_frames=1) as out:
        out.write(positions=POSITIONS[0], velocities=velocities, cell=CELL, step=250, time=0.5)
        assert left(tmp_path)[0].startswith("one.part-")
    assert left(tmp_path) == [path.name]
    assert ("MODEL" in path.read_text()) is False
    traj = kn.open(path, stored=False)
    rounding = 0.0005 if suffix == "pdb" else 0.005
    np.testing.assert_allclose(traj.read()[0], POSITIONS[0], atol=rounding + 1e-5)
    np.testing.assert_allclose(traj[0].cell, CELL, atol=5e-3)
    universe = MDAnalysis.Universe(str(path))
    assert universe.atoms.names.tolist() == atoms.names.tolist()
    assert universe.atoms.resnames.tolist() == atoms.resnames.tolist()
    if suffix == "gro":
        assert (traj.times[0], traj.steps[0]) == (0.5, 250)
        np.testing.assert_allclose(traj[0].velocities, velocities, atol=5e-4)
        assert "times are rounded to 0.00001 ps" in lost(out)
        assert "velocities are rounded to 0.0001 nm/ps" in lost(out)
    else:
        assert {"velocities are lost", "times are rounded to 0.00001 ps"} <= set(lost(out))
        assert "by Kinema t= 0.50000 step= 250" in path.read_text()
    unit = "angstrom" if suffix == "pdb" else "nm"
    assert f"positions are rounded to 0.001 {unit}" in lost(out)


def test_several_frames_of_a_trajectory_as_pdb(tmp_path: Path) -> None:
    source = kn.open(data.XTC, data.GRO, stored=False)
    chosen = source.select("protein and name CA")
    table = kn.Atoms.from_mdanalysis(MDAnalysis.Universe(data.GRO).select_atoms("protein and name CA"))
    path = tmp_path / "several.pdb"
    with ExternalWriter(path, topology=MDAnalysis.Universe(data.GRO).select_atoms("protein and name CA")) as out:
        block = next(source.blocks(select=chosen, frames=slice(0, 6, 2)))
        with pytest.warns(kn.Note, match="cells that differ from that of the first frame are lost"):
            out.write(block)
    assert (out.n_frames, out.n_flushed, out.n_atoms) == (3, 3, len(table))
    found = kn.open(path, stored=False)
    assert found.n_frames == 3
    np.testing.assert_allclose(found.read(), source.read(slice(0, 6, 2), chosen), atol=0.00051)
    assert path.read_text().rstrip().endswith("END")


def test_models_have_their_times_chains_and_bonds_once(tmp_path: Path) -> None:
    path = tmp_path / "models.pdb"
    words = {
        "names": ["N", "CA"] * 3,
        "resnames": ["ALA"] * 6,
        "resids": [1, 1, 2, 2, 3, 3],
        "resindices": [0, 0, 1, 1, 2, 2],
    }
    table = kn.Atoms(6, **words, segids=["PROA", "PROA", "PROB", "PROB", "W", "W"], bonds=[[0, 1], [2, 3]])
    with ExternalWriter(path, atoms=table) as out:
        for number in range(3):
            out.write(positions=POSITIONS[0, :6] + number, step=10 * number, time=0.5 * number)
    assert any("chains are named after segments: A is PROA, B is PROB, C is W" in note for note in out.notes)
    text = path.read_text()
    lines = text.splitlines()
    pairs = [line.split()[1:] for line in lines if line.startswith("CONECT")]
    assert pairs == [["1", "2"], ["2", "1"], ["3", "4"], ["4", "3"]]
    assert [f"t= {0.5 * number:.5f} step= {10 * number}" in text for number in range(3)] == [True] * 3
    assert [line[21] + line[72:76].strip() for line in lines if line.startswith("ATOM")][:6:2] == [
        "APROA",
        "BPROB",
        "CW",
    ]
    universe = MDAnalysis.Universe(str(path))
    assert [len(universe.trajectory), universe.atoms.chainIDs.tolist()] == [3, list("AABBCC")]
    np.testing.assert_allclose(universe.trajectory[2].positions, POSITIONS[0, :6] + 2, atol=0.001)


def test_several_frames_as_gro_are_each_mdanalysis_frame(atoms: kn.Atoms, tmp_path: Path) -> None:
    path = tmp_path / "several.gro"
    with ExternalWriter(path, atoms=atoms) as out:
        for number, frame in enumerate(POSITIONS):
            out.write(positions=frame, cell=CELL, step=number, time=2.0 * number)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 4 * 15
    for number in range(4):
        one = tmp_path / f"{number}.gro"
        one.write_text("".join(lines[15 * number : 15 * number + 15]))
        traj = kn.open(one, stored=False)
        assert (traj.times[0], traj.steps[0]) == (2.0 * number, number)
        np.testing.assert_allclose(traj.read()[0], POSITIONS[number], atol=0.0051)
    assert any("this file has more" in note for note in kn.open(path, stored=False).notes)


@pytest.mark.parametrize(
    ("suffix", "beyond"), [("pdb", 10_000.0), ("pdb", -1000.0), ("gro", 100_000.0), ("gro", np.nan)]
)
def test_what_the_columns_cannot_hold_is_refused_with_its_frame(
    suffix: str, beyond: float, atoms: kn.Atoms, tmp_path: Path
) -> None:
    path = tmp_path / f"wide.{suffix}"
    wrong = POSITIONS.copy()
    wrong[2, 7, 1] = beyond
    with ExternalWriter(path, atoms=atoms) as out:
        out.write(positions=POSITIONS[:3])
        with pytest.raises(
            kn.ArgumentError, match=r"frame 5: positions of atom 8 \(counted from 1\) do not fit the columns"
        ) as caught:
            out.write(positions=wrong)
        assert caught.value.frame == 5
        # nothing of it was taken
        assert out.n_frames == 3
    assert kn.open(path, stored=False).n_frames == (3 if suffix == "pdb" else 1)


def test_velocities_beyond_their_columns(atoms: kn.Atoms, tmp_path: Path) -> None:
    out = ExternalWriter(tmp_path / "fast.gro", atoms=atoms)
    with pytest.raises(kn.ArgumentError, match=r"frame 0: velocities of atom 1 \(counted from 1\) do not fit"):
        out.write(positions=POSITIONS[0], velocities=np.full((12, 3), 10_000.0))
    out.abort()
    assert left(tmp_path) == []


def test_an_error_in_the_loop_leaves_the_frames_under_the_temporary_name(atoms: kn.Atoms, tmp_path: Path) -> None:
    for suffix in ("pdb", "gro"):
        path = tmp_path / f"broken.{suffix}"
        with pytest.raises(RuntimeError, match="of the caller") as caught:
            stopped(ExternalWriter(path, atoms=atoms))
        assert not path.exists()
        (name,) = [one for one in left(tmp_path) if one.endswith(suffix)]
        assert any(f"2 frames are in {tmp_path / name}" in note for note in caught.value.__notes__)
        assert kn.open(tmp_path / name, stored=False).n_frames == (2 if suffix == "pdb" else 1)
        os.unlink(tmp_path / name)
        with pytest.raises(RuntimeError, match="of the caller"):
            stopped(ExternalWriter(path, atoms=atoms, keep_partial=False))
        assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.pdb", {}, "PDB needs names of atoms, expected one of atoms= and topology="),
        ("a.xyz", {"atoms": True}, "no writer of .xyz"),
        ("a.gro", {"atoms": True, "mode": "a"}, "GRO files are not appended to"),
        ("a.gro", {"atoms": True, "n_atoms": 5}, "number of atoms, expected 12 of the topology, found 5"),
        ("a.gro", {"atoms": "x.gro"}, "atoms is a table of the class Atoms, found str"),
    ],
)
def test_wrong_options(name: str, options: dict[str, Any], message: str, atoms: kn.Atoms, tmp_path: Path) -> None:
    if options.get("atoms") is True:
        options = {**options, "atoms": atoms}
    with pytest.raises((kn.ArgumentError, kn.UnsupportedFormatError), match=message):
        ExternalWriter(tmp_path / name, **options)
    assert left(tmp_path) == []


def test_an_existing_file_and_promises(atoms: kn.Atoms, tmp_path: Path) -> None:
    path = tmp_path / "there.gro"
    path.write_text("old")
    with pytest.raises(kn.ArgumentError, match="exists"):
        ExternalWriter(path, atoms=atoms)
    out = ExternalWriter(path, atoms=atoms, overwrite=True, n_frames=2, keep_partial=False)
    out.write(positions=POSITIONS[0])
    with pytest.raises(kn.ArgumentError, match="expected n_frames=2, found 1"):
        out.close()
    assert path.read_text() == "old"
    with pytest.raises(kn.ArgumentError, match="no frame was written"):
        ExternalWriter(path, atoms=atoms, overwrite=True).close()
    assert left(tmp_path) == [path.name]
    with ExternalWriter(path, atoms=atoms, overwrite=True) as out:
        out.write(positions=POSITIONS[0])
    out.close()
    with pytest.raises(kn.ArgumentError, match="the writer is closed"):
        out.write(positions=POSITIONS[0])


def test_placeholders_and_cut_names_are_said(tmp_path: Path) -> None:
    table = kn.Atoms(12, masses=np.ones(12))
    with pytest.warns(kn.Note, match="atoms have no names, resnames, resids, placeholders are written"):
        out = ExternalWriter(tmp_path / "bare.pdb", atoms=table)
    out.write(positions=POSITIONS[0])
    out.close()
    assert kn.open(tmp_path / "bare.pdb", stored=False).n_atoms == 12
    long = kn.Atoms(12, names=np.array(["CARBON7"] * 12), resnames=np.array(["ALA"] * 12), resids=np.full(12, 10_001))
    with ExternalWriter(tmp_path / "long.pdb", atoms=long) as out:
        out.write(positions=POSITIONS[0])
    assert {"names of atoms are cut to 4 letters", "numbers of residues beyond 9999 lose their first digits"} <= set(
        lost(out)
    )


def test_rotated_cells(atoms: kn.Atoms, tmp_path: Path) -> None:
    with ExternalWriter(tmp_path / "rotated.gro", atoms=atoms) as out:
        out.write(positions=POSITIONS[0], cell=CELL[:, [1, 2, 0]])
    assert any(loss.startswith("the orientation of cells is lost") for loss in lost(out))


def test_files_of_one_call_are_those_of_single_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text about atoms is made once for all files: the Universe, and the bonds at the end."""
    made: list[kn.Atoms] = []
    monkeypatch.setattr(external, "universe_of", lambda table: made.append(table) or universe_of(table))
    traj = kn.open(data.DCD, topology=data.PSF)
    kn.convert(traj, tmp_path / "each.pdb", frames=[0, 40, 90], select="resid 1:20", split=1)
    assert len(made) == 1
    for number, frame in enumerate([0, 40, 90]):
        kn.convert(traj, tmp_path / f"alone{number}.pdb", frames=[frame], select="resid 1:20")
        text = (tmp_path / f"each{number}.pdb").read_text()
        assert text == (tmp_path / f"alone{number}.pdb").read_text()
        assert text.count("CONECT") > 200 and text.endswith("END\n")
    assert len(made) == 4
