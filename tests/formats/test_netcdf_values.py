"""NetCDF, classic and NetCDF-4: values that were never written, units that are not known, files without frames."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kinema as kn
from kinema.base.notes import collected
from kinema.cli import main
from kinema.testing.programs.imports import lazy

netCDF4 = lazy("netCDF4")

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

FORMS = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4"]
DATA = Path(__file__).parent.parent / "data" / "public-faults"
POSITIONS = np.arange(4 * 5 * 3, dtype=float).reshape(4, 5, 3)


def made(
    path: Path,
    form: str,
    fill: Callable[[dict[str, Any]], None],
    *,
    kind: str = "f4",
    n_frames: int = 4,
    fill_value: float | None = None,
    missing_value: float | None = None,
    units: dict[str, str] | None = None,
) -> Path:
    """All variables of AMBER's convention, of which `fill` writes some; frames and positions are written."""
    stated = {"velocities": "angstrom/picosecond", "forces": "kilocalorie/mole/angstrom"} | (units or {})
    with netCDF4.Dataset(path, "w", format=form) as file:
        file.set_auto_maskandscale(False)
        file.Conventions, file.ConventionVersion = "AMBER", "1.0"
        for name, length in (("frame", None), ("spatial", 3), ("atom", 5), ("cell_spatial", 3), ("cell_angular", 3)):
            file.createDimension(name, length)
        variables = {
            "time": (kind, ("frame",), "picosecond"),
            "coordinates": (kind, ("frame", "atom", "spatial"), "angstrom"),
            "velocities": (kind, ("frame", "atom", "spatial"), ""),
            "forces": (kind, ("frame", "atom", "spatial"), ""),
            "cell_lengths": ("f8", ("frame", "cell_spatial"), "angstrom"),
            "cell_angles": ("f8", ("frame", "cell_angular"), "degree"),
        }
        found = {}
        for name, (of_type, dimensions, unit) in variables.items():
            found[name] = one = file.createVariable(name, of_type, dimensions, fill_value=fill_value)
            one.set_auto_maskandscale(False)
            one.units = stated.get(name, unit)
            if missing_value is not None:
                one.missing_value = np.array(missing_value, of_type)
        if n_frames:
            found["coordinates"][:n_frames] = POSITIONS[:n_frames]
        fill(found)
    return path


def all_but(*names: str) -> Callable[[dict[str, Any]], None]:
    """Writes all other variables."""

    def fill(variables: dict[str, Any]) -> None:
        values = {"time": np.arange(4.0), "velocities": POSITIONS / 2, "forces": POSITIONS / 4}
        values |= {"cell_lengths": np.full((4, 3), 90.0), "cell_angles": np.full((4, 3), 90.0)}
        for name, one in values.items():
            if name not in names:
                variables[name][:] = one

    return fill


def noted(path: Path, **options: Any) -> tuple[kn.Trajectory, dict[str, Any], tuple[str, ...]]:
    """The trajectory, what is read of all fields, and the notes."""
    with collected() as notes:
        traj = kn.open(path, stored=False, **options)
        found = traj.read(fields=[name for name in ("positions", "velocities", "forces") if name in traj.fields])
    assert all(note in traj.notes for note in notes)
    return traj, found, tuple(notes)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("form", FORMS)
def test_times_that_were_never_written_are_nan_and_noted(tmp_path: Path, form: str, kind: str) -> None:
    traj, found, notes = noted(made(tmp_path / "a.nc", form, all_but("time"), kind=kind))
    assert np.isnan(traj.times).all() and np.isnan(found["times"]).all()
    assert len(notes) == 1 and "values of time were never written" in notes[0] and "a.nc" in notes[0]
    assert_array_equal(found["positions"], POSITIONS.astype("f4"))

    def one(variables: dict[str, Any]) -> None:
        all_but("time")(variables)
        variables["time"][:2] = [0.0, 2.0]

    traj, found, notes = noted(made(tmp_path / "a.nc", form, one, kind=kind))
    assert_array_equal(traj.times, [0, 2, np.nan, np.nan])
    assert len(notes) == 1 and "frame 2" in notes[0]


def test_info_of_a_file_without_times(capsys: pytest.CaptureFixture[str]) -> None:
    """Absence is not a number: JSON has no NaN."""
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit, match="0"):
            main(["info", str(DATA / "filltime.nc"), *more])
    text, _, facts = capsys.readouterr().out.strip().rpartition("\n")
    assert "times " not in text and "nan" not in text.replace("title", "")
    found = json.loads(facts, parse_constant=pytest.fail)
    assert (found["dt"], found["parts"][0]["first_time"], found["parts"][0]["last_time"]) == (None, None, None)


def test_the_public_file_without_times() -> None:
    traj, found, notes = noted(DATA / "filltime.nc")
    assert np.isnan(traj.times).all() and len(traj.times) == 4
    assert np.isfinite(found["positions"]).all()
    assert len(notes) == 1 and "values of time were never written" in notes[0]


@pytest.mark.parametrize("stated", [{}, {"fill_value": -9999.0}, {"missing_value": -77.0}, {"fill_value": 0.25}])
@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("form", ["NETCDF3_64BIT_OFFSET", "NETCDF4"])
def test_vectors_and_cells_that_were_never_written(
    tmp_path: Path, form: str, kind: str, stated: dict[str, Any]
) -> None:
    fill = next(iter(stated.values()), netCDF4.default_fillvals["f4"])

    def some(variables: dict[str, Any]) -> None:
        all_but("velocities", "cell_lengths", "cell_angles")(variables)
        variables["velocities"][[0, 2, 3]] = POSITIONS[[0, 2, 3]] / 8
        variables["velocities"][1] = np.full((5, 3), fill)
        # one atom of frame 3
        variables["forces"][3, 4] = fill
        variables["cell_lengths"][:] = np.where(np.arange(4)[:, None] == 2, fill, 90.0)
        variables["cell_angles"][:] = np.full((4, 3), 90.0)

    path = made(tmp_path / "a.nc", form, some, kind=kind, **stated)
    for options in ({}, {"units": {"velocity": "nm/ps"}}):
        traj, found, notes = noted(path, **options)
        factor = 10.0 if options else 1.0
        is_there = np.arange(4) != 1
        scaled = POSITIONS[is_there] / 8 * factor
        expected = np.where(POSITIONS[is_there] / 8 == fill, np.nan, scaled)
        assert_allclose(found["velocities"][is_there], expected, rtol=1e-6)
        assert np.isnan(found["velocities"][1]).all()
        assert_array_equal(found["present"]["velocities"], is_there)
        assert np.isnan(found["forces"][3, 4]).all() and np.isfinite(found["forces"][3, :4]).all()
        assert found["present"]["forces"].all()
        assert found["present"]["cells"].tolist() == [True, True, False, True]
        assert_array_equal(found["positions"], np.where(POSITIONS == fill, np.nan, POSITIONS).astype("f4"))
        said = " ".join(notes)
        assert f"frame {0 if fill == 0.25 else 1}: values of velocities were never written" in said
        assert "values of forces were never written" in said and "frame 2: the cell is none" in said
        # of some atoms, and in float64
        again = traj.read(select=[3, 1], fields=["velocities"], dtype="float64")["velocities"]
        assert_allclose(again, found["velocities"][:, [3, 1]], rtol=1e-6)
    with pytest.raises(kn.Error, match="frame 1"), collected():
        kn.convert(path, tmp_path / "b.nc", fields=["positions", "velocities"])


@pytest.mark.parametrize("form", FORMS)
def test_an_unknown_unit_closes_its_variable_alone(tmp_path: Path, form: str) -> None:
    odd = dict.fromkeys(("time", "velocities", "forces"), "furlong")
    traj, found, notes = noted(made(tmp_path / "a.nc", form, all_but(), units=odd))
    assert {"velocities", "forces"}.isdisjoint(traj.fields)
    assert_array_equal(found["positions"], POSITIONS.astype("f4"))
    assert np.isnan(traj.times).all()
    for name in odd:
        assert [note for note in notes if name in note and "furlong" in note and "left out" in note], (name, notes)
    with pytest.raises(kn.Error, match="velocities"):
        traj.read(fields=["velocities"])
    stated = {"velocity": "nm/ps", "force": "kJ mol-1 nm-1", "time": "fs"}
    traj, found, notes = noted(tmp_path / "a.nc", units=stated)
    assert_allclose(found["velocities"], POSITIONS / 2 * 10, rtol=1e-6)
    assert_allclose(found["forces"], POSITIONS / 4 / 10, rtol=1e-6)
    assert_allclose(traj.times, np.arange(4) / 1000)
    assert not [note for note in notes if "left out" in note]
    # in workers as well
    means = kn.run([kn.analysis.Distances(traj, [[0, 1]])], runner="processes", workers=2)[0].results.values
    assert means.shape == (4, 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["cell_lengths", "cell_angles"])
def test_an_unknown_unit_of_the_cell_is_a_cell_that_is_not_known(tmp_path: Path, form: str, name: str) -> None:
    traj, found, notes = noted(made(tmp_path / "a.nc", form, all_but(), units={name: "furlong"}))
    assert_array_equal(found["positions"], POSITIONS.astype("f4"))
    assert not found["present"]["cells"].any()
    assert [note for note in notes if name in note and "furlong" in note]
    with pytest.raises(kn.CorruptFileError, match="the cell of the frame is not known"), collected():
        kn.analysis.Distances(traj, [[0, 1]]).run()
    if name == "cell_lengths":
        _, found, _ = noted(tmp_path / "a.nc", units={"length": "nm"})
        assert_allclose(found["cells"], [np.diag([900.0] * 3)] * 4)
        assert_allclose(found["velocities"], POSITIONS / 2 * (1 if form == "NETCDF4" else 10), rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_the_stated_unit_keeps_the_scale_factor(tmp_path: Path, form: str) -> None:
    def scaled(variables: dict[str, Any]) -> None:
        all_but()(variables)
        variables["velocities"].scale_factor = 20.455

    made(tmp_path / "a.nc", form, scaled)
    for options, factor in (({}, 1.0), ({"units": {"velocity": "nm/ps"}}, 10.0)):
        _, found, _ = noted(tmp_path / "a.nc", **options)
        assert_allclose(found["velocities"], POSITIONS / 2 * 20.455 * factor, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unit", ["angstrom/femtosecond", "Angstrom/femtoseconds", "angstrom/fs"])
def test_velocities_in_femtoseconds(tmp_path: Path, form: str, unit: str) -> None:
    _, found, notes = noted(made(tmp_path / "a.nc", form, all_but(), units={"velocities": unit}))
    assert_allclose(found["velocities"], POSITIONS / 2 * 1000, rtol=1e-6)
    assert not notes


def test_the_public_file_of_femtoseconds(tmp_path: Path) -> None:
    _, found, notes = noted(DATA / "v.nc")
    assert_allclose(found["velocities"], np.ones((1, 2, 3)), rtol=1e-6)
    assert_array_equal(found["positions"].ravel(), np.arange(6))
    assert not notes
    # the positions, whatever the unit of velocities says
    shutil.copy(DATA / "v.nc", tmp_path / "v.nc")
    data = (tmp_path / "v.nc").read_bytes().replace(b"angstrom/femtosecond", b"furlong/fortnight   ")
    (tmp_path / "v.nc").write_bytes(data)
    _, found, notes = noted(tmp_path / "v.nc")
    assert_array_equal(found["positions"].ravel(), np.arange(6))
    assert len(notes) == 1 and "furlong/fortnight" in notes[0]


@pytest.mark.parametrize("form", FORMS)
def test_a_file_without_frames(tmp_path: Path, form: str) -> None:
    path = made(tmp_path / "a.nc", form, lambda _: None, n_frames=0)
    with collected():
        traj = kn.open(path, stored=False)
        assert (len(traj), traj.n_atoms) == (0, 5)
        assert traj.read().shape == (0, 5, 3)
        assert traj.times.shape == (0,)
