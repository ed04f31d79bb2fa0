"""Values of analyses as fields of `kinema.ml.FrameDataset`: the same bits as by `run`, in any order and process."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
import kinema.ml
from kinema.analysis import DSSP, RMSD, RMSF, Centers, Dihedrals, Features, RadiusOfGyration
from kinema.base.notes import collected
from kinema.ml import FrameDataset, Loader
from kinema.testing.analyses import write_solvated_peptide
from kinema.testing.programs.imports import lazy

datafiles = lazy("MDAnalysisTests.datafiles")

IDS = np.array([22, 3, 3, 4, -1, 0, 17, 5, 3])


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    return kn.open(datafiles.DCD, topology=datafiles.PSF, stored=False)


@pytest.fixture(scope="module")
def peptide(tmp_path_factory: pytest.TempPathFactory) -> kn.Trajectory:
    topology, path = write_solvated_peptide(tmp_path_factory.mktemp("peptide"), 24)
    return kn.open(path, topology=topology, stored=False)


def fields() -> list[Any]:
    both = Features.of(Dihedrals.of("resid 1:5", psi=True), RadiusOfGyration.of("name CA"))
    return [
        "positions",
        Dihedrals.of("protein", phi=True),
        RMSD.of("name CA"),
        both,
        Dihedrals.of("resid 2:4", psi=True),
    ]


def alone(trajectory: kn.Trajectory) -> dict[str, np.ndarray]:
    """The same values by `run`."""
    both = Features(Dihedrals(trajectory, "resid 1:5", psi=True), RadiusOfGyration(trajectory, "name CA"))
    return {
        "dihedrals": Dihedrals(trajectory, "protein", phi=True).run().results.values,
        "rmsd": RMSD(trajectory, "name CA").run().results.values,
        "features": both.run().results.features,
        "dihedrals_2": Dihedrals(trajectory, "resid 2:4", psi=True).run().results.values,
    }


def test_values_are_those_of_run_in_any_order(adk: kn.Trajectory) -> None:
    frames, expected = FrameDataset(adk, "name CA", fields()), alone(adk)
    for workers in (1, 3):
        batch = frames.read(IDS, workers=workers)
        assert list(batch) == ["positions", "cell", "step", "time", *expected]
        np.testing.assert_array_equal(batch["positions"], adk.read(select="name CA")[IDS])
        for name, values in expected.items():
            assert batch[name].dtype == values.dtype == np.float64
            np.testing.assert_array_equal(batch[name], values[IDS])
    np.testing.assert_array_equal(frames[7]["rmsd"], expected["rmsd"][7])
    assert frames.units["dihedrals"] == "degree" and frames.units["positions"] == "angstrom"
    assert frames.units["features"] == "1, " * 10 + "angstrom" and frames.label_units["rmsd"] == "angstrom"
    assert frames.columns["dihedrals"][0] == "phi ARG2" and frames.columns["features"][-1] == "rgyr"
    assert frames.read([]).n_samples == 0 and "dihedrals, rmsd" in repr(frames)


def test_transforms_and_views_count(peptide: kn.Trajectory) -> None:
    fitted = peptide.with_transform(kn.transforms.whole(), kn.transforms.superpose("name CA"))
    for trajectory in (fitted, fitted[20:3:-3]):
        frames = FrameDataset(trajectory, fields=[Centers.of("resid 1:5"), RMSD.of("name CA")])
        ids = np.random.default_rng(1).permutation(len(frames))
        batch = frames.read(ids)
        centers = Centers(trajectory, "resid 1:5").run().results.values
        np.testing.assert_array_equal(batch["centers"], centers[ids])
        np.testing.assert_array_equal(batch["rmsd"], RMSD(trajectory, "name CA").run().results.values[ids])
    as_stored = Centers(peptide[20:3:-3], "resid 1:5").run().results.values
    assert not np.allclose(as_stored, centers)


def test_broken_molecules_are_noted(peptide: kn.Trajectory) -> None:
    with collected() as notes:
        wrapped = peptide.with_transform(kn.transforms.wrap(compound="atoms"))
        FrameDataset(wrapped, fields=["positions", RadiusOfGyration.of("protein")])
    assert any("broken" in note for note in notes)


def test_each_system_has_its_own_atoms(adk: kn.Trajectory, peptide: kn.Trajectory) -> None:
    angles = Dihedrals.of("resid 2:5", phi=True)
    frames = FrameDataset([adk, peptide], fields=["positions", angles])
    assert frames.is_ragged
    ids = np.array([100, 2, 98, 97])
    batch = frames.read(ids)
    one, other = (angles.bind(trajectory).run().results.values for trajectory in (adk, peptide))
    np.testing.assert_array_equal(batch["dihedrals"], [other[2], one[2], other[0], one[97]])
    np.testing.assert_array_equal(frames[100]["dihedrals"], other[2])
    with pytest.raises(kn.ArgumentError, match=r"dihedrals has 213 columns for .*adk.* and \d+ for .*peptide"):
        FrameDataset([adk, peptide], fields=[Dihedrals.of("protein", phi=True)])


def test_pairs_with_a_lag(adk: kn.Trajectory) -> None:
    frames = FrameDataset(adk, fields=[RMSD.of("name CA")], lag=float(adk.times[3] - adk.times[0]))
    expected = RMSD(adk, "name CA").run().results.values
    batch = frames.read([5, 1])
    np.testing.assert_array_equal(batch["rmsd"], expected[[5, 1]])
    np.testing.assert_array_equal(batch["rmsd_lagged"], expected[[8, 4]])


def test_a_loader_and_the_identity_of_the_samples(adk: kn.Trajectory) -> None:
    frames, expected = FrameDataset(adk, "name CA", fields()), alone(adk)
    seen = 0
    for batch in Loader(frames, 16, order="random", seed=3, tensors=False, drop_last=False):
        for name, values in expected.items():
            np.testing.assert_array_equal(batch[name], values[batch.ids])
        seen += len(batch.ids)
    assert seen == 98
    other = FrameDataset(adk, "name CA", ["positions", Dihedrals.of("protein", psi=True), *fields()[2:]])
    assert frames.facts() == FrameDataset(adk, "name CA", fields()).facts() != other.facts()
    assert frames.numbering() == other.numbering()
    plain = FrameDataset(adk, "name CA")
    assert frames.plan([1, 5]).reads == 2 * plain.plan([1, 5]).reads
    assert frames.sample_bytes == plain.sample_bytes + 8 * sum(values.shape[1] for values in expected.values())
    assert pickle.loads(pickle.dumps(frames)).read(IDS)["features"].tobytes() == frames.read(IDS)["features"].tobytes()


def answer(queue: Any, frames: FrameDataset) -> None:
    queue.put({name: values.copy() for name, values in frames.read(IDS, workers=2).items()})


@pytest.mark.processes
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_compute_the_same(adk: kn.Trajectory, method: str) -> None:
    frames = FrameDataset(adk, "name CA", fields())
    # opened here: what a forked child gets is open
    expected = dict(frames.read(IDS))
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=answer, args=(queue, frames), daemon=True)
    child.start()
    try:
        found = queue.get(timeout=60)
    finally:
        child.join(10)
        if child.is_alive():
            child.kill()
            child.join()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_the_loader_of_torch(adk: kn.Trajectory) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: make test-ml runs this test")
    from kinema.ml.torch import collate

    frames, expected = FrameDataset(adk, "name CA", fields()), alone(adk)
    loader = torch.utils.data.DataLoader(frames, 10, sampler=list(range(40, 0, -1)), collate_fn=collate, num_workers=2)
    found = torch.cat([batch["features"] for batch in loader])
    np.testing.assert_array_equal(found.numpy(), expected["features"][40:0:-1])


def test_exports_have_them(adk: kn.Trajectory, tmp_path: Path) -> None:
    frames, expected = FrameDataset(adk[:6], "name CA", fields()), alone(adk)
    with collected():
        kinema.ml.export(frames, tmp_path / "a.h5", format="samples-h5")
        kinema.ml.export(frames, tmp_path / "a.npz", format="npz")
    with h5py.File(tmp_path / "a.h5") as file, np.load(tmp_path / "a.npz") as archive:
        for name, values in expected.items():
            np.testing.assert_array_equal(file[name], values[:6])
            np.testing.assert_array_equal(archive[name], values[:6])
        assert file["dihedrals"].attrs["unit"] == "degree"


def test_statistics_are_of_each_column(adk: kn.Trajectory) -> None:
    frames = FrameDataset(adk, "name CA", [RMSD.of("name CA")])
    with collected():
        found = kinema.ml.statistics(frames)
    rmsd = RMSD(adk, "name CA").run().results.values
    np.testing.assert_allclose(np.ravel(found.arrays["rmsd"].mean), rmsd.mean(axis=0))


def test_what_is_not_a_row_of_a_frame_is_refused(adk: kn.Trajectory, tmp_path: Path) -> None:
    for wrong, why in [
        (RMSD(adk, "name CA"), r"without a trajectory; RMSD.of\(...\) is one, found RMSD"),
        (RMSF(adk, "name CA", align="reference"), "found RMSF"),
        (len, "found builtin_function_or_method"),
        (DSSP.of(), "DSSP has a letter for each column"),
        (RMSD.of("name CA", reference="average"), "RMSD reads its frames several times here"),
        (Features.of(RadiusOfGyration.of(), scale="std"), 'scale="std" needs'),
        (RadiusOfGyration.of("name XX"), "names no atoms"),
    ]:
        with pytest.raises(kn.ArgumentError, match=why):
            FrameDataset(adk, fields=["positions", wrong])
    table = {"step": adk.steps, "rgyr": np.zeros(98)}
    with pytest.raises(kn.ArgumentError, match="rgyr is the name of a label and of an analysis"):
        FrameDataset(adk, fields=["rgyr", RadiusOfGyration.of()], labels=table)
