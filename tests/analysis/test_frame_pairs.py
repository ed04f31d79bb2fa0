"""Pairs, groups and nearest images of frames, for analyses of the user's own: as MDAnalysis and brute force."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import kinema as kn


def test_pairs_are_those_of_brute_force_over_all_images(solvated: Any) -> None:
    solvated = solvated.ours
    frame = solvated[3]
    shifts = np.array([[a, b, c] for a in range(-2, 3) for b in range(-2, 3) for c in range(-2, 3)]) @ frame.cell
    x = frame.positions.astype(np.float64)
    apart = np.stack([np.linalg.norm(x[None] - x[:, None] + shift, axis=-1) for shift in shifts]).min(axis=0)
    found = frame.pairs("name O*", 6.0)
    oxygens = solvated.select("name O*").indices
    i, j = np.nonzero(np.triu(apart <= 6.0, 1))
    kept = np.isin(i, oxygens) & np.isin(j, oxygens)
    np.testing.assert_array_equal(np.stack([found.i, found.j]), np.stack([i, j])[:, kept])
    np.testing.assert_allclose(found.distance, apart[found.i, found.j], rtol=1e-12)
    vectors = x[found.j] - x[found.i]
    nearest = frame.nearest_images(vectors)
    np.testing.assert_allclose(np.linalg.norm(nearest, axis=1), found.distance, rtol=1e-12)
    assert (np.linalg.norm(vectors, axis=1) > found.distance + 1).any(), "images matter"


@pytest.mark.parametrize(
    ("select", "other"), [("protein", None), ("protein", "name O*"), ("resid 1 2 80", "resid 2 3 80")]
)
def test_pairs_are_those_of_neighbors(solvated: Any, select: str, other: str | None) -> None:
    solvated = solvated.ours
    expected = kn.analysis.Neighbors(solvated, select, other=other, cutoff=3.5).run().results
    for number, frame in enumerate(solvated):
        rows = slice(*expected.first_row[number : number + 2])
        found = frame.pairs(select, 3.5, other=other)
        np.testing.assert_array_equal(found.i, expected.i[rows])
        np.testing.assert_array_equal(found.j, expected.j[rows])
        np.testing.assert_array_equal(found.distance, expected.distance[rows])


class ResiduePairs(kn.analysis.PythonKernel):
    """Number of near pairs of each residue, of all frames."""

    def __init__(self, atoms: Any) -> None:
        self.atoms = atoms

    def empty(self) -> Any:
        return 0

    def accumulate(self, partial: Any, block: kn.Block) -> Any:
        for frame in block:
            near = frame.pairs(self.atoms, 4.0)
            touched = np.bincount(np.concatenate([near.i, near.j]), minlength=len(frame.positions))
            partial = partial + np.array([touched[one.places].sum() for one in frame.groups("residues")])
        return partial

    def merge(self, left: Any, right: Any) -> Any:
        return left + right

    def finish(self, partial: Any) -> Mapping[str, Any]:
        return {"touched": partial}


@pytest.mark.parametrize("runner", ["serial", "threads", "processes"])
def test_a_kernel_has_pairs_on_every_runner(solvated: Any, runner: str) -> None:
    solvated = solvated.ours
    atoms = solvated.select("protein").indices[::-1]
    kernel = ResiduePairs(solvated.select("name C* and protein"))
    found = kn.analysis.Custom(solvated, kernel, atoms).run(runner=runner).results.touched
    expected = kn.analysis.Neighbors(solvated, "name C* and protein", cutoff=4.0).run().results
    residues = solvated.atoms.resindices
    counts = np.bincount(residues[np.concatenate([expected.i, expected.j])], minlength=residues.max() + 1)
    order = list(dict.fromkeys(residues[atoms].tolist()))
    np.testing.assert_array_equal(found, counts[order])


def waters_at_protein(frame: kn.Frame) -> tuple[int, int]:
    near = frame.places("name O* and not protein and around 3.5 protein")
    return len(near), len(frame.pairs(near, 3.5, other="protein").i)


@pytest.mark.parametrize("runner", ["serial", "processes"])
def test_places_of_atoms_that_change_with_the_frame(solvated: Any, runner: str) -> None:
    solvated = solvated.ours
    found = kn.analysis.from_function(waters_at_protein, solvated).run(runner=runner).results.values
    select = "name O* and not protein and around 3.5 protein"
    expected = kn.analysis.AtomCount(solvated, select).run().results.count
    np.testing.assert_array_equal(found[:, 0], expected)
    assert (found[:, 1] >= found[:, 0]).all()


def test_groups_have_labels_places_and_atoms(solvated: Any) -> None:
    solvated = solvated.ours
    frame = pickle.loads(pickle.dumps(solvated[0]))
    groups = frame.groups("residues", "resid 2 and protein")
    assert len(groups) == 1 and groups[0].label.endswith("2")
    np.testing.assert_array_equal(groups[0].places, solvated.select("resid 2 and protein").indices)
    (whole,) = frame.groups("group")
    np.testing.assert_array_equal(whole.places, np.arange(solvated.n_atoms))


def test_what_cannot_be_found_is_refused(solvated: Any) -> None:
    solvated = solvated.ours
    frame = solvated[0]
    for cutoff in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(kn.ArgumentError, match="cutoff"):
            frame.pairs("protein", cutoff)
    with pytest.raises(kn.ArgumentError, match="names no atoms"):
        frame.pairs("name NONE", 3.0)
    with pytest.raises(kn.ArgumentError, match=r"expected shape \(..., 3\)"):
        frame.nearest_images(np.zeros(2))
    few = kn.analysis.from_function(lambda frame: len(frame.pairs("protein", 3.0).i), solvated, "name CA")
    with pytest.raises(kn.ArgumentError, match=r"does not have, the first is 1 .* select= of the analysis"):
        few.run()
    twice = kn.analysis.from_function(lambda frame: len(frame.pairs(None, 3.0).i), solvated, [3, 4, 3])
    with pytest.raises(kn.ArgumentError, match="names an atom twice"):
        twice.run()
    frame.positions[7, 1] = np.nan
    with pytest.raises(kn.CorruptFileError, match="frame 0: position of atom 8 "):
        frame.pairs(None, 3.0)
    with pytest.raises(kn.ArgumentError, match="needs a topology"):
        kn.open(solvated.paths[0])[0].pairs("protein", 3.0)


def test_frames_of_transforms_have_no_pairs(solvated: Any) -> None:
    solvated = solvated.ours

    def moved(frame: kn.Frame) -> kn.Frame:
        frame.pairs(None, 3.0)
        return frame

    with pytest.raises(kn.ArgumentError, match="not of functions of transforms"):
        solvated.with_transform(moved)[0]
