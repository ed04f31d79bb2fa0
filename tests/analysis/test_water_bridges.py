"""Water bridges: chains of waters made by hand, and MDAnalysis."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.testing.analyses import write_solvated_peptide
from kinema.testing.programs.imports import lazy
from kinema.testing.writers import write_dcd

MDAnalysis = lazy("MDAnalysis")
bridges_of_peer = lazy("MDAnalysis.analysis.hydrogenbonds.wbridge_analysis")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis", "ignore::DeprecationWarning:MDAnalysis")

CELL = np.diag([40.0, 41.0, 42.0]).astype(np.float32)
# from the oxygen of a water to its hydrogens: the first towards the oxygen before it in the chain
_WATER = np.array([[0, 0, 0], [-0.96, 0, 0], [0.24, 0.93, 0]])


def chain(folder: Path, n_waters: int, step: float = 2.8, shift: float = 0.0) -> kn.Trajectory:
    """A carbonyl oxygen, waters in a line that each donate to the one before, and an N-H that donates to the last."""
    names = ["O", *["OW", "HW1", "HW2"] * n_waters, "N", "H"]
    residues = [0, *np.repeat(np.arange(1, n_waters + 1), 3), n_waters + 1, n_waters + 1]
    universe = MDAnalysis.Universe.empty(
        len(names),
        n_residues=n_waters + 2,
        atom_resindex=residues,
        trajectory=False,
        residue_segindex=[0] * (n_waters + 2),
    )
    of = {"O": (15.999, -0.6), "N": (14.007, -0.4), "H": (1.008, 0.4)}
    universe.add_TopologyAttr("names", names)
    universe.add_TopologyAttr("types", [name[0] for name in names])
    universe.add_TopologyAttr("masses", [of[name[0]][0] for name in names])
    universe.add_TopologyAttr("charges", [of[name[0]][1] for name in names])
    universe.add_TopologyAttr("resnames", ["GLY", *["SOL"] * n_waters, "ALA"])
    universe.add_TopologyAttr("resids", range(1, n_waters + 3))
    bonds = [(1 + 3 * water, 1 + 3 * water + hydrogen) for water in range(n_waters) for hydrogen in (1, 2)]
    universe.add_TopologyAttr("bonds", [*bonds, (len(names) - 2, len(names) - 1)])
    waters = [np.array([step * (water + 1), 0, 0]) + _WATER for water in range(n_waters)]
    end = step * (n_waters + 1)
    positions = np.concatenate([np.zeros((1, 3)), *waters, [[end, 0, 0], [end - 1.0, 0, 0]]])
    positions[:, 0] = (positions[:, 0] + shift) % CELL[0, 0]
    # the second frame has its last water turned away
    turned = positions.copy()
    last = len(names) - 5
    turned[last + 1] = turned[last] + [0, 0, 0.96]
    write_dcd(folder / "chain.dcd", np.array([positions, turned]).astype(np.float32), cell=np.array([CELL] * 2))
    return kn.open(folder / "chain.dcd", topology=universe, stored=False)


@pytest.mark.parametrize("n_waters", [1, 2, 3, 4, 5])
def test_a_chain_of_waters(tmp_path: Path, n_waters: int) -> None:
    # the chain crosses the face of the cell
    traj = chain(tmp_path, n_waters, shift=36.0)
    ends = {"selection1": "resname GLY", "selection2": "resname ALA", "water_selection": "resname SOL"}
    for order in range(1, 6):
        found = kn.analysis.WaterBridgeAnalysis(traj, **ends, order=order).run()
        there = int(order >= n_waters)
        np.testing.assert_array_equal(found.count_by_time(), [there, 0])
        if not there:
            continue
        oxygens = [1 + 3 * water for water in range(n_waters)]
        assert found.bridges() == [[(0, *oxygens, traj.n_atoms - 2)], []]
        results = found.results
        np.testing.assert_array_equal(results.waters, n_waters)
        np.testing.assert_array_equal(results.start, [0, *oxygens])
        np.testing.assert_array_equal(results.acceptor, [0, *oxygens])
        np.testing.assert_array_equal(results.hydrogen, [*(oxygen + 1 for oxygen in oxygens), traj.n_atoms - 1])
        np.testing.assert_allclose(results.distance, [1.84] * n_waters + [1.8], atol=1e-5)
        np.testing.assert_allclose(results.angle, 180, atol=1e-3)
        ends_of = [0, traj.n_atoms - 2, "GLY", 1, "O", "ALA", n_waters + 2, "N", 0.5]
        assert [list(one) for one in found.count_by_type()] == [ends_of]
        # and from the other side
        backwards = kn.analysis.WaterBridgeAnalysis(
            traj, "resname ALA", "resname GLY", water_selection="resname SOL", order=order
        ).run()
        assert backwards.bridges() == [[found.bridges()[0][0][::-1]], []]


def test_limits_and_criteria(tmp_path: Path) -> None:
    traj = chain(tmp_path, 2, step=3.2)
    ends = {"selection1": "resname GLY", "selection2": "resname ALA", "water_selection": "resname SOL", "order": 2}

    def n_bridges(**arguments: Any) -> int:
        found = kn.analysis.WaterBridgeAnalysis(traj, **ends, **arguments).run(stop=1)
        return int(found.count_by_time()[0])

    assert n_bridges() == 1
    assert n_bridges(distance=2.2) == 0
    assert n_bridges(distance_type="heavy") == 0
    assert n_bridges(distance_type="heavy", distance=3.3) == 1
    assert n_bridges(criterion="distance-angle") == 0
    assert n_bridges(criterion="distance-angle", distance=3.3) == 1
    assert n_bridges(criterion="gromacs") == 1
    assert n_bridges(criterion="baker-hubbard") == 1


def test_a_group_with_itself_has_each_bridge_once(tmp_path: Path) -> None:
    traj = chain(tmp_path, 2)
    for pair in (("not resname SOL", "not resname SOL"), ("resname GLY", "not resname SOL")):
        found = kn.analysis.WaterBridgeAnalysis(traj, *pair, water_selection="resname SOL", order=3).run()
        assert found.bridges() == [[(0, 1, 4, traj.n_atoms - 2)], []]


def chains_of(network: dict[Any, Any] | None, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The chains of hydrogen bonds, (hydrogen, acceptor) each, of a frame's network."""
    if network is None:
        return [before]
    found = []
    for bond, rest in network.items():
        first, first_heavy, second, _, _, _ = bond
        hydrogen, acceptor = (second, first) if first_heavy is None else (first, second)
        found += chains_of(rest, (*before, (int(hydrogen), int(acceptor))))
    return found


@pytest.mark.parametrize("order", [1, 2])
def test_chains_of_mdanalysis(tmp_path: Path, order: int) -> None:
    topology, trajectory = write_solvated_peptide(tmp_path, 6)
    first, second = "protein and resid 1:4", "protein and resid 80:84"
    universe = MDAnalysis.Universe(str(topology), str(trajectory))
    names = np.unique(universe.select_atoms("protein and name O* N*").names).tolist()
    peer = bridges_of_peer.WaterBridgeAnalysis(
        universe, first, second, "resname TIP3", order=order, pbc=True, filter_first=False, forcefield="other",
        donors=[*names, "OH2"], acceptors=[*names, "OH2"], distance=3.4, angle=100.0,
    ).run()  # fmt: skip
    found = kn.analysis.WaterBridgeAnalysis(
        kn.open(trajectory, topology=topology, stored=False), first, second, "resname TIP3", order=order,
        hydrogens_sel="prop mass < 1.1 and bonded (name N* or name O*)", acceptors_sel="name N* or name O*",
        distance=3.4, angle=100.0,
    ).run()  # fmt: skip
    # bonds without a water are left out
    expected = [{one for one in chains_of(network) if len(one) > 1} for network in peer.results.network]
    chains = [chains_of(network) for network in found.network()]
    assert [set(one) for one in chains] == expected
    assert [len(one) for one in chains] == found.count_by_time().tolist()
    assert sum(map(len, chains)) > 3
    for ours, theirs in zip(found.network(), peer.results.network, strict=True):
        for bond, rest in ours.items():
            near = {key[:4]: (key, theirs[key]) for key in theirs}[bond[:4]]
            np.testing.assert_allclose(bond[4:], near[0][4:], atol=2e-4)
            assert {key[:4] for key in rest} <= {key[:4] for key in near[1]}


@pytest.mark.parametrize(
    "chosen",
    [
        {"selection1": "protein and around 3 resname TIP3"},
        {"selection2": "protein and prop z > 0"},
        {"water_selection": "resname TIP3 and byres around 2.5 protein"},
        {
            "selection1": "protein and prop z > -5",
            "selection2": "protein and around 3.5 resname TIP3",
            "water_selection": "resname TIP3 and around 3.6 protein",
        },
    ],
)
def test_groups_that_change_are_those_of_each_frame(tmp_path: Path, chosen: dict[str, str]) -> None:
    topology, trajectory = write_solvated_peptide(tmp_path, 6)
    traj = kn.open(trajectory, topology=topology, stored=False)
    groups = {"selection1": "protein", "selection2": "protein", "water_selection": "resname TIP3"} | chosen
    others: dict[str, Any] = {
        "hydrogens_sel": "prop mass < 1.1 and bonded (name N* or name O*)",
        "acceptors_sel": "name N* or name O*",
        "order": 2,
        "distance": 3.6,
        "angle": 90.0,
    }
    found = kn.analysis.WaterBridgeAnalysis(traj, **groups, **others).run(workers=2)
    for frame, ours in enumerate(found.network()):
        fixed = {name: traj.select(words, frame=frame) for name, words in groups.items()}
        alone = kn.analysis.WaterBridgeAnalysis(traj, **fixed, **others).run(start=frame, stop=frame + 1)
        assert alone.network() == [ours]
    whole = {name: words.split(" and ")[0] for name, words in groups.items()}
    n_bridges = kn.analysis.WaterBridgeAnalysis(traj, **whole, **others).run().count_by_time().sum()
    assert 0 < found.count_by_time().sum() < n_bridges


def test_bad_input(tmp_path: Path) -> None:
    traj = chain(tmp_path, 1)
    analysis = kn.analysis.WaterBridgeAnalysis
    ends = {"selection1": "resname GLY", "selection2": "resname ALA", "water_selection": "resname SOL"}
    for arguments, message in [
        ({"order": 0}, "order is a whole number from 1 on, found 0"),
        ({"distance": 0.0}, "distance is a finite number above 0"),
        ({"angle": -1.0}, "angle is an angle from 0 to 180"),
        ({"distance_type": "both"}, "distance_type must be 'hydrogen' or 'heavy'"),
        ({"distance_type": "heavy", "criterion": "gromacs"}, "exclude each other"),
        ({"criterion": "hydrogen"}, "criterion must be one of"),
        ({"selection1": "resname SOL"}, "selection1 has no atom besides atoms of water_selection"),
    ]:
        with pytest.raises(kn.ArgumentError, match=message):
            analysis(traj, **(ends | arguments))
    with pytest.raises(kn.ArgumentError, match="need"):
        analysis(kn.open(tmp_path / "chain.dcd", stored=False), [0], [4, 5], [1, 2, 3])
