"""The writers of all formats against the suite of writers, and what is special of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import kinema as kn
from kinema.notes import collected
from kinema.testing import WriterTests, lost_aspects, read_frames, write_netcdf

ALL = ("positions", "velocities", "forces")


class TestXtcWriter(WriterTests):
    suffix = ".xtc"
    exact = ()
    tolerance = 5.1e-3
    steps = "32 bits"
    times = "float32"
    cell_tolerance = 1e-15
    always_lost = frozenset({"positions"})
    table = True


class TestTrrWriter(WriterTests):
    suffix = ".trr"
    fields = ALL
    fields_of_each = True
    exact = ()
    steps = "32 bits"
    times = "float32"
    cell_tolerance = 1e-15
    table = True

    def test_each_frame_has_fields_of_its_own(self, tmp_path: Path) -> None:
        given = self.frames(8, ALL)
        present = {
            "positions": np.arange(8) % 2 == 0,
            "velocities": np.arange(8) % 3 != 1,
            "forces": np.arange(8) % 4 != 2,
        }
        for name, there in present.items():
            given.fields[name][~there] = np.nan
        given = replace(given, present=present)
        for how in ("frames", "blocks", "flushed"):  # arrays alone do not say which frames have them
            path = tmp_path / f"{how}.trr"
            assert self.write(path, given, how).losses == ()  # type: ignore[arg-type]
            self.check(read_frames(path), given)
            self._same(path, tmp_path / "frames.trr")
        # and in later sessions
        path = tmp_path / "grown.trr"
        for rows in (slice(0, 1), slice(1, 5), slice(5, 8)):
            with collected(), kn.Writer(path, self.n_atoms, mode="a") as out:
                self._put(out, given[rows], "frames")
        self._same(path, tmp_path / "frames.trr")
        # a frame that has nothing but what the file shall not hold is refused, and nothing of it is taken
        with collected(), kn.Writer(tmp_path / "v.trr", self.n_atoms, fields="velocities") as out:
            with pytest.raises(kn.ArgumentError, match="frame 0 of those given has none of velocities"):
                out.write(given.fields["positions"][0])
            assert (out.n_frames, out.losses) == (0, ())
            out.write(given.fields["positions"][0], velocities=given.fields["velocities"][0], time=0.0)
        assert lost_aspects(tmp_path / "v.trr", out.losses) == {"positions"}
        assert set(read_frames(tmp_path / "v.trr").fields) == {"velocities"}


class TestNetcdfWriter(WriterTests):
    suffix = ".nc"
    fields = ALL
    steps = "counted"
    times = "float32"
    cell_tolerance = 1e-14

    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    def test_files_of_another_program(self, tmp_path: Path, dtype: str) -> None:
        given = self.frames(6, ("positions", "velocities"))
        path = tmp_path / "theirs.nc"
        write_netcdf(
            path,
            given.fields["positions"][:4],
            velocities=given.fields["velocities"][:4],
            times=given.times[:4],
            cells=given.cells[:4].astype(np.float32),
            dtype=dtype,
        )
        before = path.read_bytes()
        if dtype == "f8":
            reason = "cannot be gone on with: its records are laid out in another way than they are written here"
            with pytest.raises(kn.UnsupportedFormatError, match=reason):
                kn.Writer(path, mode="a")
            assert path.read_bytes() == before
            return
        with pytest.raises(
            kn.ArgumentError, match="expected positions, velocities, found positions, velocities, forces"
        ):
            kn.Writer(path, mode="a", fields=ALL)
        assert path.read_bytes() == before
        with collected(), kn.Writer(path, mode="a") as out:
            self._put(out, given[4:], "frames")
        # a cell of theirs went through float32 and angles
        self.cell_tolerance = 1e-6
        self.check(read_frames(path), given)


class TestAmberInNetcdf4(WriterTests):
    suffix = ".nc"
    fields = ALL
    options: ClassVar[Mapping[str, Any]] = {"netcdf4": True}
    wide: ClassVar[Mapping[str, Any] | None] = {"dtype": "float64"}
    steps = "counted"
    times = "float32"
    cell_tolerance = 1e-14
    cells_of_some = False
    times_go_on = False
    records = False


class TestDlPolyInNetcdf4(WriterTests):
    suffix = ".nc"
    fields = ALL
    options: ClassVar[Mapping[str, Any]] = {"netcdf4": True, "convention": "dl_poly"}
    exact = ("positions", "velocities")
    wide: ClassVar[Mapping[str, Any] | None] = {"dtype": "float64"}
    cells_of_some = False
    times_go_on = False
    records = False


class TestDcdWriter(WriterTests):
    suffix = ".dcd"
    fields = ("positions", "velocities")
    one_field = True
    steps = "even"
    times = "even"
    cell_tolerance = 1e-12
    always_lost = frozenset({"times"})


class TestH5mdWriter(WriterTests):
    suffix = ".h5md"
    fields = ALL
    exact = ALL
    wide: ClassVar[Mapping[str, Any] | None] = {"dtype": "float64"}
    cells_of_some = False
    times_go_on = False
    records = False


@pytest.mark.parametrize("tests", [TestXtcWriter(), TestTrrWriter(), TestNetcdfWriter()], ids=lambda one: one.suffix)
def test_frames_without_a_time(tmp_path: Path, tests: WriterTests) -> None:
    given = tests.frames(4, ("positions",))
    given.times[[1, 3]] = np.nan
    path = tmp_path / f"some{tests.suffix}"
    out = tests.write(path, given)
    assert "times" in lost_aspects(path, out.losses)
    tests.check(read_frames(path), given)
    given.times[:] = np.nan
    out = tests.write(path, given, overwrite=True)
    assert np.isnan(read_frames(path).times).all()


def test_frames_without_a_time_of_formats_that_have_one_for_each_or_none(tmp_path: Path) -> None:
    for tests in (TestH5mdWriter(), TestDcdWriter()):
        given = tests.frames(4, ("positions",))
        given.times[:] = np.nan
        path = tmp_path / f"none{tests.suffix}"
        assert "times" not in lost_aspects(path, tests.write(path, given).losses)
        assert np.isnan(read_frames(path).times).all()
    tests, given = TestDcdWriter(), TestDcdWriter().frames(4, ("positions",))
    given.times[2] = np.nan
    path = tmp_path / "some.dcd"
    found = tests.write(path, given)
    assert not np.isnan(read_frames(path).times).any()
    assert "times" in lost_aspects(path, found.losses)
    given = TestH5mdWriter().frames(4, ("positions",))
    given.times[2] = np.nan
    with pytest.raises(kn.ArgumentError, match="time is missing"):
        TestH5mdWriter().write(tmp_path / "some.h5md", given)
