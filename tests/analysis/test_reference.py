"""Atoms of reference structures: compared by masses, names or number, and what is noted on it; notes on masses."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
datafiles = lazy("MDAnalysisTests.datafiles")

NAMES = ["N", "CA", "C", "O", "N", "CA", "C", "O"]
MASSES = {"N": 14.007, "CA": 12.011, "C": 12.011, "O": 15.999}


def universe_of(names, masses=True, residues=("ALA", "GLY"), **attributes):
    """Two residues of four atoms each, with coordinates."""
    universe = MDAnalysis.Universe.empty(8, n_residues=2, atom_resindex=[0] * 4 + [1] * 4, trajectory=True)
    if names is not None:
        universe.add_TopologyAttr("names", names)
        universe.add_TopologyAttr("resnames", list(residues))
        universe.add_TopologyAttr("resids", [1, 2])
        if masses:
            universe.add_TopologyAttr("masses", [MASSES.get(name, 0.0) for name in names])
    for name, values in attributes.items():
        universe.add_TopologyAttr(name, values)
    universe.atoms.positions = random_walk(1, 8)[0]
    return universe


@pytest.fixture
def traj(tmp_path):
    path = tmp_path / "eight.dcd"
    write_dcd(path, random_walk(6, 8))
    return kn.open(path, topology=universe_of(NAMES), stored=False)


SHUFFLED = [*NAMES[:2], "O", "C", *NAMES[4:]]


def analyses(traj, **arguments):
    """Each analysis that takes a reference structure."""
    yield lambda: kn.analysis.RMSD(traj, **arguments).run()
    yield lambda: kn.analysis.RMSD(traj, select=[0, 1], groups=[[2, 3]], **arguments).run()
    yield lambda: kn.analysis.RMSF(traj, select=[0], align="reference", align_select="all", **arguments).run()


def test_another_order_is_refused(traj):
    universe = universe_of(SHUFFLED)
    for reference in (universe, universe.atoms, universe.atoms[[0, 1, 2, 3, 4, 5, 6, 7]]):
        for make in analyses(traj, reference=reference):
            with pytest.raises(
                kn.ArgumentError,
                match=r"atom 3 of .* \(C ALA 1 mass 12\.011\) is atom 3 of .* \(O ALA 1 mass 15\.999\), the first of "
                r"\d that differ.*match='order'",
            ):
                make()
        for make in analyses(traj, reference=reference, match="order"):
            assert len(make().results.values)


def test_names_see_what_masses_do_not(traj):
    swapped = ["N", "C", "CA", "O", *NAMES[4:]]
    reference = universe_of(swapped)
    assert len(kn.analysis.RMSD(traj, reference=reference).run().results.values) == 6
    with pytest.raises(kn.ArgumentError, match=r"atom 2 of .* \(CA ALA 1 .* is atom 2 of .* \(C ALA 1"):
        kn.analysis.RMSD(traj, reference=reference, match="names")
    other_residues = universe_of(NAMES, residues=("ALA", "SER"))
    with pytest.raises(kn.ArgumentError, match=r"\(N GLY 2 .* \(N SER 2"):
        kn.analysis.RMSD(traj, reference=other_residues, match="names")


def test_masses_agree_within_a_tolerance(traj):
    reference = universe_of(NAMES)
    reference.atoms[5].mass += 0.09
    kn.analysis.RMSD(traj, reference=reference)
    with pytest.raises(kn.ArgumentError, match="atom 6"):
        kn.analysis.RMSD(traj, reference=reference, tol_mass=0.05)
    reference.atoms[5].mass += 1.0
    with pytest.raises(kn.ArgumentError, match="match='names' compares names alone"):
        kn.analysis.RMSD(traj, reference=reference)
    kn.analysis.RMSD(traj, reference=reference, match="names")
    with pytest.raises(kn.ArgumentError, match="match must be one of"):
        kn.analysis.RMSD(traj, match="types")
    with pytest.raises(kn.ArgumentError, match="tol_mass"):
        kn.analysis.RMSD(traj, tol_mass=np.nan)


def test_without_masses_names_are_compared(traj):
    with pytest.warns(kn.Note, match="compared by names: .* has no masses"):
        analysis = kn.analysis.RMSD(traj, reference=universe_of(NAMES, masses=False))
    assert any("compared by names" in note for note in analysis.notes)
    with pytest.raises(kn.ArgumentError, match="atom 3"):
        kn.analysis.RMSD(traj, reference=universe_of(SHUFFLED, masses=False))


def test_without_masses_and_names_the_number_is_noted(traj):
    bare = kn.open(traj.paths[0], stored=False)
    for own, reference in (
        (traj, universe_of(None)),
        (bare, universe_of(NAMES)),
        (traj, traj.paths[0]),
        (bare, bare.paths[0]),
    ):
        with pytest.warns(kn.Note, match="only the number of atoms was compared"):
            analysis = kn.analysis.RMSD(own, reference=reference)
        assert "only the number of atoms" in analysis.provenance().json()
    with pytest.raises(kn.ArgumentError, match=r"match='names' needs atom names, .*eight\.dcd has none"):
        kn.analysis.RMSD(bare, reference=universe_of(NAMES), match="names")


def test_frames_of_the_trajectory_and_arrays_are_not_compared(traj):
    with warnings.catch_warnings():
        warnings.simplefilter("error", kn.Note)
        for reference in (None, traj, traj[2:], traj[1].positions):
            assert kn.analysis.RMSD(traj, reference=reference).run().notes == traj.notes
        # the same topology
        kn.analysis.RMSD(traj, reference=kn.open(traj.paths[0], topology=traj.topology.universe, stored=False))


def test_atoms_without_mass_are_compared_by_names(traj, tmp_path):
    beads = ["BB", "SC1", "SC2", "W", "BB", "SC1", "SC2", "W"]
    own = kn.open(traj.paths[0], topology=universe_of(beads), stored=False)
    with pytest.warns(kn.Note) as given:
        kn.analysis.RMSD(own, reference=universe_of(beads))
    texts = [str(one.message) for one in given]
    assert any("masses of 8 atoms are zero, names BB, SC1, SC2, W" in text for text in texts), texts
    assert any("8 atoms of the reference" in text and "by their names" in text for text in texts), texts
    with pytest.raises(kn.ArgumentError, match=r"atom 1 of .* \(BB ALA 1 mass 0\) is atom 1 of .* \(SC1 "):
        kn.analysis.RMSD(own, reference=universe_of([beads[1], beads[0], *beads[2:]]))


def test_guessed_and_zero_masses_are_noted(golden, tmp_path, traj):
    guessed = kn.open(golden / "ca.dcd", topology=golden / "ca.pdb", stored=False)
    text = r"ca\.pdb: masses of 214 atoms were guessed by MDAnalysis, type C"
    for make in (
        lambda: kn.analysis.RadiusOfGyration(guessed),
        lambda: kn.analysis.RMSD(guessed, weights="mass"),
        lambda: kn.analysis.RMSF(guessed, align="average", align_weights="mass"),
    ):
        with pytest.warns(kn.Note, match=text):
            analysis = make()
        assert any("guessed" in note for note in analysis.notes)
        assert "guessed" in analysis.provenance().json()
    some = universe_of([*NAMES[:6], "X1", "X2"], types=[*"NCCONC", "X", "X"])
    own = kn.open(traj.paths[0], topology=some, stored=False)
    with pytest.warns(kn.Note, match="masses of 2 atoms are zero, type X$"):
        kn.analysis.RadiusOfGyration(own)
    with warnings.catch_warnings():
        warnings.simplefilter("error", kn.Note)
        kn.analysis.RadiusOfGyration(own, select=range(6))
        kn.analysis.RadiusOfGyration(own, weights=None)


def test_rmsf_notes_that_nothing_was_superposed(traj):
    with pytest.warns(kn.Note, match="nothing was superposed"):
        analysis = kn.analysis.RMSF(traj)
    assert any("nothing was superposed" in note for note in analysis.run().notes)
    assert not any("superposed" in note for note in kn.analysis.RMSF(traj, align="average").notes)


def test_an_atom_of_a_reference_is_counted_from_1(tmp_path):
    walk = random_walk(3, 6)
    walk[1, 4, 2] = np.nan
    write_dcd(tmp_path / "nan.dcd", walk)
    with pytest.raises(kn.ArgumentError, match=r"reference's atom 5 \(counted from 1\) is not a number"):
        kn.analysis.RMSD(kn.open(tmp_path / "nan.dcd"), select=[2, 4, 5], ref_frame=1).run(progress=False)


@pytest.fixture(scope="module")
def broken_protein():
    """Adenylate kinase, which is broken at the faces of the cell in all frames."""
    return kn.open(datafiles.XTC, topology=datafiles.TPR, stored=False)


@pytest.fixture(scope="module")
def protein(broken_protein):
    return broken_protein.with_transform(kn.transforms.whole())


@cache
def universe_of_all():
    return MDAnalysis.Universe(datafiles.GRO)


@cache
def universe_of_protein():
    """With bonds, without coordinates of its own files."""
    return MDAnalysis.Merge(MDAnalysis.Universe(datafiles.TPR).select_atoms("protein"))


REFERENCES = {
    "gro": lambda whole: datafiles.GRO,
    "xtc": lambda whole: datafiles.XTC,
    "universe": lambda whole: universe_of_all(),
    "group": lambda whole: universe_of_all().atoms,
    "trajectory": lambda whole: kn.open(datafiles.XTC, stored=False),
    "whole trajectory": lambda whole: whole,
}


@pytest.mark.parametrize("kind", REFERENCES)
def test_references_are_made_whole_as_frames_are(protein, kind):
    reference = REFERENCES[kind](protein)
    rmsd = kn.analysis.RMSD(protein, select="protein and name CA", reference=reference).run()
    # that of MDAnalysis with its transformation unwrap; GRO has fewer digits than XTC
    assert rmsd.results.values.mean() == pytest.approx(1.515, abs=1e-3)
    assert not [note for note in rmsd.notes if "broken" in note or "not applied" in note]


@pytest.mark.parametrize("kind", ["gro", "xtc"])
def test_fits_to_a_reference_that_is_made_whole(protein, kind):
    select = "protein and name CA"
    fitted = protein.with_transform(kn.transforms.superpose(select, reference=REFERENCES[kind](protein)))
    rmsf = kn.analysis.RMSF(protein, select=select, align="reference", reference=REFERENCES[kind](protein)).run()
    flat = kn.analysis.RMSF(fitted, select=select).run()
    np.testing.assert_allclose(flat.results.rmsf, rmsf.results.rmsf, atol=1e-4)
    assert rmsf.results.rmsf.mean() < 1.1


def test_transforms_of_a_reference_are_not_applied_twice(protein):
    moved = kn.transforms.function(_move)
    frames = kn.open(datafiles.XTC, stored=False).with_transform(moved)
    options = {"select": [0, 1, 2], "superposition": False}
    for reference in (frames, kn.open(datafiles.XTC, stored=False)):
        assert kn.analysis.RMSD(frames, reference=reference, **options).run().results.values[0] == pytest.approx(
            0, abs=1e-6
        )
    array = kn.open(datafiles.XTC, stored=False).read([0])[0]
    assert kn.analysis.RMSD(frames, reference=array, **options).run().results.values[0] == pytest.approx(1.0)


def _move(frame):
    frame.positions[:, 0] += 1.0
    return frame


def test_a_reference_that_stays_broken_is_noted(broken_protein):
    with pytest.warns(kn.Note, match="reference .*adk_oplsaa.gro: 1 molecule is broken at the faces"):
        kn.analysis.RMSD(broken_protein, select="protein and name CA", reference=datafiles.GRO).run()


@pytest.fixture(scope="module")
def structures(tmp_path_factory):
    """Adenylate kinase without its solvent, broken as in `datafiles.GRO`: all atoms, and these in another order."""
    folder = tmp_path_factory.mktemp("structures")
    universe = universe_of_all()
    protein = universe.select_atoms("protein")
    protein.write(folder / "protein.gro")
    # residues keep their order, so that CA atoms do: within each the last atom comes first
    reordered = universe.atoms[np.concatenate([one.atoms.indices[::-1] for one in protein.residues])]
    reordered.write(folder / "reordered.gro")
    with kn.Writer(folder / "protein.trr", protein.n_atoms) as writer:
        cell = MDAnalysis.lib.mdamath.triclinic_vectors(universe.dimensions)
        writer.write(positions=protein.positions, cell=cell)
    return folder


OTHER_ATOMS = {
    "protein": lambda folder: folder / "protein.gro",
    "other order": lambda folder: folder / "reordered.gro",
    "universe": lambda folder: MDAnalysis.Universe(folder / "protein.gro"),
    "group": lambda folder: MDAnalysis.Universe(folder / "protein.gro").select_atoms("name CA"),
    "trajectory": lambda folder: kn.open(folder / "protein.trr", topology=folder / "protein.gro", stored=False),
    "whole trajectory": lambda folder: kn.open(folder / "protein.trr", topology=universe_of_protein()).with_transform(
        kn.transforms.whole()
    ),
}


@pytest.mark.parametrize("kind", OTHER_ATOMS)
def test_references_of_other_atoms_are_made_whole(protein, structures, kind):
    select, reference = "protein and name CA", OTHER_ATOMS[kind](structures)
    rmsd = kn.analysis.RMSD(protein, select=select, reference=reference).run()
    assert rmsd.results.values.mean() == pytest.approx(1.515, abs=1e-3)
    assert not [note for note in rmsd.notes if "broken" in note or "not applied" in note or "no bonds" in note]
    rmsf = kn.analysis.RMSF(protein, select=select, align="reference", reference=reference).run()
    fitted = protein.with_transform(kn.transforms.superpose(select, reference=reference))
    flat = kn.analysis.RMSF(fitted, select=select).run()
    np.testing.assert_allclose(flat.results.rmsf, rmsf.results.rmsf, atol=1e-4)
    assert rmsf.results.rmsf.mean() < 1.1


def test_a_pickled_trajectory_knows_its_transforms_for_references(protein, structures):
    again = pickle.loads(pickle.dumps(protein))
    rmsd = kn.analysis.RMSD(again, select="protein and name CA", reference=structures / "protein.gro").run()
    assert rmsd.results.values.mean() == pytest.approx(1.515, abs=1e-3)


STACKS = {
    "center": [kn.transforms.whole(), kn.transforms.center("name CA", weights="mass")],
    "wrap": [kn.transforms.whole(), kn.transforms.wrap("protein", compound="molecules")],
    "cluster": [
        kn.transforms.whole(),
        kn.transforms.cluster("protein"),
        kn.transforms.center("protein", point=[1, 2, 3]),
    ],
    "superpose": [kn.transforms.whole("protein"), kn.transforms.superpose("name CA", ref_frame=3)],
    "function": [kn.transforms.whole(), kn.transforms.function(lambda frame: _move(frame), "protein")],
}


@pytest.mark.parametrize("stack", STACKS)
def test_transforms_of_a_reference_are_those_of_a_first_frame(broken_protein, structures, stack):
    """Frame 0 without its solvent: what is done to the frame is done to it, so that nothing is between both."""
    atoms = broken_protein.select("protein")
    frame = broken_protein.read([0], atoms, fields=["positions"])
    with kn.Writer(structures / f"{stack}.trr", atoms.n_atoms) as writer:
        writer.write(positions=frame["positions"][0], cell=frame["cells"][0])
    reference = kn.open(structures / f"{stack}.trr", topology=universe_of_protein(), stored=False)
    changed = broken_protein.with_transform(*STACKS[stack])
    options = {"select": "protein and name CA", "superposition": False}
    found = kn.analysis.RMSD(changed, reference=reference, **options).run(frames=[0])
    assert found.results.values[0] == pytest.approx(0, abs=1e-4)
    unchanged = kn.analysis.RMSD(
        changed, reference=reference.read([0])[0][reference.select("name CA").indices], **options
    )
    assert unchanged.run(frames=[0]).results.values[0] > 0.5


def test_each_transform_says_what_it_is_for_other_atoms():
    """But for those that references never have."""
    found = [getattr(kn.transforms, name) for name in kn.transforms.__all__]
    classes = [one for one in found if isinstance(one, type) and one is not kn.transforms.Transform]
    assert {one.name for one in classes if "for_other_atoms" not in vars(one)} == {"displacement", "nojump", "centers"}


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (kn.transforms.center([0, 1, 2]), "it names atoms by their numbers in the trajectory"),
        (kn.transforms.wrap("resname NA+", compound="residues"), r"'resname NA\+' (selects|names) no atoms"),
    ],
)
def test_transforms_that_do_not_fit_the_reference_are_noted(protein, structures, transform, why):
    changed = protein.with_transform(transform)
    with pytest.warns(
        kn.Note, match=rf"{transform.name}\(.*\) is not applied to the reference .*protein.gro.*: .*{why}"
    ):
        rmsd = kn.analysis.RMSD(changed, select="protein and name CA", reference=structures / "protein.gro").run()
    # made whole all the same
    assert rmsd.results.values.mean() == pytest.approx(1.515, abs=1e-3)


def test_a_reference_of_other_atoms_that_stays_broken_is_noted(broken_protein, structures):
    """First by bonds that the trajectory states, then if neither has bonds."""
    options = {"select": "protein and name CA", "reference": structures / "protein.gro"}
    with pytest.warns(kn.Note, match=r"reference .*protein.gro: 1 molecule is broken .*frame 0; --pbc whole \("):
        kn.analysis.RMSD(broken_protein, **options)
    frames = kn.open(datafiles.XTC, topology=datafiles.GRO, stored=False)
    changed = frames.with_transform(kn.transforms.whole("protein"))
    with pytest.warns(kn.Note, match="reference .*protein.gro: 1 molecule is broken .*--bonds guess"):
        kn.analysis.RMSD(changed, **options)
    guessed = frames.with_transform(kn.transforms.whole("protein", bonds="guess"))
    rmsd = kn.analysis.RMSD(guessed, **options).run()
    assert rmsd.results.values.mean() == pytest.approx(1.515, abs=1e-3)
