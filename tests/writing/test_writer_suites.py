"""The writers of all formats against the suite of writers, and what is special of each."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import GivenFrames, WriterTests, lost_aspects, read_frames, write_history, write_netcdf
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
mdamath = lazy("MDAnalysis.lib.mdamath")
data = lazy("MDAnalysisTests.datafiles")

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
    cells_by_lengths = True
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
            reason = "cannot be extended: its records are laid out in another way than they are written here"
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


class TestHistoryWriter(WriterTests):
    suffix = ".history"
    fields = ALL
    exact = ("positions", "velocities")
    time_rounding = 5e-7
    # the suite says nothing of the atoms
    always_lost = frozenset({"atoms"})

    def _choices(self) -> list[tuple[str, ...]]:
        return [ALL[:1], ALL[:2], ALL]

    def _drawn(self, data: st.DataObject) -> GivenFrames:
        drawn = super()._drawn(data)
        # of ten columns
        return replace(drawn, steps=np.sign(drawn.steps) * (np.abs(drawn.steps) % 10**9))

    def test_atoms_are_those_of_the_table(self, tmp_path: Path) -> None:
        columns = {
            "names": [f"O5*{i}" for i in range(12)],
            "masses": np.arange(12) / 8,
            "charges": np.arange(12) / -16,
        }
        atoms = kn.Atoms(12, **{name: np.asarray(values) for name, values in columns.items()})
        given = self.frames(4, ALL)
        path = tmp_path / "HISTORY"
        assert self.write(path, given[:3], atoms=atoms, title="a title").losses == ()
        with collected(), kn.Writer(path, format="history", mode="a") as out:
            self._put(out, given[3:], "frames")
        assert out.losses == ()
        found = kn.read_atoms(path)
        for name, values in columns.items():
            assert found.get(name).tolist() == list(values)  # type: ignore[union-attr]
        self.check(read_frames(path), given)
        # all records of the file in one call, or in two
        self.write(tmp_path / "whole.history", given, atoms=atoms, title="a title")
        self._same(path, tmp_path / "whole.history")
        assert path.read_bytes().startswith(b"a title ")
        # names that DL_POLY would read as two words, or not at all
        odd = atoms.replace(names=np.array(["a b", "", "longer than 8", "\u03b1", *columns["names"][4:]]))
        out = self.write(tmp_path / "odd.history", given, atoms=odd)
        assert lost_aspects(out.path, out.losses) == {"atoms"}
        assert kn.read_atoms(out.path).get("names")[:4].tolist() == ["a_b", "X", "longer_t", "_"]  # type: ignore[index]

    @pytest.mark.parametrize(
        ("what", "changed"),
        [
            ("a step", {"steps": np.array([1, 2, 10**10])}),
            ("a time", {"times": np.array([0.0, 1.0, 1e14])}),
            ("a cell", {"cells": np.array([np.eye(3)] * 2 + [1e10 * np.eye(3)])}),
        ],
    )
    def test_numbers_beyond_their_columns_are_refused(self, tmp_path: Path, what: str, changed: dict[str, Any]) -> None:
        given = replace(self.frames(3, ALL), **changed)
        reason = f"frame 2: {what} that the [0-9]+ columns of a file of DL_POLY do not hold"
        with pytest.raises(kn.UnsupportedFormatError, match=reason):
            self.write(tmp_path / "a.history", given)
        (left,) = tmp_path.iterdir()
        self.check(read_frames(left), given[:2])

    def test_fields_that_no_key_names_are_refused(self, tmp_path: Path) -> None:
        given = self.frames(2, ("positions", "forces"))
        out = self.write(tmp_path / "a.history", given)
        assert lost_aspects(out.path, out.losses) == {"forces", "atoms"}
        for fields in (("positions", "forces"), ("velocities",)):
            with pytest.raises(kn.ArgumentError, match=r"fields of a file of DL_POLY, expected positions, or|lacks"):
                self.write(tmp_path / "b.history", self.frames(2, ALL), fields=fields)

    def test_files_of_windows_and_compressed_ones_are_not_gone_on_with(self, tmp_path: Path) -> None:
        for how in ({"end": b"\r\n"}, {"compressed": True}):
            path = tmp_path / "theirs.history"
            write_history(path, self.frames(2, ALL).fields["positions"], **how)
            before = path.read_bytes()
            with pytest.raises(kn.UnsupportedFormatError, match="cannot be extended"):
                kn.Writer(path, mode="a")
            assert path.read_bytes() == before


class TestG96Writer(WriterTests):
    suffix = ".g96"
    fields = ("positions", "velocities")
    exact = ()
    # 9 decimals of nm
    tolerance = 1e-8
    velocity_tolerance = 1e-8
    time_rounding = 5e-7
    always_lost = frozenset({"positions", "velocities"})
    table = True

    def _choices(self) -> list[tuple[str, ...]]:
        return [self.fields[:1], self.fields]

    def _drawn(self, data: st.DataObject) -> GivenFrames:
        drawn = super()._drawn(data)
        # of 15 columns
        steps = np.sign(drawn.steps) * (np.abs(drawn.steps) % 10**14)
        return replace(drawn, steps=steps, times=np.fmod(drawn.times, 1e7))

    def test_the_title_is_that_of_the_first_frame(self, tmp_path: Path) -> None:
        given = self.frames(3, self.fields)
        for title, found in (("a title", "a title"), ("END", "END of a title"), ("two\nlines", "two_lines")):
            out = self.write(tmp_path / "a.g96", given, title=title, overwrite=True)
            assert lost_aspects(out.path, out.losses) == {"positions", "velocities"}
            assert (tmp_path / "a.g96").read_bytes().startswith(f"TITLE\n{found}\nEND\nTIMESTEP\n".encode())
            self.check(read_frames(tmp_path / "a.g96"), given)
        assert (tmp_path / "a.g96").read_bytes().count(b"TITLE\n\nEND\n") == 2

    @pytest.mark.parametrize(
        ("what", "changed"),
        [
            ("a step", {"steps": np.array([1, 2, 10**16])}),
            ("a step or time", {"times": np.array([0.0, 1.0, 1e14])}),
            ("a cell", {"cells": np.array([np.eye(3)] * 2 + [1e10 * np.eye(3)])}),
        ],
    )
    def test_numbers_beyond_their_columns_are_refused(self, tmp_path: Path, what: str, changed: dict[str, Any]) -> None:
        given = replace(self.frames(3, self.fields), **changed)
        with pytest.raises(kn.UnsupportedFormatError, match=f"frame 2: {what}.* 15 columns of a G96 file do not hold"):
            self.write(tmp_path / "a.g96", given)
        (left,) = tmp_path.iterdir()
        self.check(read_frames(left), given[:2])

    def test_fields_that_it_does_not_hold(self, tmp_path: Path) -> None:
        out = self.write(tmp_path / "a.g96", self.frames(2, ("positions", "forces")))
        assert lost_aspects(out.path, out.losses) == {"positions", "forces"}
        with pytest.raises(kn.ArgumentError, match="fields of a G96 file, expected positions, or"):
            self.write(tmp_path / "b.g96", self.frames(2, ALL), fields="velocities")


class TestAmberInNetcdf4(WriterTests):
    suffix = ".nc"
    cells_by_lengths = True
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
    cells_by_lengths = True
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


@pytest.mark.parametrize(
    "tests",
    [TestXtcWriter(), TestTrrWriter(), TestNetcdfWriter(), TestHistoryWriter(), TestG96Writer()],
    ids=lambda one: one.suffix,
)
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


class TestPdbWriter(WriterTests):
    suffix = ".pdb"
    cells_by_lengths = True
    exact = ()
    tolerance = 0.0006
    steps = "none"
    times = "none"
    one_cell = True
    cell_share = 1e-3
    loses_open_edges = True
    cell_tolerance = 3e-4
    always_lost = frozenset({"positions", "cells", "times"})
    appends = False
    streams = True

    @property
    def made_of(self) -> Mapping[str, Any]:
        return {"atoms": _atoms()}

    def read(self, path: Path, dtype: str = "float32") -> GivenFrames:
        """With the cell of the record CRYST1, which MDAnalysis' reader does not see before the first MODEL."""
        found = read_frames(path, dtype)
        (record,) = [line for line in path.read_text().splitlines() if line.startswith("CRYST1")]
        lengths, angles = record[6:33], record[33:54]
        box = [float(lengths[i : i + 9]) for i in (0, 9, 18)] + [float(angles[i : i + 7]) for i in (0, 7, 14)]
        # lengths of 1 say that there is none
        cell = np.zeros((3, 3)) if box[:3] == [1.0, 1.0, 1.0] else mdamath.triclinic_vectors(box)
        return replace(found, cells=np.broadcast_to(cell, (len(found), 3, 3)))

    def test_mdanalysis_reads_the_frames(self, tmp_path: Path) -> None:
        given = self.frames(4, ("positions",))
        self.write(tmp_path / "a.pdb", given)
        universe = MDAnalysis.Universe(str(tmp_path / "a.pdb"))
        found = np.array([step.positions.copy() for step in universe.trajectory])
        np.testing.assert_allclose(found, given.fields["positions"], rtol=0, atol=self.tolerance)
        assert universe.atoms.names.tolist() == _atoms().names.tolist()


class TestGroWriter(WriterTests):
    suffix = ".gro"
    cells_by_lengths = True
    fields = ("positions", "velocities")
    exact = ()
    tolerance = 0.0055
    velocity_tolerance = 0.00055
    time_tolerance = 5.1e-6
    cell_share = 1e-3
    loses_open_edges = True
    cell_tolerance = 1e-5
    always_lost = frozenset({"positions", "velocities", "cells", "times"})
    appends = False
    streams = True

    @property
    def made_of(self) -> Mapping[str, Any]:
        return {"atoms": _atoms()}

    def _choices(self) -> list[tuple[str, ...]]:
        return [("positions",), self.fields]

    def read(self, path: Path, dtype: str = "float32") -> GivenFrames:
        """Reads each frame as a file of its own: MDAnalysis reads only the first frame of a file."""
        lines = path.read_text().splitlines(keepends=True)
        length = self.n_atoms + 3
        assert len(lines) % length == 0
        frames = []
        for number in range(0, len(lines), length):
            alone = path.parent / "alone" / "frame.gro"
            alone.parent.mkdir(exist_ok=True)
            alone.write_text("".join(lines[number : number + length]))
            frames.append(read_frames(alone, dtype))
        shutil.rmtree(alone.parent)
        return GivenFrames(
            {name: np.concatenate([one.fields[name] for one in frames]) for name in frames[0].fields},
            *(np.concatenate([getattr(one, name) for one in frames]) for name in ("cells", "steps", "times")),
            {name: np.concatenate([one.present[name] for one in frames]) for name in frames[0].fields},
        )


@functools.cache
def _atoms() -> kn.Atoms:
    return kn.Atoms.from_mdanalysis(MDAnalysis.Universe(data.GRO).atoms[:12])
