"""`WriterTests`: the conformance suite of writers. A subclass in a test module describes its format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.strategies import examples_of_files
from kinema.testing.synthetic import CellKind
from kinema.testing.writer_tests.case import HOWS, How, WriterCase
from kinema.testing.writer_tests.extremes import check_kept, extreme_frames
from kinema.testing.written import lost_aspects

# each example rewrites its file, so that all can use one folder
_ANY_FRAMES = settings(
    deadline=None,
    database=None,
    max_examples=examples_of_files(),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


class LoopEnded(Exception):
    """The loop of a test has ended."""


class WriterTests(WriterCase):
    """Subclass it with `suffix` and the fields of the format."""

    # -- values -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("how", HOWS)
    def test_what_is_written_is_read_back(self, tmp_path: Path, how: How, dtype: str) -> None:
        for names in self._choices():
            given = self.frames(7, names, dtype)
            path = tmp_path / f"{'-'.join(names)}{self.suffix}"
            out = self.write(path, given, how, **self._options(dtype))
            assert (out.n_frames, out.n_flushed) == (7, 7)
            assert set(names) <= set(out.fields or ())
            narrow = dtype == "float64" and self.wide is None
            assert lost_aspects(path, out.losses) == self.always_lost & {*names, "cells", "times", "steps", "atoms"} | (
                set(names) if narrow else set()
            )
            assert set(out.losses) <= set(out.notes)
            self.check(self.read(path, dtype), given)

    def test_float64_that_is_rounded_is_named(self, tmp_path: Path) -> None:
        for names in self._choices():
            path = tmp_path / f"{'-'.join(names)}{self.suffix}"
            out = self.write(path, self.frames(3, names, "float64"))
            assert set(names) <= lost_aspects(path, out.losses)
            out = self.write(path, self.frames(3, names, "float32"), overwrite=True)
            assert lost_aspects(path, out.losses).isdisjoint(set(names) - self.always_lost)

    def test_fields_that_the_file_does_not_hold_are_named(self, tmp_path: Path) -> None:
        every = ("positions", "velocities", "forces")
        path = tmp_path / f"made{self.suffix}"
        out = self.write(path, self.frames(3, every))
        held = self.fields[:1] if self.one_field else self.fields
        assert lost_aspects(path, out.losses) - self.always_lost == set(every) - set(held)
        assert set(self.read(path).fields) == set(held)

    @pytest.mark.parametrize("kind", ["none", "cuboid", "triclinic", "growing"])
    def test_cells(self, tmp_path: Path, kind: CellKind) -> None:
        given = self.frames(5, self.fields[:1], cell=kind)
        path = tmp_path / f"cells{self.suffix}"
        out = self.write(path, given)
        assert ("cells" in lost_aspects(path, out.losses)) == ("cells" in self.always_lost and kind != "none")
        self.check(self.read(path), given)

    @pytest.mark.parametrize("first", [True, False])
    def test_left_handed_cells_are_kept_or_refused(self, tmp_path: Path, first: bool) -> None:
        given = self.frames(4, self.fields[:1], cell="triclinic")
        # the mirror image, with the same lengths and angles
        rows = slice(None) if first else slice(2, 3)
        given.cells[rows, :, 2] *= -1.0
        path = tmp_path / f"mirrored{self.suffix}"
        if self.cells_by_lengths:
            with pytest.raises(kn.UnsupportedFormatError, match="right-handed"):
                self.write(path, given)
            assert not path.exists()
        else:
            self.write(path, given)
            self.check(self.read(path), given)

    def test_some_frames_without_a_cell(self, tmp_path: Path) -> None:
        given = self.frames(5, self.fields[:1])
        given.cells[[2, 4]] = 0.0
        path = tmp_path / f"cells{self.suffix}"
        if self.cells_of_some:
            self.write(path, given)
            self.check(self.read(path), given)
            return
        with pytest.raises(kn.ArgumentError, match="cell"):
            self.write(path, given)

    @_ANY_FRAMES
    @given(data=st.data())
    def test_what_is_accepted_is_read_back(self, tmp_path: Path, data: st.DataObject) -> None:
        names = data.draw(st.sampled_from(self._choices()))
        given = extreme_frames(data, self.frames(4, names, data.draw(st.sampled_from(["float32", "float64"]))))
        wide = next(iter(given.fields.values())).dtype == np.float64
        dtype = "float64" if wide else "float32"
        path = tmp_path / f"any{self.suffix}"
        path.unlink(missing_ok=True)
        try:
            out = self.write(path, given, data.draw(st.sampled_from(HOWS)), keep_partial=False, **self._options(dtype))
        except (kn.ArgumentError, kn.UnsupportedFormatError) as error:
            # the message names the cause, and no file is left
            assert any(word in str(error) for word in ("cell", "time", "step", "atom")), error
            assert list(tmp_path.glob("any*")) == []
            return
        check_kept(given, self.read(path, "float64"), lost_aspects(path, out.losses), self)

    @_ANY_FRAMES
    @given(data=st.data())
    def test_whatever_differs_is_named(self, tmp_path: Path, data: st.DataObject) -> None:
        given = self._drawn(data)
        path = tmp_path / f"any{self.suffix}"
        wide = next(iter(given.fields.values())).dtype == np.float64
        dtype = "float64" if wide else "float32"
        how: How = data.draw(st.sampled_from(HOWS))
        out = self.write(path, given, how, overwrite=True, **self._options(dtype))
        found, named = self.read(path, dtype), lost_aspects(path, out.losses)
        # values within the tolerances of the class need no name
        differing = given.differing(found) - {name for name in self.fields if name not in self.exact}
        if np.abs(found.cells - given.cells).max(initial=0.0) <= self.cell_tolerance * np.abs(given.cells).max():
            differing -= {"cells"}
        if self.steps == "none":
            # the file may hold them where its reader does not look
            differing -= {"steps"}
        assert differing <= named
        self.check(found, given, named)
        # nothing is named that is there
        assert named - differing <= self.always_lost | ({*given.fields} if wide and self.wide is None else set())

    def test_steps_and_times_that_are_not_given_go_on(self, tmp_path: Path) -> None:
        if not self.appends:
            self._refuses_to_append(tmp_path)
            return
        given = self.frames(6, self.fields[:1])
        path = tmp_path / f"on{self.suffix}"
        name = self.fields[0]
        with collected():
            with self.open(path) as out:
                self._put(out, given[:3], "arrays")
                if not self.times_go_on:
                    with pytest.raises(kn.ArgumentError, match="time is missing"):
                        out.write(**{name: given.fields[name][3]}, cell=given.cells[3])
                    return
                out.write(**{name: given.fields[name][3]}, cell=given.cells[3])
            with kn.Writer(path, mode="a") as out:
                out.write(**{name: given.fields[name][4:]}, cell=given.cells[4:])
        self.check(self.read(path), given)

    # -- the file ------------------------------------------------------------------------------------------------

    def test_every_way_makes_the_same_file(self, tmp_path: Path) -> None:
        given = self.frames(9, self._all)
        for workers in (1, 3):
            for how in HOWS:
                self.write(tmp_path / f"{how}{workers}{self.suffix}", given, how, workers=workers)
                self._same(tmp_path / f"{how}{workers}{self.suffix}", tmp_path / f"frames1{self.suffix}")

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_convert_makes_the_same_file(self, tmp_path: Path, dtype: str) -> None:
        for names in self._choices():
            given = self.frames(9, names, dtype)
            source = tmp_path / f"{'-'.join(names)}.h5md"
            with collected(), kn.Writer(source, self.n_atoms, dtype=dtype) as made:
                self._put(made, given, "arrays")
            path = tmp_path / f"written{self.suffix}"
            out = self.write(path, given, overwrite=True, **self._options(dtype))
            with collected():
                done = kn.convert(
                    source,
                    tmp_path / f"converted{self.suffix}",
                    topology=self.made_of.get("atoms"),
                    overwrite=True,
                    **self.options,
                )
            self._same(tmp_path / f"converted{self.suffix}", path)
            assert lost_aspects(done.path, done.losses) == lost_aspects(path, out.losses)

    def test_the_stored_index_is_that_of_a_scan(self, tmp_path: Path) -> None:
        given = self.frames(9, self._all)
        path = tmp_path / f"made{self.suffix}"
        stored = tmp_path / f".made{self.suffix}.kinema-index"
        self.write(path, given, "mixed")
        assert stored.exists() == self.table
        if not self.table:
            return
        written = stored.read_bytes()
        assert kn.open(path).parts[0].index == "stored"
        stored.unlink()
        kn.open(path).scan()
        assert stored.read_bytes() == written

    # -- files that grow -----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("ends", [(9,), (1, 9), (4, 5, 9), (2, 2, 9)])
    def test_sessions_make_the_file_that_is_written_at_once(self, tmp_path: Path, ends: tuple[int, ...]) -> None:
        if not self.appends:
            self._refuses_to_append(tmp_path)
            return
        given = self.frames(9, self._all)
        path, once = tmp_path / f"grown{self.suffix}", tmp_path / f"once{self.suffix}"
        self.write(once, given)
        begin = 0
        for number, end in enumerate(ends):
            with collected(), self._appending(path, None if number else self.n_atoms) as out:
                assert out.n_frames == begin
                self._put(out, given[begin:end], HOWS[number])
            begin = end
            self.check(self.read(path), given[:end])
        self._same(path, once)

    def test_a_file_that_was_cut_is_gone_on_with(self, tmp_path: Path) -> None:
        if not self.appends:
            self._refuses_to_append(tmp_path)
            return
        if not self.records:
            pytest.skip("the file of a library is read whole or not at all")
        given = self.frames(6, self._all)
        once, path = tmp_path / f"once{self.suffix}", tmp_path / f"cut{self.suffix}"
        self.write(once, given)
        self.write(tmp_path / f"five{self.suffix}", given[:5])
        whole, before = once.read_bytes(), (tmp_path / f"five{self.suffix}").stat().st_size
        for length in {before + 1, (before + len(whole)) // 2, len(whole) - 1}:
            path.write_bytes(whole[:length])
            with collected(), kn.Writer(path, mode="a") as out:
                assert out.n_frames == out.n_flushed == 5
                assert any("it is cut off" in note for note in out.notes)
                self._put(out, given[5:], "frames")
            assert path.read_bytes() == whole

    def test_what_does_not_fit_the_file_is_refused(self, tmp_path: Path) -> None:
        if not self.appends:
            self._refuses_to_append(tmp_path)
            return
        given = self.frames(3, self.fields[:1])
        path = tmp_path / f"made{self.suffix}"
        self.write(path, given)
        before = path.read_bytes()
        with pytest.raises(kn.ArgumentError, match=rf"{self.n_atoms + 1}.*{self.n_atoms}"):
            kn.Writer(path, self.n_atoms + 1, mode="a")
        with pytest.raises(kn.FileNotFound, match="no such file to append to"):
            kn.Writer.append(tmp_path / f"none{self.suffix}")
        if not self.fields_of_each:
            with pytest.raises(kn.ArgumentError, match=r"expected positions|not velocities|fields"):
                kn.Writer(path, mode="a", fields=("velocities",))
            assert path.read_bytes() == before
            with kn.Writer(path, mode="a") as out, pytest.raises(kn.ArgumentError, match="positions"):
                out.write(velocities=given.fields["positions"][0])
        assert path.read_bytes() == before or not self.records
        self.check(self.read(path), given)

    # -- what is left of a file ----------------------------------------------------------------------------------

    def test_an_exception_keeps_the_frames_that_were_taken(self, tmp_path: Path) -> None:
        given = self.frames(5, self.fields[:1])
        path = tmp_path / f"run{self.suffix}"

        def stopped(**options: Any) -> None:
            with collected(), self.open(path, **options) as out:
                self._put(out, given, "frames")
                raise LoopEnded

        with pytest.raises(LoopEnded):
            stopped(keep_partial=False)
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(LoopEnded) as raised:
            stopped()
        (left,) = tmp_path.iterdir()
        assert left.name.startswith("run.part-") and left.suffix == self.suffix
        assert raised.value.__notes__ == [f"5 frames are in {left}, which can be read and renamed"]
        self.check(self.read(left), given)

    def test_flush_brings_frames_into_a_file_that_can_be_read(self, tmp_path: Path) -> None:
        given = self.frames(6, self.fields[:1])
        path = tmp_path / f"run{self.suffix}"
        with collected():
            out = self.open(path)
            for end in (2, 3):
                self._put(out, given[out.n_frames : end], "blocks")
                out.flush()
                assert out.n_flushed == end
                (left,) = tmp_path.glob("run.part-*")
                self.check(self.read(left), given[:end])
            self._put(out, given[3:], "frames")
            out.abort()
            out.abort()
        assert not path.exists()
        found = self.read(left)
        # frames that are written as they come may be there, too
        self.check(found[:3] if self.streams else found, given[:3])

    def test_files_are_replaced_when_that_is_asked_for(self, tmp_path: Path) -> None:
        first, second = self.frames(4, self.fields[:1]), self.frames(3, self.fields[:1], seed=2)
        path = tmp_path / f"made{self.suffix}"
        self.write(path, first)
        with pytest.raises(kn.ArgumentError, match="exists already; overwrite=True replaces it"):
            self.open(path)
        with collected(), self.open(path, overwrite=True) as out:
            self._put(out, second, "frames")
            out.flush()
            self.check(self.read(path), first)
        self.check(self.read(path), second)
        out.close()
        with pytest.raises(kn.ArgumentError, match="the writer is closed"):
            out.write(**second[:1].arguments())
        with pytest.raises(kn.ArgumentError, match="the writer is closed"):
            out.flush()
        self.check(self.read(path), second)
