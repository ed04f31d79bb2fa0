"""Data beside the positions are read as far as they make sense, and never keep the positions from being read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.h5md_files import N_ATOMS, N_FRAMES, add_box, add_element, small_file, walk

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

LENGTHS = np.array([3.0, 4.0, 5.0]) + np.arange(N_FRAMES)[:, None]
POSITIONS = walk() * np.float32(10)


def opened(path: Path, **options: Any) -> tuple[kn.Trajectory, dict[str, Any], tuple[str, ...]]:
    """The trajectory, what is read of the positions, and the notes."""
    with collected() as notes:
        traj = kn.open(path, stored=False, **options)
        found = traj.read(fields=["positions"])
    return traj, found, tuple(notes)


def value_alone(group: Any, name: str, value: Any, unit: str | None = None) -> None:
    """An element with its value, and no step."""
    node = group.create_group(name)
    node["value"] = value
    if unit is not None:
        node["value"].attrs["unit"] = unit


@pytest.mark.parametrize("as_group", [True, False])
def test_a_box_without_step_is_read_row_by_row(tmp_path: Path, as_group: bool) -> None:
    def fill(group: Any) -> None:
        add = value_alone if as_group else add_element
        add(add_box(group), "edges", LENGTHS, unit="nm")

    _, found, notes = opened(small_file(tmp_path, fill))
    assert_allclose(found["cells"], [np.diag(edge) * 10 for edge in LENGTHS])
    assert len(notes) == 1 and "box/edges has no step" in notes[0]
    assert_allclose(found["positions"], POSITIONS, rtol=1e-6)


@pytest.mark.parametrize("edges", [np.array([3.0, 4.0, 5.0]), np.diag([3.0, 4.0, 5.0])])
def test_fixed_edges_as_a_group(tmp_path: Path, edges: Any) -> None:
    traj, found, notes = opened(small_file(tmp_path, lambda group: value_alone(add_box(group), "edges", edges, "nm")))
    assert_allclose(found["cells"], [np.diag([30.0, 40.0, 50.0])] * N_FRAMES)
    assert not notes
    assert kn.analysis.Distances(traj, [[0, 1]]).run().results.values.shape == (N_FRAMES, 1)


def test_a_box_of_other_length_without_step_is_not_known(tmp_path: Path) -> None:
    path = small_file(tmp_path, lambda group: value_alone(add_box(group), "edges", LENGTHS[:4], "nm"))
    traj, found, notes = opened(path)
    assert_allclose(found["positions"], POSITIONS, rtol=1e-6)
    assert not found["present"]["cells"].any()
    assert len(notes) == 1 and "step is missing; the cell is not known" in notes[0]
    with pytest.raises(kn.CorruptFileError, match="frame 0: the cell of the frame is not known"), collected():
        kn.analysis.Distances(traj, [[0, 1]]).run()
    with collected():
        assert kn.analysis.Distances(traj, [[0, 1]], minimum_image=False).run().results.values.shape == (N_FRAMES, 1)


@pytest.mark.parametrize("as_group", [True, False])
def test_images_without_step(tmp_path: Path, as_group: bool) -> None:
    images = np.random.default_rng(3).integers(-2, 3, (N_FRAMES, N_ATOMS, 3))

    def fill(group: Any) -> None:
        add_element(add_box(group), "edges", np.array([3.0, 4.0, 5.0]), unit="nm")
        (value_alone if as_group else add_element)(group, "image", images)

    path = small_file(tmp_path, fill)
    _, found, notes = opened(path, unwrap=True)
    assert_allclose(found["positions"], POSITIONS + images * [30.0, 40.0, 50.0], rtol=1e-5, atol=1e-4)
    assert [note for note in notes if "image has no step" in note]
    # and without them the positions, whatever they are
    assert_allclose(opened(path)[1]["positions"], POSITIONS, rtol=1e-6)


@pytest.mark.parametrize("as_group", [True, False])
def test_ids_without_step(tmp_path: Path, as_group: bool) -> None:
    rng = np.random.default_rng(5)
    orders = np.array([rng.permutation(N_ATOMS) for _ in range(N_FRAMES)])
    stored = np.take_along_axis(walk(), orders[:, :, None], axis=1)
    ids = orders + 1

    def fill(group: Any) -> None:
        (value_alone if as_group else add_element)(group, "id", ids)
        (value_alone if as_group else add_element)(group, "charge", np.linspace(-1, 1, N_ATOMS)[orders])

    traj, found, notes = opened(small_file(tmp_path, fill, values=stored))
    assert_allclose(found["positions"], POSITIONS, rtol=1e-6)
    assert [note for note in notes if "id has no step" in note]
    with collected():
        assert_allclose(traj.atoms.charges, np.linspace(-1, 1, N_ATOMS))


@pytest.mark.parametrize(
    "ids",
    [
        np.zeros((N_FRAMES, N_ATOMS)),
        np.arange(N_FRAMES * 3).reshape(N_FRAMES, 3),
        (np.arange(N_ATOMS) + np.arange(4)[:, None]) % N_ATOMS,
    ],
)
def test_ids_that_make_no_sense_are_left_out(tmp_path: Path, ids: Any) -> None:
    _, found, notes = opened(small_file(tmp_path, lambda group: value_alone(group, "id", ids)))
    assert_allclose(found["positions"], POSITIONS, rtol=1e-6)
    assert len(notes) == 1 and "atoms are the columns" in notes[0]


@pytest.mark.parametrize("as_group", [True, False])
def test_charges_that_change_without_step(tmp_path: Path, as_group: bool) -> None:
    charges = np.arange(float(N_FRAMES * N_ATOMS)).reshape(N_FRAMES, N_ATOMS)

    def fill(group: Any) -> None:
        (value_alone if as_group else add_element)(group, "charge", charges, unit="e")

    traj, found, _ = opened(small_file(tmp_path, fill))
    assert_allclose(found["positions"], POSITIONS, rtol=1e-6)
    with collected() as notes:
        assert_allclose(traj.atoms.charges, charges[0])
    assert [note for note in notes if "charge changes with time" in note]


def test_a_file_without_the_group_of_metadata(tmp_path: Path) -> None:
    def fill(group: Any) -> None:
        value_alone(add_box(group), "edges", LENGTHS[0], "nm")
        add_element(group, "velocity", walk(), steps=group["position/step"], unit="nm ps-1")

    path = small_file(tmp_path, fill)
    with h5py.File(path, "r+") as file:
        del file["h5md"]
    for options in ({}, {"root": "/"}):
        traj, found, notes = opened(path, **options)
        assert_allclose(found["positions"], POSITIONS, rtol=1e-6)
        assert traj.fields[:2] == ("positions", "velocities")
        assert len(notes) == 1 and "there is no group h5md" in notes[0]
    with collected():
        assert kn.check(path).ok
        kn.convert(path, tmp_path / "a.xtc")
        assert kn.layout_of(path).groups
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["particles/all/note"] = np.ones(3)
    with pytest.raises(kn.UnsupportedFormatError, match="neither H5MD"):
        opened(tmp_path / "other.h5")


@pytest.mark.parametrize("of", ["position", "velocity", "box/edges"])
def test_a_scalar_step_of_zero_is_none(tmp_path: Path, of: str) -> None:
    """A step of zero is not an interval between rows."""

    def fill(group: Any) -> None:
        add_element(group, "velocity", walk(), steps=0 if of == "velocity" else group["position/step"], unit="nm ps-1")
        add_element(
            add_box(group), "edges", LENGTHS, steps=0 if of == "box/edges" else group["position/step"], unit="nm"
        )

    path = small_file(tmp_path, fill, steps=0 if of == "position" else np.arange(N_FRAMES) * 10)
    traj, found, notes = opened(path)
    assert_allclose(found["positions"], POSITIONS, rtol=1e-6)
    assert_allclose(found["cells"], [np.diag(edge) * 10 for edge in LENGTHS])
    assert_allclose(traj.read(fields=["velocities"])["velocities"], POSITIONS, rtol=1e-6)
    assert [note for note in notes if f"{of}/step is 0 for all rows" in note]
    assert_array_equal(found["steps"], np.arange(N_FRAMES) * (1 if of == "position" else 10))


@pytest.mark.parametrize("unit", ["furlong", "ps"])
@pytest.mark.parametrize("of", ["velocity", "time", "box/edges"])
def test_an_unknown_unit_closes_what_it_is_of(tmp_path: Path, of: str, unit: str) -> None:
    def fill(group: Any) -> None:
        step = group["position/step"]
        add_element(group, "velocity", walk(), steps=step, unit=unit if of == "velocity" else "nm ps-1")
        add_element(add_box(group), "edges", LENGTHS, steps=step, unit=unit if of == "box/edges" else "nm")

    if of == "time" and unit == "ps":
        pytest.skip("it is one of time")
    path = small_file(tmp_path, fill, times=np.arange(N_FRAMES) * 0.5, time_unit=unit if of == "time" else "ps")
    traj, found, notes = opened(path)
    assert_allclose(found["positions"], POSITIONS, rtol=1e-6)
    assert ("velocities" in traj.fields) == (of != "velocity")
    assert np.isnan(traj.times).all() == (of == "time")
    assert found["present"]["cells"].all() == (of != "box/edges")
    assert len(notes) == 1 and unit in notes[0] and of.split("/")[0] in notes[0]


def test_the_public_file_of_edges_without_step(tmp_path: Path) -> None:
    """As ../shared/data/public-faults/edges_no_step.h5 has it."""

    def fill(group: Any) -> None:
        value_alone(add_box(group), "edges", np.array([[10.0, 11, 12], [9, 11, 12]]), "Angstrom")

    values = np.arange(12.0).reshape(2, 2, 3)
    path = small_file(tmp_path, fill, values=values, steps=[0, 10], times=[0.0, 1.0], unit="Angstrom")
    _, found, notes = opened(path)
    assert_allclose(found["cells"], [np.diag([10.0, 11, 12]), np.diag([9.0, 11, 12])])
    assert_array_equal(found["positions"], values)
    assert len(notes) == 1 and "no step" in notes[0]
