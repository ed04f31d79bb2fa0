"""Analyses with any number of rows a frame: results, tables, occupancy, pictures, files, frames that follow."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis.occupancy import distinct_rows, occurrences
from kinema.base.notes import collected
from kinema.cli.in_process import call_kinema
from kinema.execution.following import follow
from kinema.testing import write_dcd
from kinema.testing.runner_work import NearPairs

# distances of atoms 0 and 1, and of 0 and 2, in six frames; frame 3 has no pair that is near
NEAR = [1.0, 2.0, 2.5, 9.0, 2.5, 1.0]
FAR = [2.0, 9.0, 9.0, 9.0, 2.0, 2.0]


@pytest.fixture
def traj(tmp_path: Path) -> kn.Trajectory:
    positions = np.zeros((6, 3, 3), np.float32)
    positions[:, 1, 0], positions[:, 2, 1] = NEAR, FAR
    write_dcd(tmp_path / "three.dcd", positions)
    return kn.open(tmp_path / "three.dcd")


def near(traj: kn.Trajectory) -> NearPairs:
    return NearPairs(traj, np.array([[0, 1], [0, 2]]), cutoff=3.0)


def test_rows_and_counts_of_all_frames(traj: kn.Trajectory) -> None:
    found = near(traj).run(workers=1).results
    np.testing.assert_array_equal(found.counts, [2, 1, 1, 0, 2, 2])
    np.testing.assert_array_equal(found.first_row, [0, 2, 3, 4, 4, 6, 8])
    np.testing.assert_array_equal(found.frames, range(6))
    np.testing.assert_array_equal(found.i, np.zeros(8))
    np.testing.assert_array_equal(found.j, [1, 2, 1, 1, 1, 2, 1, 2])
    np.testing.assert_array_equal(found.distance, [1, 2, 2, 2.5, 2.5, 2, 1, 2])


def test_the_table_counts_atoms_from_one_in_files(traj: kn.Trajectory, tmp_path: Path) -> None:
    analysis = near(traj).run(workers=1)
    table = analysis.results.to_dataframe()
    assert list(table) == ["frame", "time", "i", "j", "distance"]
    np.testing.assert_array_equal(table["frame"], [0, 0, 1, 2, 4, 4, 5, 5])
    np.testing.assert_array_equal(table["j"], analysis.results.j)
    analysis.save(tmp_path / "near.csv", output_unit="nm")
    head, *rows = (row for row in csv.reader((tmp_path / "near.csv").open()) if not row[0].startswith("#"))
    assert head == ["frame", "time (ps)", "i", "j", "distance (nm)"]
    assert rows[0][2:] == ["1", "2", "0.1"] and len(rows) == 8
    for suffix in ("xvg", "dat", "npy"):
        analysis.save(tmp_path / f"near.{suffix}")
    assert np.load(tmp_path / "near.npy").shape == (8, 5)


def test_atoms_are_named_where_the_topology_is_known(adk: Any) -> None:
    peptide = adk.ours
    analysis = NearPairs(peptide, np.array([[0, 1], [4, 30]]), cutoff=100.0).run(stop=2, workers=1)
    table = analysis.results.to_dataframe()
    columns = [f"{key}{of}" for key in "ij" for of in ("", "_name", "_residue", "_resname", "_segment")]
    assert list(table) == ["frame", "time", *columns, "distance"]
    atoms = peptide.atoms
    assert list(table["j_resname"]) == list(atoms.resnames[[1, 30, 1, 30]])
    assert list(table["i_name"]) == list(atoms.names[[0, 4, 0, 4]])
    by_residue = analysis.occupancy(by="residue")
    np.testing.assert_array_equal(by_residue.tuples, atoms.resindices[[[0, 1], [4, 30]]])
    assert [one.name for one in by_residue.table().columns][:3] == ["i", "i_resname", "i_segment"]


def test_occupancy(traj: kn.Trajectory, tmp_path: Path) -> None:
    found = near(traj).run(workers=1).occupancy()
    np.testing.assert_array_equal(found.tuples, [[0, 1], [0, 2]])
    np.testing.assert_allclose(found.share, [5 / 6, 3 / 6])
    np.testing.assert_array_equal(found.events, [2, 2])
    np.testing.assert_allclose(found.means["distance"], [np.mean([1, 2, 2.5, 2.5, 1]), 2.0])
    found.save(tmp_path / "occupancy.csv", output_unit="nm")
    lines = [line for line in (tmp_path / "occupancy.csv").read_text().splitlines() if line[0] != "#"]
    assert lines[0] == "i,j,share (1),events,mean_distance (nm)"
    assert lines[1].startswith("1,2,0.8333333") and len(lines) == 3
    # consecutive analysed frames are one event, whatever lies between them in the file
    every_second = near(traj).run(step=2, workers=1).occupancy()
    np.testing.assert_array_equal(every_second.events, [1, 2])
    assert len(found.to_dataframe()) == 2


def test_occupancy_counts_by_brute_force() -> None:
    random = np.random.default_rng(4)
    frames = np.sort(random.integers(0, 40, 300))
    for largest in (5, 1 << 40):
        columns = [random.integers(0, 3, 300) * (largest // 4), random.integers(0, 3, 300) * (largest // 4)]
        tuples, places = distinct_rows(columns)
        np.testing.assert_array_equal(tuples[places], np.column_stack(columns))
        assert [*map(tuple, tuples)] == sorted({*zip(*columns, strict=True)})
        counts, events = occurrences(places, frames, len(tuples))
        for one in range(len(tuples)):
            there = {*frames[places == one].tolist()}
            assert counts[one] == len(there)
            assert events[one] == sum(frame - 1 not in there for frame in there)


def test_no_row_in_any_frame(traj: kn.Trajectory, tmp_path: Path) -> None:
    analysis = NearPairs(traj, np.array([[0, 1]]), cutoff=0.5).run(workers=1, out=tmp_path / "none.h5")
    np.testing.assert_array_equal(analysis.results.counts, np.zeros(6))
    assert len(analysis.results.to_dataframe()) == len(analysis.occupancy()) == 0
    analysis.save(tmp_path / "none.csv")
    analysis.occupancy().save(tmp_path / "occupancy.csv")
    analysis.plot(tmp_path / "none.png")


def test_rows_in_a_file_are_those_in_memory(traj: kn.Trajectory, tmp_path: Path) -> None:
    in_memory, in_file = near(traj).run(workers=1), near(traj).run(workers=1, out=tmp_path / "near.h5")
    assert in_file.results.keys() == in_memory.results.keys()
    for name in in_memory.results:
        np.testing.assert_array_equal(np.asarray(in_file.results[name]), in_memory.results[name])
    assert not isinstance(in_file.results.distance, np.ndarray)
    assert in_file.table().columns[-1].unit == "angstrom"
    np.testing.assert_array_equal(in_file.occupancy().share, in_memory.occupancy().share)


def test_followed_as_it_is_run(traj: kn.Trajectory) -> None:
    followed = near(traj)
    follow([followed], 4, 60.0, options={"workers": 1})
    expected = near(traj).run(stop=4, workers=1).results
    for name in expected:
        np.testing.assert_array_equal(followed.results[name], expected[name], err_msg=name)


def test_a_picture_of_thousands(tmp_path: Path) -> None:
    write_dcd(tmp_path / "many.dcd", np.random.default_rng(1).normal(size=(3, 3000, 3)).astype(np.float32))
    pairs = np.column_stack([np.arange(2999), np.arange(1, 3000)])
    analysis = NearPairs(kn.open(tmp_path / "many.dcd"), pairs, cutoff=2.0).run(workers=1)
    axes = analysis.plot(tmp_path / "many.png").axes[0]
    n_tuples = len(analysis.occupancy())
    assert axes.get_ylim() == (n_tuples - 0.5, -0.5) and n_tuples > 2000
    assert (tmp_path / "many.png").stat().st_size < 200_000
    first = analysis.occupancy().tuples[0] + 1
    assert axes.yaxis.get_major_formatter()(0.0, 0) == f"{first[0]} - {first[1]}"


def test_what_is_refused(traj: kn.Trajectory) -> None:
    analysis = near(traj)
    with pytest.raises(kn.ArgumentError, match=r"no results yet; call run\(\) first"):
        analysis.occupancy()
    analysis.run(workers=1)
    with pytest.raises(kn.ArgumentError, match="by must be"):
        analysis.occupancy(by="segment")
    with pytest.raises(kn.ArgumentError, match="by='residue' needs residues: open the trajectory with topology="):
        analysis.occupancy(by="residue")


def test_the_command_writes_the_occupancy(adk_dcd: Any, tmp_path: Path) -> None:
    words = ["salt-bridges", "-f", adk_dcd.trajectory, "-s", adk_dcd.topology, "--stop", "3", "--no-stored"]
    done = call_kinema(*words, "--occupancy", "often.csv", "--by", "atom", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    head, *rows = (line for line in (tmp_path / "often.csv").read_text().splitlines() if line[0] != "#")
    assert head.startswith("acid,acid_name,acid_residue") and head.endswith("share (1),events,mean_distance (angstrom)")
    assert facts["outputs"] == ["often.csv"] and facts["rows"] >= len(rows) > 3
    refused = call_kinema(*words, "--by", "atom", cwd=tmp_path)
    assert refused.returncode == 2 and "--by says what distinguishes rows of --occupancy" in refused.stderr


@pytest.fixture(scope="module")
def long_traj(tmp_path_factory: pytest.TempPathFactory) -> kn.Trajectory:
    """17,000 frames of 12 atoms, which move at random in a small cell; in frames 100 to 199 all are far apart."""
    folder = tmp_path_factory.mktemp("long")
    positions = np.random.default_rng(7).uniform(0, 9, (17_000, 12, 3)).astype(np.float32)
    positions[100:200] = 4.5 * np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3)[:12]
    cell = np.broadcast_to(np.diag([14.0, 14.0, 14.0]).astype(np.float32), (17_000, 3, 3))
    write_dcd(folder / "long.dcd", positions, cell=cell)
    return kn.open(folder / "long.dcd")


def test_together_with_others_rows_are_those_of_a_run_alone(long_traj: kn.Trajectory) -> None:
    def made() -> kn.analysis.Neighbors:
        return kn.analysis.Neighbors(long_traj, cutoff=4.0)

    alone = made().run(runner="serial").results
    with collected():
        together = made(), kn.analysis.PCA(long_traj, weights=None), kn.analysis.RMSF(long_traj), made()
        kn.run(list(together), workers=3)
    assert len(alone.counts) == 17_000 and not alone.counts[100:200].any() and alone.counts[200:].any()
    for one in (together[0].results, together[3].results):
        assert one.keys() == alone.keys()
        for name in alone:
            assert one[name].tobytes() == alone[name].tobytes(), name
    x = long_traj.read(frames=[150, 16_999])
    for frame, row in zip((150, 16_999), x.astype(float), strict=True):
        apart = row[:, None] - row
        apart -= 14 * np.round(apart / 14)
        expected = np.argwhere(np.triu(np.linalg.norm(apart, axis=-1) <= 4.0, 1))
        rows = slice(*alone.first_row[frame : frame + 2])
        np.testing.assert_array_equal(np.column_stack([alone.i[rows], alone.j[rows]]), expected)


@pytest.mark.parametrize("runner", ["threads", "processes"])
def test_rows_beyond_the_memory_limit_go_to_a_file(long_traj: kn.Trajectory, runner: str, tmp_path: Path) -> None:
    near = kn.analysis.Neighbors(long_traj, cutoff=8.0)
    limit = "9 MiB"
    with pytest.raises(kn.MemoryLimitError, match=r"rows of neighbors take more than the 9437184 bytes .* out= writes"):
        near.run(memory=limit, runner=runner)
    near.run(memory=limit, runner=runner, out=tmp_path / "near.h5")
    rows = near.results.first_row[-1]
    assert 16 * rows > 9 << 20
    assert kn.analysis.Neighbors(long_traj, cutoff=8.0).run(memory="64 MiB").results.first_row[-1] == rows
