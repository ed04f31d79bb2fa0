"""Written through MDAnalysis by Kinema: the same values for Kinema, for MDAnalysis and for h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
MDAnalysisTests = lazy("MDAnalysisTests")
datafiles = lazy("MDAnalysisTests.datafiles")
interop = lazy("kinema.interop.mdanalysis")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
]
# positions, velocities and forces; a box; ts.data["lambda"]
EVERYTHING = ("TPR_xvf", "TRR_xvf")


def paths(names: tuple[str, str]) -> list[str]:
    return [getattr(datafiles, name) for name in names]


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "out.h5md")


def write_all(target: str, universe: Any, frames: Any, change: Any = None) -> None:
    """Writes these frames, each after `change(ts)`."""
    with interop.KinemaWriter(target, universe.atoms.n_atoms) as writer:
        for frame in frames:
            ts = universe.trajectory[frame]
            if change is not None:
                change(ts)
            writer.write(universe)


@pytest.mark.parametrize("files", [("PSF", "DCD"), EVERYTHING], ids=["dcd", "trr"])
@pytest.mark.parametrize("reader", ["kinema", "mdanalysis"])
def test_all_frames(files: tuple[str, str], reader: str, target: str) -> None:
    universe = MDAnalysis.Universe(*paths(files))
    universe.atoms.write(target, frames="all", file_format="KINEMA")
    copy = MDAnalysis.Universe(paths(files)[0], target, format=interop.KinemaReader if reader == "kinema" else None)
    assert copy.trajectory.n_frames == universe.trajectory.n_frames
    for mine, given in zip(copy.trajectory, universe.trajectory, strict=True):
        for name in ("positions", "velocities", "forces"):
            assert getattr(mine, f"has_{name}") == getattr(given, f"has_{name}")
            if getattr(given, f"has_{name}"):
                np.testing.assert_array_equal(getattr(mine, name), getattr(given, name))
        assert mine.time == pytest.approx(given.time, rel=1e-15)
        assert mine.data["step"] == given.data["step"]
        assert mine.data.get("lambda") == given.data.get("lambda")
        assert (mine.dimensions is None) == (given.dimensions is None)
        if given.dimensions is not None:
            np.testing.assert_allclose(mine.dimensions, given.dimensions, rtol=1e-6)


def test_some_atoms_and_frames(target: str) -> None:
    universe = MDAnalysis.Universe(datafiles.GRO, datafiles.XTC)
    group = universe.select_atoms("name CA")[::-1]
    group.write(target, frames=universe.trajectory[1::4], file_format="KINEMA")
    traj = kn.open(target)
    universe.trajectory[5]
    np.testing.assert_array_equal(traj[1].positions, group.positions)
    assert traj.steps.tolist() == [universe.trajectory[i].data["step"] for i in (1, 5, 9)]
    assert traj.n_atoms == 214


def test_through_mda_writer_with_options(target: str) -> None:
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    options: dict[str, Any] = {"compression": "gzip", "max_error": 0.01, "length_unit": "nm", "dialect": "h5md"}
    with MDAnalysis.Writer(target, universe.atoms.n_atoms, format="KINEMA", dt=2.5, **options) as writer:
        assert isinstance(writer, interop.KinemaWriter)
        for _ in universe.trajectory[:30]:
            writer.write(universe.atoms)
    with h5py.File(target) as file:
        position = file["particles/trajectory/position"]
        assert position["value"].attrs["unit"] in (b"nm", "nm")
        assert position["value"].compression == "gzip"
    traj = kn.open(target)
    np.testing.assert_allclose(traj.times, 2.5 * np.arange(30), rtol=1e-15)
    np.testing.assert_allclose(traj.read(), [ts.positions for ts in universe.trajectory[:30]], atol=0.011)


def test_what_is_known_of_the_atoms_goes_along(target: str) -> None:
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    group = universe.select_atoms("resid 1:5")
    group.write(target, file_format="KINEMA")
    with h5py.File(target) as file:
        particles = file["particles/trajectory"]
        np.testing.assert_allclose(particles["mass"][()], group.masses)
        np.testing.assert_allclose(particles["charge"][()], group.charges)
        inside = [bond for bond in group.bonds if set(bond.indices) <= set(group.indices)]
        assert len(file["connectivity/bonds"]) == len(inside)
    group.write(target, file_format="KINEMA", topology=False)
    with h5py.File(target) as file:
        assert "mass" not in file["particles/trajectory"]


def test_atoms_of_which_nothing_is_known(target: str) -> None:
    universe = MDAnalysis.Universe.empty(4, trajectory=True)
    universe.atoms.write(target, file_format="KINEMA")
    assert kn.open(target).read().shape == (1, 4, 3)


def test_numbers_beside_the_frames_are_observables(target: str) -> None:
    universe = MDAnalysisTests.make_Universe(trajectory=True)
    ts = universe.trajectory.ts
    with interop.KinemaWriter(target, universe.atoms.n_atoms) as writer:
        for step in range(600):
            ts.data.update(step=step, energy=0.5 * step, pressure=np.full((3, 3), step), name="x")
            if step >= 300:
                del ts.data["energy"]
            writer.write(universe)
    reader = interop.KinemaReader(target)
    np.testing.assert_array_equal(reader[7].data["pressure"], np.full((3, 3), 7))
    assert reader[299].data["energy"] == 149.5
    assert "energy" not in reader[300].data
    assert "name" not in reader[0].data
    assert "energy" not in interop.KinemaReader(target, observables=False)[7].data
    with interop.KinemaWriter(target, universe.atoms.n_atoms, observables=False) as writer:
        writer.write(universe)
    with h5py.File(target) as file:
        assert "observables" not in file


def test_chosen_fields(target: str) -> None:
    universe = MDAnalysis.Universe(*paths(EVERYTHING))
    universe.atoms.write(target, frames="all", file_format="KINEMA", velocities=False, positions=False)
    assert set(kn.open(target).fields) == {"forces", "cell", "step", "time"}
    reader = interop.KinemaReader(target)
    with pytest.raises(MDAnalysis.NoDataError):
        _ = reader.ts.positions
    np.testing.assert_array_equal(reader[2].forces, universe.trajectory[2].forces)
    with pytest.raises(kn.ArgumentError, match="has no velocities"):
        MDAnalysis.Universe(datafiles.PSF, datafiles.DCD).atoms.write(target, file_format="KINEMA", velocities=True)
    with pytest.raises(kn.ArgumentError, match="no positions, velocities or forces"):
        MDAnalysis.Universe(datafiles.PSF, datafiles.DCD).atoms.write(target, file_format="KINEMA", positions=False)


def test_a_frame_twice_is_refused(target: str) -> None:
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    with pytest.raises(kn.ArgumentError, match="steps must rise"):
        write_all(target, universe, [0, 1, 1])
    assert not Path(target).exists()


def test_what_cannot_be_written(target: str) -> None:
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    with pytest.raises(ValueError, match="no such option of the writer: precision"):
        interop.KinemaWriter(target, 3341, precision=5)
    with pytest.raises(ValueError, match="convert_units"):
        interop.KinemaWriter(target, 3341, convert_units=False)
    with interop.KinemaWriter(target, 10) as writer:
        with pytest.raises(ValueError, match="expected 10"):
            writer.write(universe)
        for nothing in (None, 5, "x", universe.trajectory.ts):
            with pytest.raises(TypeError):
                writer.write(nothing)
    # not one frame
    assert not Path(target).exists()
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write(universe.atoms[:10])


BOX = [9, 9, 9, 90, 90, 90]


@pytest.mark.parametrize(("boxes", "message"), [([BOX, None], "has no box"), ([None, BOX], "has a box")])
def test_a_box_that_comes_or_goes(boxes: list[Any], message: str, target: str) -> None:
    universe = MDAnalysis.Universe.empty(4, trajectory=True)
    universe.load_new(np.zeros((2, 4, 3)), order="fac", dimensions=None)
    with pytest.raises(kn.ArgumentError, match=message):
        write_all(target, universe, [0, 1], lambda ts: setattr(ts, "dimensions", boxes[ts.frame]))
    assert not Path(target).exists()


def test_an_exception_leaves_the_old_file(target: str) -> None:
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    universe.atoms.write(target, file_format="KINEMA")
    before = Path(target).read_bytes()
    with pytest.raises(ZeroDivisionError) as caught:
        write_all(target, universe, range(98), lambda ts: 1 / (50 - ts.frame))
    assert Path(target).read_bytes() == before
    # the frames before it are in a file beside it
    (part,) = set(Path(target).parent.iterdir()) - {Path(target)}
    assert caught.value.__notes__ == [f"50 frames are in {part}, which can be read and renamed"]
    assert kn.open(part).n_frames == 50
    part.unlink()
    with pytest.raises(kn.Error), interop.KinemaWriter(target, 3341, overwrite=False) as writer:
        writer.write(universe.atoms)


def test_a_writer_that_is_only_closed(target: str) -> None:
    universe = MDAnalysis.Universe(datafiles.PSF, datafiles.DCD)
    writer = interop.KinemaWriter(target, 3341)
    for _ in universe.trajectory:
        writer.write(universe)
    writer.close()
    writer.close()
    assert kn.open(target).n_frames == 98


@pytest.mark.parametrize("files", [("PSF", "DCD"), ("GRO", "XTC"), EVERYTHING], ids=["dcd", "xtc", "trr"])
@pytest.mark.parametrize("suffix", ["xtc", "dcd"])
def test_other_formats(files: tuple[str, str], suffix: str, tmp_path: Path) -> None:
    universe = MDAnalysis.Universe(*paths(files))
    target = str(tmp_path / f"out.{suffix}")
    with collected() as notes:
        universe.atoms.write(target, frames="all", file_format="KINEMA")
    left_out = [note for note in notes if "are not written: the file holds positions" in note]
    assert bool(left_out) == (files is EVERYTHING)
    if left_out:
        assert "velocities, forces, lambda are not written" in left_out[0]
    copy = MDAnalysis.Universe(paths(files)[0], target)
    assert copy.trajectory.n_frames == universe.trajectory.n_frames
    for mine, given in zip(copy.trajectory, universe.trajectory, strict=True):
        np.testing.assert_allclose(mine.positions, given.positions, atol=0 if suffix == "dcd" else 5.1e-3)
        assert mine.time == pytest.approx(given.time, rel=1e-6)
        assert (mine.dimensions is None) == (given.dimensions is None)
        if given.dimensions is not None:
            np.testing.assert_allclose(mine.dimensions, given.dimensions, rtol=1e-5)


def written_by_both(universe: Any, folder: Path, suffix: str) -> tuple[Any, Any]:
    """Universes of what Kinema and what MDAnalysis' own writer made of all frames, both read by MDAnalysis."""
    ours, theirs = (str(folder / f"{name}.{suffix}") for name in ("ours", "theirs"))
    with collected():
        universe.atoms.write(ours, frames="all", file_format="KINEMA")
    options = {"velocities": True, "forces": True} if suffix == "nc" and universe.trajectory[0].has_velocities else {}
    with MDAnalysis.Writer(theirs, universe.atoms.n_atoms, multiframe=True, **options) as writer:
        for _ in universe.trajectory:
            writer.write(universe.atoms)
    return MDAnalysis.Universe(ours, to_guess=()), MDAnalysis.Universe(theirs, to_guess=())


@pytest.mark.parametrize("files", [("PSF", "DCD"), ("GRO", "XTC"), EVERYTHING], ids=["dcd", "xtc", "trr"])
@pytest.mark.parametrize("suffix", ["trr", "nc"])
def test_what_mdanalysis_own_writers_write(files: tuple[str, str], suffix: str, tmp_path: Path) -> None:
    universe = MDAnalysis.Universe(*paths(files))
    ours, theirs = written_by_both(universe, tmp_path, suffix)
    assert ours.trajectory.n_frames == theirs.trajectory.n_frames == universe.trajectory.n_frames
    n_vectors = 0
    for mine, other in zip(ours.trajectory, theirs.trajectory, strict=True):
        for name in ("positions", "velocities", "forces"):
            assert getattr(mine, f"has_{name}") == getattr(other, f"has_{name}")
            if getattr(mine, f"has_{name}"):
                np.testing.assert_allclose(getattr(mine, name), getattr(other, name), rtol=4e-7, atol=1e-30)
                n_vectors += 1
        assert mine.time == pytest.approx(other.time, rel=1e-6)
        if suffix == "trr":
            assert mine.data["step"] == other.data["step"]
        if universe.trajectory[mine.frame].dimensions is not None:
            np.testing.assert_allclose(mine.dimensions, other.dimensions, rtol=1e-5)
    assert n_vectors == universe.trajectory.n_frames * (3 if files is EVERYTHING else 1)


def test_frames_of_a_trr_have_what_they_had(tmp_path: Path) -> None:
    universe = MDAnalysis.Universe(*paths(EVERYTHING))

    def thinned(ts: Any) -> None:
        ts.has_velocities, ts.has_forces = ts.frame % 2 == 0, ts.frame % 3 == 0
        ts.has_positions = ts.frame != 2

    target = str(tmp_path / "out.trr")
    with collected():
        write_all(target, universe, range(universe.trajectory.n_frames), thinned)
    copy = MDAnalysis.Universe(target, to_guess=())
    assert copy.trajectory.n_frames == universe.trajectory.n_frames > 2
    for mine in copy.trajectory:
        given = universe.trajectory[mine.frame]
        thinned(given)
        for name in ("positions", "velocities", "forces"):
            assert getattr(mine, f"has_{name}") == getattr(given, f"has_{name}"), (mine.frame, name)
            if getattr(given, f"has_{name}"):
                np.testing.assert_allclose(getattr(mine, name), getattr(given, name), rtol=4e-7, atol=1e-30)
    with collected(), pytest.raises(kn.ArgumentError, match="frame 1 has no velocities, which the first frame had"):
        write_all(str(tmp_path / "out.nc"), universe, range(3), thinned)


def test_options_and_frames_of_other_formats(tmp_path: Path) -> None:
    universe = MDAnalysis.Universe(*paths(EVERYTHING))
    target = tmp_path / "out.dcd"
    with collected(), MDAnalysis.Writer(target, universe.atoms.n_atoms, format="KINEMA", positions=False) as writer:
        for frame in (2, 0, 0):  # not in their order, and one twice
            universe.trajectory[frame]
            writer.write(universe)
    with collected():
        found = kn.open(target).read(fields=["velocities"])["velocities"]
    for row, frame in enumerate((2, 0, 0)):
        np.testing.assert_allclose(found[row], universe.trajectory[frame].velocities, rtol=2e-7, atol=1e-30)
    with pytest.raises(kn.ArgumentError, match="no such option of the writer: compression"):
        interop.KinemaWriter(tmp_path / "a.xtc", 3, compression="gzip")
    with collected(), interop.KinemaWriter(tmp_path / "a.xtc", universe.atoms.n_atoms, precision=100) as writer:
        writer.write(universe)
    assert "precision 100" in kn.open(tmp_path / "a.xtc").parts[0].variant
