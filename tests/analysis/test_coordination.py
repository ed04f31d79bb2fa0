"""Coordination numbers, by MDAnalysis' distances and the counts of InterRDF; the edges of the switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.programs.imports import lazy
from kinema.testing.writers import write_dcd

mda_distances = lazy("MDAnalysis.lib.distances")

Coordination = kn.analysis.Coordination


@pytest.mark.parametrize("switch", [{"cutoff": 6.0}, {"cutoff": 9.0, "r0": 3.5, "d0": 1.5}])
def test_numbers_are_those_of_mdanalysis_distances(periodic: Any, switch: dict[str, float]) -> None:
    words = "protein and name N C", "protein and name O"
    each = Coordination(periodic.ours, *words, by="atom", **switch).run(stop=3, workers=2)
    found = each.results
    first, second = (periodic.universe.select_atoms(one) for one in words)
    for frame, step in enumerate(periodic.universe.trajectory[:3]):
        apart = mda_distances.distance_array(first.positions, second.positions, box=step.dimensions)
        x = np.maximum(apart - switch.get("d0", 0.0), 0) / switch.get("r0", np.inf)
        terms = np.where(apart <= switch["cutoff"], 1 / (1 + x**6), 0)
        assert found.coordination[frame] == pytest.approx(terms.sum(axis=1), abs=2e-3 if "r0" in switch else 0)
    mean = Coordination(periodic.ours, *words, **switch).run(stop=3).results
    assert mean.coordination == pytest.approx(found.coordination.mean(axis=1), rel=1e-12)
    numbers = np.bincount(np.rint(found.coordination).astype(int).ravel())
    found_numbers, shares = each.histogram()
    assert found_numbers.tolist() == list(range(len(numbers)))
    assert shares == pytest.approx(numbers / numbers.sum(), rel=1e-12)


@pytest.mark.parametrize("other", [None, "name OH2 H1"])
def test_the_mean_is_that_of_counts_of_pairs(solvated: Any, other: str | None) -> None:
    """Also beyond the cell, where atoms are neighbours of their own images."""
    found = Coordination(solvated.ours, "name OH2", other, cutoff=26.0).run(stop=4).results
    rdf = kn.analysis.InterRDF(solvated.ours, "name OH2", other, range=(0.0, 26.0), nbins=1).run(stop=4).results
    assert found.coordination.mean() == pytest.approx(rdf.coordination[-1], rel=1e-12)


def test_the_switch_is_one_half_at_its_length(tmp_path: Path) -> None:
    at = [0.0, 1.9, 2.0, 5.0, 2.0 + 6.8 * 3.0, 22.5]
    path = tmp_path / "a.dcd"
    write_dcd(path, np.array([[[x, 0, 0]] for x in at], np.float32).reshape(1, len(at), 3))
    traj = kn.open(path)
    with collected():
        each = [Coordination(traj, [0], [i], r0=3.0, d0=2.0).run().results.coordination[0] for i in range(1, len(at))]
    assert each[:3] == [1.0, 1.0, 0.5]
    assert each[3] == pytest.approx(1 / (1 + 6.8**6), rel=1e-6)
    assert each[4] == 0.0


def test_atoms_that_change_with_the_frame(solvated: Any) -> None:
    words = "name OH2 and around 4 segid PEP"
    found = Coordination(solvated.ours, words, words, cutoff=4.0).run(stop=5).results
    group = solvated.universe.select_atoms(words, updating=True)
    for frame, step in enumerate(solvated.universe.trajectory[:5]):
        apart = mda_distances.self_distance_array(group.positions, box=step.dimensions)
        assert found.coordination[frame] == pytest.approx(2 * (apart <= 4.0).sum() / len(group), rel=1e-12)


def test_refused(solvated: Any) -> None:
    for given, message in [
        ({}, "give one of them"),
        ({"cutoff": 5.0, "d0": 1.0}, "give r0= as well"),
        ({"cutoff": -1.0}, "cutoff is a finite number above 0"),
        ({"r0": 0.0}, "r0 is a finite number above 0"),
        ({"cutoff": 3.0, "by": "atom", "select": kn.within(4.0, of="segid PEP", among="name OH2")}, "use by='group'"),
    ]:
        with pytest.raises(kn.ArgumentError, match=message):
            Coordination(solvated.ours, **given)
    with pytest.raises(kn.ArgumentError, match="give by='atom'"):
        Coordination(solvated.ours, cutoff=3.0).run(stop=1).histogram()
