"""Salt bridges: against distances of MDAnalysis, which groups are charged, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.model.atom_table import Atoms
from kinema.model.selection.charged_groups import charged_groups
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")
distances = lazy("MDAnalysis.lib.distances")

ACIDS = "(resname ASP and name OD1 OD2) or (resname GLU and name OE1 OE2)"
BASES = "(resname ARG and name NE NH1 NH2) or (resname LYS and name NZ)"


def expected_bridges(universe: Any, cutoff: float, step: int) -> list[set[tuple[int, int]]]:
    """Pairs of residues, by all distances of MDAnalysis."""
    acids, bases = universe.select_atoms(ACIDS), universe.select_atoms(BASES)
    found = []
    for frame in universe.trajectory[::step]:
        near = distances.distance_array(acids.positions, bases.positions, box=frame.dimensions) <= cutoff
        found.append({(acids[i].resindex, bases[j].resindex) for i, j in np.argwhere(near).tolist()})
    return found


def test_bridges_are_those_of_mdanalysis(adk: Any) -> None:
    analysis = kn.analysis.SaltBridges(adk.ours, cutoff=4.5).run(step=14, workers=2)
    found, of = analysis.results, adk.ours.atoms.resindices
    expected = expected_bridges(adk.universe, 4.5, 14)
    np.testing.assert_array_equal(found.counts, [len(one) for one in expected])
    assert min(found.counts) > 3 and len({*map(frozenset, expected)}) > 3
    for frame, pairs in enumerate(expected):
        rows = slice(found.first_row[frame], found.first_row[frame + 1])
        assert {*zip(of[found.acid[rows]].tolist(), of[found.base[rows]].tolist(), strict=True)} == pairs
    adk.universe.trajectory[0]
    first = found.acid[0], found.base[0]
    between = adk.universe.atoms[first[0]].position.astype(float) - adk.universe.atoms[first[1]].position
    assert found.distance[0] == pytest.approx(np.linalg.norm(between), rel=1e-6)
    occupancy = analysis.occupancy()
    often = {pair: sum(pair in one for one in expected) / len(expected) for one in expected for pair in one}
    assert dict(zip(map(tuple, occupancy.tuples.tolist()), occupancy.share.tolist(), strict=True)) == often
    assert analysis.subject == "salt bridges of 35 acidic and 31 basic groups"


def test_images_count_in_a_cell() -> None:
    files = datafiles.GRO, datafiles.XTC
    found = kn.analysis.SaltBridges(kn.open(files[1], topology=files[0], stored=False)).run(stop=2, workers=1).results
    expected = expected_bridges(MDAnalysis.Universe(*files), 4.0, 1)[:2]
    np.testing.assert_array_equal(found.counts, [len(one) for one in expected])


def residue(resname: str, *names: str) -> Atoms:
    return Atoms(len(names), names=list(names), resnames=[resname] * len(names), resids=[1] * len(names))


@pytest.mark.parametrize(
    ("resname", "names", "kind", "charged"),
    [
        ("ASP", ("OD1", "OD2"), "acidic", ("OD1", "OD2")),
        ("ASP", ("OD1", "OD2", "HD2"), "acidic", ()),
        ("GLU", ("OE1", "OE2", "HE2"), "acidic", ()),
        ("GLU", ("OE1", "OE2", "HB2"), "acidic", ("OE1", "OE2")),
        ("ASH", ("OD1", "OD2"), "acidic", ()),
        ("LYS", ("NZ",), "basic", ("NZ",)),
        ("LYS", ("NZ", "HZ1", "HZ2", "HZ3"), "basic", ("NZ",)),
        ("LYS", ("NZ", "HZ1", "HZ2"), "basic", ()),
        ("LYN", ("NZ",), "basic", ()),
        ("ARG", ("NE", "NH1", "NH2", "N"), "basic", ("NE", "NH1", "NH2")),
        ("HIS", ("ND1", "NE2"), "basic", ()),
        ("HIS", ("ND1", "NE2", "HD1", "HE2"), "basic", ("ND1", "NE2")),
        ("HSP", ("ND1", "NE2"), "basic", ("ND1", "NE2")),
        ("HSE", ("ND1", "NE2", "HE2"), "basic", ()),
    ],
)
def test_charged_groups(resname: str, names: tuple[str, ...], kind: str, charged: tuple[str, ...]) -> None:
    found = charged_groups(residue(resname, *names), kind)
    assert [names[atom] for atom in found.atoms] == [*charged]
    assert found.ends.tolist() == ([len(charged)] if charged else [])
    assert found.labels == ((f"{resname}1",) if charged else ())


def test_a_neutral_acid_is_noted() -> None:
    with pytest.warns(kn.Note, match=r"1 residue \(ASP1\) without a charge, by hydrogens, left out of the acidic"):
        charged_groups(residue("ASP", "OD1", "OD2", "HD2"), "acidic")


def test_what_is_refused(adk: Any) -> None:
    with pytest.raises(kn.ArgumentError, match="cutoff is a finite number above 0, found 0"):
        kn.analysis.SaltBridges(adk.ours, cutoff=0)
    with pytest.raises(kn.ArgumentError, match="acidic= and basic= share 1 atom, the first is 191"):
        kn.analysis.SaltBridges(adk.ours, acidic="name NZ and resid 13 18")
    with pytest.raises(kn.ArgumentError, match=r"topology="):
        kn.analysis.SaltBridges(kn.open(adk.ours.paths[0]))
