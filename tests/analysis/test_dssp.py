"""Secondary structure: letters of MDTraj and of mkdssp, periodic images, hydrogens, tables and the picture."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing.programs.imports import lazy
from kinema.testing.writers import write_dcd

datafiles = lazy("MDAnalysisTests.datafiles")
mdtraj = lazy("mdtraj")

STORED = Path(__file__).parent.parent / "data" / "dssp"
MKDSSP: dict[str, str] = json.loads((STORED / "mkdssp.json").read_text())
# residues whose letter differs from mkdssp's, by file: theirs and ours. mkdssp rounds energies to 0.001 kcal/mol, so
# that a bond of -0.50002 is none for it.
ROUNDED = {"1BD2.pdb.gz": {("D:PRO43", " ", "E")}}


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    return kn.open(datafiles.DCD, topology=datafiles.PSF, stored=False)


def letters(analysis: Any) -> np.ndarray:
    return np.char.decode(np.asarray(analysis.results.dssp))


def test_all_letters_are_those_of_mdtraj(adk: kn.Trajectory) -> None:
    theirs = mdtraj.compute_dssp(mdtraj.load_dcd(datafiles.DCD, top=datafiles.PSF, stride=7), simplified=False)
    ours = letters(kn.analysis.DSSP(adk).run(step=7))
    assert ours.shape == (14, 214)
    np.testing.assert_array_equal(ours, theirs)
    assert {"H", "E", "B", "G", "T", "S", " "} <= set(ours.ravel())


@pytest.mark.parametrize("name", MKDSSP)
def test_letters_are_those_of_mkdssp(name: str, tmp_path: Path) -> None:
    path = Path(datafiles.__file__).parent / "data" / name
    if name.endswith(".gz"):
        path = tmp_path / name.removesuffix(".gz")
        path.write_bytes(gzip.decompress((STORED / name).read_bytes()))
    analysis = kn.analysis.DSSP(kn.open(path, topology=path, stored=False)).run(stop=1)
    # mkdssp 4 has a state P, of polyproline helices, which the publication does not have
    theirs, ours = np.array(list(MKDSSP[name].replace("P", " "))), letters(analysis)[0]
    different = {(analysis.labels[i], str(theirs[i]), str(ours[i])) for i in np.flatnonzero(theirs != ours)}
    assert different == ROUNDED.get(name, set())


def test_molecules_need_not_be_whole(adk: kn.Trajectory, tmp_path: Path) -> None:
    positions = adk.read(frames=[0, 50])
    cell = np.array([[90.0, 0, 0], [20.0, 85.0, 0], [-30.0, 25.0, 80.0]], np.float32)
    shifts = np.random.default_rng(3).integers(-1, 2, (*positions.shape[:2], 3))
    broken = (positions + shifts @ cell).astype(np.float32)
    write_dcd(tmp_path / "broken.dcd", broken, cell=np.broadcast_to(cell, (2, 3, 3)))
    traj = kn.open(tmp_path / "broken.dcd", topology=datafiles.PSF, stored=False)
    expected = letters(kn.analysis.DSSP(adk).run(frames=[0, 50]))
    assert (letters(kn.analysis.DSSP(traj).run()) != expected).mean() < 0.005


def test_hydrogens_of_the_file(adk: kn.Trajectory) -> None:
    placed, given = (kn.analysis.DSSP(adk, hydrogens=which).run(stop=5) for which in ("placed", "file"))
    # they lie in almost the same places
    assert 0 < (letters(placed) != letters(given)).mean() < 0.05
    path = datafiles.PDB_icodes
    traj = kn.open(path, topology=path, stored=False)
    with pytest.raises(kn.ArgumentError, match="no residue has an atom H or HN"):
        kn.analysis.DSSP(traj, hydrogens="file")


def test_three_states_are_made_of_eight(adk: kn.Trajectory) -> None:
    eight, three = (letters(kn.analysis.DSSP(adk, simplified=only).run(step=20)) for only in (False, True))
    simple = {"H": "H", "G": "H", "I": "H", "E": "E", "B": "E"}
    np.testing.assert_array_equal(three, np.vectorize(lambda one: simple.get(one, "C"))(eight))


def test_shares_and_tables(adk: kn.Trajectory, tmp_path: Path) -> None:
    analysis = kn.analysis.DSSP(adk, "resid 1-60").run(step=10)
    found = letters(analysis)
    shares = analysis.shares()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shares[:, 0], (found == "H").mean(axis=1))
    of_residues = analysis.shares("residue")
    np.testing.assert_array_equal(of_residues[:, 2], (found == "E").mean(axis=0))
    table = analysis.table()
    text = next(column.values for column in table.columns if column.name == "dssp")
    assert list(text) == ["".join(row).replace(" ", "-") for row in found]
    rows = kn.analysis.DSSP(adk, "resid 1-60", by="residue").run(step=10).table()
    assert rows.columns[1].values[2] == "ILE3" and len(rows.columns[0].values) == 60
    analysis.save(tmp_path / "dssp.csv")
    assert text[3] in (tmp_path / "dssp.csv").read_text()


def test_out_holds_one_byte_a_residue(adk: kn.Trajectory, tmp_path: Path) -> None:
    whole = kn.analysis.DSSP(adk).run(step=10)
    found = kn.analysis.DSSP(adk).run(step=10, out=tmp_path / "dssp.h5")
    assert found.results.values.dtype == np.uint8 and found.results.dssp.dtype == np.dtype("S1")
    np.testing.assert_array_equal(np.asarray(found.results.dssp), whole.results.dssp)
    np.testing.assert_array_equal(found.results.dssp[3, 4:9], whole.results.dssp[3, 4:9])
    assert found.table().columns[2].values[0] == whole.table().columns[2].values[0]


def test_what_cannot_be_done_is_refused(adk: kn.Trajectory) -> None:
    with pytest.raises(kn.ArgumentError, match="no residue of the selection has atoms N, CA and C"):
        kn.analysis.DSSP(kn.open(datafiles.waterDCD, topology=datafiles.waterPSF, stored=False))
    with pytest.raises(kn.ArgumentError, match="hydrogens"):
        kn.analysis.DSSP(adk, hydrogens="guessed")
