"""Least distances of groups, compared with MDAnalysis' distances; by residues, own images, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing.programs.imports import lazy

mda_distances = lazy("MDAnalysis.lib.distances")

MinimumDistance = kn.analysis.MinimumDistance


def test_groups_are_those_of_mdanalysis(periodic: Any) -> None:
    words = "protein and resid 1:40", "resid 150:214"
    found = MinimumDistance(periodic.ours, words[0], words[1], cutoff=6.0).run(stop=3, workers=2).results
    first, second = (periodic.universe.select_atoms(one) for one in words)
    for frame, step in enumerate(periodic.universe.trajectory[:3]):
        every = mda_distances.distance_array(first.positions, second.positions, box=step.dimensions)
        i, j = np.unravel_index(every.argmin(), every.shape)
        assert found.distance[frame] == pytest.approx(every[i, j], abs=2e-4)
        assert (found.i[frame], found.j[frame]) == (first.indices[i], second.indices[j])
        near = every <= 6.0
        assert found.pairs[frame] == near.sum()
        assert found.atoms[frame] == near.any(axis=0).sum() + near.any(axis=1).sum()


def test_residues_against_residues(periodic: Any) -> None:
    words = "resid 1:3", "resid 100:108"
    found = MinimumDistance(periodic.ours, words[0], words[1], compound="residues").run(stop=1).results
    assert found.counts.tolist() == [27]
    box, at = periodic.universe.trajectory[0].dimensions, 0
    for one in periodic.universe.select_atoms(words[0]).residues:
        for other in periodic.universe.select_atoms(words[1]).residues:
            every = mda_distances.distance_array(one.atoms.positions, other.atoms.positions, box=box)
            assert found.distance[at] == pytest.approx(every.min(), abs=2e-4)
            assert found.pairs[at] == (every <= 4.5).sum()
            at += 1


def test_own_images(periodic: Any) -> None:
    found = MinimumDistance(periodic.ours, "protein and name CA", own_images=True).run(stop=1).results
    positions = periodic.ours.read([0], "protein and name CA")[0].astype(float)
    cell = periodic.ours[0].cell
    steps = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3), -1).reshape(-1, 3)
    shifts = steps[np.abs(steps).sum(axis=1) > 0] @ cell
    apart = positions[:, None] - positions
    least = min(np.linalg.norm(apart + shift, axis=-1).min() for shift in shifts)
    assert found.distance[0] == pytest.approx(least, rel=1e-9)


def test_refused(adk: Any) -> None:
    for given, message in [
        ({}, "give one of them"),
        ({"other": "resid 5", "own_images": True}, "give one of them"),
        ({"select": "resid 1:5", "other": "resid 5:9"}, "the two groups share"),
        ({"own_images": True, "compound": "residues"}, "neither compound="),
        ({"select": "resid 1:5", "other": "resid 6", "cutoff": -1.0}, "finite number above 0, found -1"),
    ]:
        with pytest.raises(kn.ArgumentError, match=message):
            MinimumDistance(adk.ours, **given)


def test_own_images_need_a_cell(small: Any) -> None:
    trajectory = kn.open(small.paths[0], topology=kn.Atoms(15, names=["C"] * 15), stored=False)
    if np.any(trajectory[0].cell):
        pytest.skip("the trajectory has a cell")
    with pytest.raises(kn.CorruptFileError, match="has no cell, so that the group has no images"):
        MinimumDistance(trajectory, own_images=True).run(stop=1)


def test_groups_that_change_are_those_of_mdanalysis(solvated: Any) -> None:
    words = "resname TIP3 and name O* and around 2.7 resid 4 5", "protein and not resid 4 5"
    with pytest.warns(kn.Note, match="a group has no atoms in frame [0-9]+: such frames have no least distance"):
        found = MinimumDistance(solvated.ours, words[0], words[1], cutoff=6.0).run(workers=2).results
    first, second = (solvated.universe.select_atoms(one, updating=True) for one in words)
    for frame, step in enumerate(solvated.universe.trajectory):
        at = slice(*found.first_row[frame : frame + 2])
        if not len(first):
            assert found.counts[frame] == 0
            continue
        every = mda_distances.distance_array(first.positions, second.positions, box=step.dimensions)
        i, j = np.unravel_index(every.argmin(), every.shape)
        assert found.distance[at] == pytest.approx([every[i, j]], abs=2e-4)
        assert (found.i[at].item(), found.j[at].item()) == (first.indices[i], second.indices[j])
        near = every <= 6.0
        assert found.pairs[at] == near.sum()
        assert found.atoms[at] == near.any(axis=0).sum() + near.any(axis=1).sum()
    assert 0 < found.counts.sum() < len(found.counts)
    with pytest.raises(kn.ArgumentError, match="has a row for each of the residues, but the atoms"):
        MinimumDistance(solvated.ours, words[0], words[1], compound="residues")
    with pytest.raises(kn.ArgumentError, match="the two groups share"):
        MinimumDistance(solvated.ours, "name O* and around 3 resid 4", "protein")
