"""Neighbours: pairs of MDAnalysis in cells, excluded bonds, groups that share atoms, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing import write_dcd
from kinema.testing.programs.imports import lazy

mda_distances = lazy("MDAnalysis.lib.distances")

Neighbors = kn.analysis.Neighbors


def rows(found: Any, frame: int) -> tuple[Any, Any]:
    """Pairs and distances of a frame."""
    at = slice(found.first_row[frame], found.first_row[frame + 1])
    return np.column_stack([found.i[at], found.j[at]]), found.distance[at]


def in_order(pairs: Any, values: Any) -> tuple[Any, Any]:
    order = np.lexsort(pairs.T[::-1])
    return pairs[order], values[order]


def test_two_groups_are_those_of_mdanalysis(periodic: Any) -> None:
    words = "resid 1:100 and not name H*", "resid 101:100000 and name O*"
    found = Neighbors(periodic.ours, words[0], words[1], cutoff=3.5).run(stop=2, workers=2).results
    first, second = (periodic.universe.select_atoms(one) for one in words)
    for frame, step in enumerate(periodic.universe.trajectory[:2]):
        pairs, distances = mda_distances.capped_distance(first.positions, second.positions, 3.5, box=step.dimensions)
        expected = in_order(np.column_stack([first.indices[pairs[:, 0]], second.indices[pairs[:, 1]]]), distances)
        ours = rows(found, frame)
        np.testing.assert_array_equal(ours[0], expected[0])
        np.testing.assert_allclose(ours[1], expected[1], atol=2e-4)
        assert len(pairs) > 4


def test_one_group_is_that_of_mdanalysis(periodic: Any) -> None:
    found = Neighbors(periodic.ours, "protein and not name H*", cutoff=4.5).run(stop=1).results
    group = periodic.universe.select_atoms("protein and not name H*")
    step = periodic.universe.trajectory[0]
    pairs, distances = mda_distances.self_capped_distance(group.positions, 4.5, box=step.dimensions)
    expected = in_order(np.sort(group.indices[pairs], axis=1), distances)
    np.testing.assert_array_equal(rows(found, 0)[0], expected[0])
    np.testing.assert_allclose(rows(found, 0)[1], expected[1], atol=2e-4)


def test_shells_of_rock_salt(tmp_path: Any) -> None:
    """Each ion has 6 others at d, 12 of its own kind at d times the root of 2, and 8 others at that of 3."""
    d, n = 2.82, 6
    places = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    sodium = np.flatnonzero(places.sum(axis=1) % 2 == 0)
    chlorine = np.setdiff1d(np.arange(n**3), sodium)
    cell = np.diag([n * d] * 3).astype(np.float32)
    write_dcd(tmp_path / "salt.dcd", (d * places[None]).astype(np.float32), cell=cell[None])
    traj = kn.open(tmp_path / "salt.dcd", stored=False)
    unlike = Neighbors(traj, sodium, chlorine, cutoff=1.01 * d).run().results
    np.testing.assert_array_equal(np.bincount(unlike.i, minlength=n**3)[sodium], 6)
    np.testing.assert_allclose(unlike.distance, d, rtol=1e-6)
    alike = Neighbors(traj, sodium, cutoff=1.5 * d).run().results
    assert len(alike.i) == 12 * len(sodium) // 2
    np.testing.assert_allclose(alike.distance, d * 2**0.5, rtol=1e-6)
    third = Neighbors(traj, chlorine, sodium, cutoff=1.75 * d).run().results
    assert len(third.i) == (6 + 8) * len(chlorine)
    least = kn.analysis.MinimumDistance(traj, sodium, other=chlorine, cutoff=1.75 * d).run().results
    assert (least.pairs[0], least.atoms[0]) == (14 * len(sodium), n**3)
    assert least.distance[0] == pytest.approx(d, rel=1e-6)


def test_pairs_that_bonds_connect_are_left_out(adk: Any) -> None:
    every = Neighbors(adk.ours, "resid 1:20", cutoff=4.0).run(stop=1).results
    kept = Neighbors(adk.ours, "resid 1:20", cutoff=4.0, exclude_bonds=2).run(stop=1).results
    bonded = {atom.index: {other.index for other in atom.bonded_atoms} for atom in adk.universe.atoms[:400]}

    def is_near(i: int, j: int) -> bool:
        return j in bonded[i] or bool(bonded[i] & bonded[j])

    expected = [pair for pair in rows(every, 0)[0].tolist() if not is_near(*pair)]
    assert rows(kept, 0)[0].tolist() == expected and len(expected) < every.counts[0]


def test_a_pair_of_groups_that_share_atoms_is_found_once(adk: Any) -> None:
    both = Neighbors(adk.ours, "resid 1:20", "resid 10:30", cutoff=4.0).run(stop=1).results
    every = Neighbors(adk.ours, "resid 1:30", cutoff=4.0).run(stop=1).results
    resid = adk.universe.atoms.resids
    first, second = resid <= 20, (resid >= 10) & (resid <= 30)
    expected = {(i, j) for i, j in rows(every, 0)[0].tolist() if first[i] & second[j] or first[j] & second[i]}
    found = [tuple(sorted(pair)) for pair in rows(both, 0)[0].tolist()]
    assert len(found) == len({*found}) and {*found} == expected


def test_refused(adk: Any) -> None:
    for given, message in [
        ({"cutoff": 0.0}, "cutoff is a finite number above 0, found 0"),
        ({"cutoff": np.inf}, "cutoff is a finite number above 0, found inf"),
        ({"cutoff": np.nan}, "cutoff is a finite number above 0, found nan"),
        ({"other": "resname XYZ"}, "resname XYZ"),
    ]:
        with pytest.raises(kn.ArgumentError, match=message):
            Neighbors(adk.ours, **given)


def test_bonds_are_needed_to_exclude_them(small: Any) -> None:
    trajectory = kn.open(small.paths[0], topology=kn.Atoms(15, names=["C"] * 15), stored=False)
    with pytest.raises(kn.ArgumentError, match=r"has no bonds, which exclude_bonds=2 needs; give a topology"):
        Neighbors(trajectory, exclude_bonds=2)


def test_groups_that_change_are_those_of_mdanalysis(solvated: Any) -> None:
    words = "name O* and around 3.5 protein", "protein and sphlayer 2 9 name CA"
    found = Neighbors(solvated.ours, words[0], words[1], cutoff=4.0).run(workers=2).results
    within = Neighbors(solvated.ours, kn.within(4.0, "protein", "name O* H*"), cutoff=3.0).run().results
    first, second = (solvated.universe.select_atoms(one, updating=True) for one in words)
    near = solvated.universe.select_atoms("name O* H* and around 4 protein", updating=True)
    for frame, step in enumerate(solvated.universe.trajectory):
        pairs, distances = mda_distances.capped_distance(first.positions, second.positions, 4.0, box=step.dimensions)
        expected = in_order(np.column_stack([first.indices[pairs[:, 0]], second.indices[pairs[:, 1]]]), distances)
        np.testing.assert_array_equal(rows(found, frame)[0], expected[0])
        np.testing.assert_allclose(rows(found, frame)[1], expected[1], atol=2e-4)
        pairs, _ = mda_distances.self_capped_distance(near.positions, 3.0, box=step.dimensions)
        expected_pairs = in_order(np.sort(near.indices[pairs], axis=1), pairs)[0]
        np.testing.assert_array_equal(rows(within, frame)[0], expected_pairs)
    assert len(set(found.counts)) > 3 and found.counts.min() > 0


def test_groups_that_change_and_share_atoms_give_each_pair_once(solvated: Any) -> None:
    words = "name O* and around 4 resid 1:3", "name O* H* and around 4 resid 3:6"
    found = Neighbors(solvated.ours, words[0], words[1], cutoff=3.2).run().results
    first, second = (solvated.universe.select_atoms(one, updating=True) for one in words)
    shared = 0
    for frame, step in enumerate(solvated.universe.trajectory):
        a, b = set(first.indices.tolist()), set(second.indices.tolist())
        every = solvated.universe.atoms[sorted(a | b)]
        pairs, _ = mda_distances.self_capped_distance(every.positions, 3.2, box=step.dimensions)
        pairs = every.indices[pairs].tolist()
        expected = {(i, j) for i, j in map(sorted, pairs) if (i in a and j in b) or (j in a and i in b)}
        ours = rows(found, frame)[0].tolist()
        assert {(min(pair), max(pair)) for pair in ours} == expected and len(ours) == len(expected)
        assert all(i in a and j in b for i, j in ours)
        shared += len(a & b)
    assert shared


def test_frames_without_members_have_no_rows(solvated: Any) -> None:
    found = Neighbors(solvated.ours, "name O* and around 2.2 resid 4 5", "protein", cutoff=3.0).run().results
    group = solvated.universe.select_atoms("name O* and around 2.2 resid 4 5", updating=True)
    empty = [not len(group) for _ in solvated.universe.trajectory]
    assert 0 < sum(empty) < len(empty)
    assert not found.counts[empty].any()
