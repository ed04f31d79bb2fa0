"""TRR against the suite of formats; both precisions, frames that lack fields, the bytes of the reference library."""

import glob
import os
import struct
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import FormatTests, Golden, random_walk, write_trr
from kinema.testing.programs.imports import package_folder

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


def real_files():
    folder = package_folder("MDAnalysisTests") / "data"
    return sorted(glob.glob(f"{folder}/**/*.trr", recursive=True))


class TestTrr(FormatTests):
    suffix = ".trr"
    index = "table"
    # nm in float32, times 10
    tolerance = 2e-5
    velocity_tolerance = 3e-7
    may_lack_fields = True

    def write(self, path, positions, first_step):
        write_trr(path, positions, first_step=first_step)

    def write_synthetic(self, path, made):
        write_trr(
            path, made.positions, velocities=made.velocities, first_step=int(made.steps[0]) % 2**30, cell=made.cells
        )
        return True, True

    def golden_files(self):
        with np.load(GOLDEN / "ca.trr.npz") as values:
            return [Golden(GOLDEN / "ca.trr", values["positions"], values["times"])]


def double_precision(path: Path, n_atoms: int, frames: int) -> dict[str, np.ndarray]:
    """Writes a file in float64 word by word, and returns its values in nm."""
    random = np.random.default_rng(3)
    made = {name: random.normal(0, 5, (frames, n_atoms, 3)) for name in ("positions", "velocities", "forces")}
    with open(path, "wb") as file:
        for i in range(frames):
            vectors = 24 * n_atoms
            words = [0, 0, 72, 72, 0, 0, 0, vectors, vectors if i % 2 == 0 else 0, vectors, n_atoms, 7 * i, 0]
            file.write(struct.pack(">3i12s13i", 1993, 13, 12, b"GMX_trn_file", *words))
            file.write(struct.pack(">2d", 0.1 * i, 0.25))
            file.write(np.diag([5.0, 6.0, 7.0]).astype(">f8").tobytes() + np.arange(9, dtype=">f8").tobytes())
            for name, values in made.items():
                if name != "velocities" or i % 2 == 0:
                    file.write(values[i].astype(">f8").tobytes())
    return made


def opened(path: str | Path, absent: str = "nan") -> kn.Trajectory:
    with collected():
        trajectory = kn.open(path, stored=False, absent=absent)
        trajectory.scan()
    return trajectory


@pytest.mark.parametrize("path", real_files(), ids=os.path.basename)
def test_real_files_have_the_values_that_mdanalysis_reads(path):
    from MDAnalysis.lib.formats.libmdaxdr import TRRFile

    trajectory = opened(path)
    fields = [name for name in trajectory.fields if name in ("positions", "velocities", "forces")]
    found = trajectory.read(fields=fields)
    with TRRFile(path) as file:
        assert trajectory.n_frames == len(file)
        for i, frame in enumerate(file):
            assert (found["steps"][i], found["times"][i]) == (frame.step, frame.time)
            np.testing.assert_array_equal(found["cells"][i], frame.box.astype(np.float64) * 10.0)
            sections = (
                ("positions", frame.hasx, frame.x, 10),
                ("velocities", frame.hasv, frame.v, 10),
                ("forces", frame.hasf, frame.f, 0.1),
            )
            for name, there, values, factor in sections:
                assert (name in fields and found["present"][name][i]) == there
                if there:
                    expected = (values.astype(np.float64) * factor).astype(np.float32)
                    np.testing.assert_array_equal(found[name][i], expected)


def test_both_precisions_keep_their_bits(tmp_path):
    made = double_precision(tmp_path / "double.trr", 20, 5)
    trajectory = opened(tmp_path / "double.trr")
    assert trajectory.parts[0].variant == "double precision, with lambda, the virial"
    found = trajectory.read(fields=list(made), dtype="float64")
    for name, factor in (("positions", 10.0), ("velocities", 10.0), ("forces", 0.1)):
        there = found["present"][name]
        assert there.tolist() == [name != "velocities" or i % 2 == 0 for i in range(5)]
        np.testing.assert_array_equal(found[name][there], made[name][there] * factor)
        assert np.isnan(found[name][~there]).all()
    narrow = trajectory.read(select=[3, 17], frames=[4, 0])
    np.testing.assert_array_equal(narrow, (made["positions"][[4, 0]][:, [3, 17]] * 10).astype(np.float32))
    # whole records are copied, with lambda and virial; some atoms keep their bits
    with collected():
        done = kn.convert(trajectory, tmp_path / "copy.trr")
        some = kn.convert(trajectory, tmp_path / "some.trr", select=[19, 2, 2])
    assert done.losses == some.losses == ()
    assert (tmp_path / "copy.trr").read_bytes() == (tmp_path / "double.trr").read_bytes()
    again = opened(tmp_path / "some.trr").read(fields=list(made), dtype="float64")
    for name in made:
        np.testing.assert_array_equal(again[name], found[name][:, [19, 2, 2]])
    # what values alone keep
    with collected():
        done = kn.convert(trajectory, tmp_path / "positions.trr", fields="positions")
    losses = " ".join(done.losses)
    for text in ("velocities are not written", "positions are rounded from float64 to float32", "lambda of the source"):
        assert text in losses


def test_double_precision_is_written(tmp_path):
    made = {
        name: random_walk(6, 12).astype(np.float64) / 3 + i
        for i, name in enumerate(("positions", "velocities", "forces"))
    }
    cells = np.stack([np.diag([30.0, 40, 50]) / 7] * 6)
    with kn.Writer(tmp_path / "a.trr", 12, dtype="float64") as out:
        out.write(**made, cell=cells, step=np.arange(6), time=np.arange(6) / 3)
    assert out.losses == ()
    trajectory = opened(tmp_path / "a.trr")
    assert trajectory.parts[0].variant == "double precision"
    found = trajectory.read(fields=list(made), dtype="float64")
    # once from angstrom to nm, and back
    for name, values in made.items():
        np.testing.assert_allclose(found[name], values, rtol=4e-16)
    np.testing.assert_allclose(found["cells"], cells, rtol=4e-16)
    assert found["times"].tolist() == (np.arange(6) / 3).tolist()
    # more frames have its precision; what is converted has what is asked for
    with kn.Writer(tmp_path / "a.trr", mode="a") as out:
        out.write(made["positions"][:1])
    assert opened(tmp_path / "a.trr").read(frames=[6], dtype="float64")[0].tolist() == found["positions"][0].tolist()
    done = kn.convert(tmp_path / "a.trr", tmp_path / "b.h5md", frames=range(6))
    again = kn.convert(tmp_path / "b.h5md", tmp_path / "b.trr", dtype="float64")
    assert not any("rounded" in loss for loss in (*done.losses, *again.losses))
    copied = opened(tmp_path / "b.trr").read(fields=list(made), dtype="float64")
    for name in made:
        np.testing.assert_array_equal(copied[name], found[name])
    with collected():
        narrow = kn.convert(tmp_path / "b.h5md", tmp_path / "c.trr")
    assert any("positions are rounded from float64 to float32" in loss for loss in narrow.losses)
    # by the reference library
    from MDAnalysis.lib.formats.libmdaxdr import TRRFile

    with TRRFile(str(tmp_path / "b.trr")) as file:
        for i, frame in enumerate(file):
            np.testing.assert_array_equal(frame.x, (found["positions"][i] / 10).astype("f4"))
    with pytest.raises(kn.ArgumentError, match="dtype"):
        kn.Writer(tmp_path / "d.trr", 12, dtype="float16")


@pytest.mark.parametrize("path", real_files(), ids=os.path.basename)
def test_records_of_real_files_are_copied(path, tmp_path):
    with collected():
        done = kn.convert(path, tmp_path / "copy.trr")
    assert done.losses == ()
    assert (tmp_path / "copy.trr").read_bytes() == Path(path).read_bytes()[: done.size]


def test_values_give_the_bytes_of_the_reference_library(tmp_path):
    from MDAnalysis.lib.formats.libmdaxdr import TRRFile, XTCFile
    from MDAnalysisTests.datafiles import XTC

    with collected():
        done = kn.convert(XTC, tmp_path / "ours.trr")
    assert done.losses == ()
    with XTCFile(XTC) as source, TRRFile(str(tmp_path / "theirs.trr"), "w") as file:
        for frame in source:
            file.write(frame.x, None, None, frame.box, frame.step, frame.time, 0.0, len(frame.x))
    assert (tmp_path / "ours.trr").read_bytes() == (tmp_path / "theirs.trr").read_bytes()


def test_fields_at_different_strides(tmp_path):
    positions = random_walk(30, 12).astype(np.float32)
    write_trr(tmp_path / "a.trr", positions, velocities=positions / 3, forces=positions / 5, every=(1, 5, 10))
    trajectory = opened(tmp_path / "a.trr")
    assert [frame.velocities is not None for frame in trajectory] == [i % 5 == 0 for i in range(30)]
    present = trajectory.read(fields=["positions", "forces"])["present"]
    assert present["positions"].all() and np.flatnonzero(present["forces"]).tolist() == [0, 10, 20]
    # what a frame lacks is lacking in the copy; a format with one field of all frames refuses the frame
    with collected():
        kn.convert(trajectory, tmp_path / "b.trr", select=range(3, 9))
        assert opened(tmp_path / "b.trr").read(fields=["velocities"])["present"]["velocities"].sum() == 6
        with pytest.raises(kn.UnsupportedFormatError, match="the source has no velocities in its frame 1"):
            kn.convert(trajectory, tmp_path / "v.dcd", fields="velocities")


def test_rules_for_fields_that_frames_lack(tmp_path):
    positions = random_walk(30, 12)
    path = tmp_path / "a.trr"
    # velocities in frames 0, 5, 10, ...; forces in frames 0, 10, 20: first frames are cut off
    write_trr(path, positions, velocities=positions / 3, forces=positions / 5, every=(1, 5, 10))
    marked = opened(path).read(fields=["positions", "velocities", "forces"], dtype="float64")
    with pytest.raises(
        kn.ArgumentError, match=r"a\.trr: TRR frame 1: the frame has no velocities, which are asked for"
    ):
        opened(path, "error").read(fields="velocities")
    np.testing.assert_array_equal(
        opened(path, "error").read(frames=slice(0, None, 5), fields="velocities"),
        marked["velocities"][::5].astype("f4"),
    )
    assert [frame.forces is not None for frame in opened(path, "error")] == [i % 10 == 0 for i in range(30)]
    random = np.random.default_rng(1)
    for choice in (np.arange(30), random.permutation(30), [29, 3, 3, 14], [7]):
        for workers in (1, 3):
            held = opened(path, "hold").read(
                frames=choice, fields=["positions", "velocities", "forces"], dtype="float64", workers=workers
            )
            frames = np.asarray(choice)
            np.testing.assert_array_equal(held["positions"], marked["positions"][frames])
            np.testing.assert_array_equal(held["velocities"], marked["velocities"][frames // 5 * 5])
            np.testing.assert_array_equal(held["forces"], marked["forces"][frames // 10 * 10])
            assert all(held["present"][name].all() for name in ("velocities", "forces"))
    # what analyses of velocities see, in any block
    seen = kn.analysis.from_function(lambda frame: frame.velocities.mean(), opened(path, "hold"), fields=["velocities"])
    expected = marked["velocities"][np.arange(30) // 5 * 5].astype("f4").mean(axis=(1, 2))
    np.testing.assert_allclose(seen.run().results.values, expected, rtol=1e-5)
    with pytest.raises(kn.ArgumentError, match="axis is not for TRR"):
        kn.open(path, axis="velocities")


def test_nothing_holds_before_the_first_frame_that_has_it(tmp_path):
    positions = random_walk(6, 12)
    write_trr(tmp_path / "a.trr", positions[:2])
    write_trr(tmp_path / "b.trr", positions[2:], velocities=positions[2:] / 3, every=(1, 2, 1), first_step=2)
    whole = (tmp_path / "a.trr").read_bytes() + (tmp_path / "b.trr").read_bytes()
    (tmp_path / "c.trr").write_bytes(whole)
    held = opened(tmp_path / "c.trr", "hold").read(fields=["velocities"])
    assert held["present"]["velocities"].tolist() == [False, False, True, True, True, True]
    assert np.isnan(held["velocities"][:2]).all()
    np.testing.assert_array_equal(held["velocities"][[3, 5]], held["velocities"][[2, 4]])


def test_a_file_of_cells_alone_says_so(tmp_path):
    write_trr(tmp_path / "a.trr", random_walk(3, 5).astype(np.float32), every=(4, 1, 1))
    frame = (tmp_path / "a.trr").read_bytes()[-(84 + 36) :]
    (tmp_path / "cells.trr").write_bytes(frame * 3)
    with pytest.raises(kn.UnsupportedFormatError, match="none of the first frames has positions, velocities or forces"):
        kn.open(tmp_path / "cells.trr", stored=False)


def test_other_files_are_refused_with_the_reason(tmp_path):
    whole = (GOLDEN / "ca.trr").read_bytes()
    little = np.frombuffer(whole[:84], ">i4").astype("<i4").tobytes()
    cases = {
        "swapped": (little[:12] + whole[12:24] + little[24:] + whole[84:], "little-endian TRR"),
        "text": (whole[:12] + b"GMX_trn_fool" + whole[24:], "not TRR in spite of its name"),
        "size": (whole[:52] + struct.pack(">i", 12) + whole[56:], "wrong size of the positions"),
        "energies": (whole[:28] + struct.pack(">i", 4) + whole[32:], "size of the energies"),
    }
    for name, (data, message) in cases.items():
        path = tmp_path / f"{name}.trr"
        path.write_bytes(data)
        with pytest.raises(kn.Error, match=message):
            kn.open(path, stored=False).scan()


@pytest.mark.parametrize("every", [(1, 2, 5), (3, 1, 2), (2, 3, 1), (4, 5, 7)])
def test_blocks_keep_what_each_frame_has(tmp_path, every):
    positions = random_walk(30, 9).astype(np.float32)
    write_trr(tmp_path / "a.trr", positions, velocities=positions / 3, forces=positions / 5, every=every)
    trajectory, fields = opened(tmp_path / "a.trr"), ["positions", "velocities", "forces"]
    if 1 not in every:
        with (
            kn.Writer(tmp_path / "b.trr", 9) as out,
            pytest.raises(kn.ArgumentError, match=r"frame 1 .*has none of positions, velocities, forces"),
        ):
            out.write(next(iter(trajectory.blocks(fields=fields))))
        return
    with kn.Writer(tmp_path / "b.trr", 9) as out:
        for block in trajectory.blocks(fields=fields):
            out.write(block)
    again, expected = opened(tmp_path / "b.trr").read(fields=fields), trajectory.read(fields=fields)
    np.testing.assert_array_equal(again["present"], expected["present"])
    for name in fields:
        np.testing.assert_allclose(again[name], expected[name], rtol=2e-7)
    out = kn.Writer(tmp_path / "c.trr", 9, fields="velocities")
    with pytest.raises(kn.ArgumentError, match="has none of velocities, expected one at least"):
        out.write(positions)
    out.abort()
