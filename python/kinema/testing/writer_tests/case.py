"""`WriterCase`: what the writer of a format keeps of frames, and the frames that the tests write and read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.changes import GrowingFileTests
from kinema.testing.synthetic import CellKind, random_cells, random_walk
from kinema.testing.written import GivenFrames, read_frames

How = Literal["frames", "blocks", "arrays", "mixed", "flushed"]
HOWS: tuple[How, ...] = ("frames", "blocks", "arrays", "mixed", "flushed")


class WriterCase(GrowingFileTests):
    """Base of the tests of one writer. Subclass it with `suffix` and the fields of the format."""

    #: of the files
    suffix = ""
    #: fields of a file; the usual one first
    fields: tuple[str, ...] = ("positions",)
    #: whether a file holds only one of the fields
    one_field = False
    #: whether each frame states which fields it has; otherwise all have the fields of the first
    fields_of_each = False
    #: fields whose float32 values keep their bits; others are multiplied by a unit, and rounded once
    exact: tuple[str, ...] = ("positions",)
    #: angstrom by which positions are rounded
    tolerance = 0.0
    #: whether times that are not given continue from the last frames; otherwise each frame has one if the first has
    times_go_on = True
    #: options of all files, which choose what is written
    options: ClassVar[Mapping[str, Any]] = {}
    #: options with which float64 is kept; None: never
    wide: ClassVar[Mapping[str, Any] | None] = None
    #: "any": of int64; "32 bits"; "even": a first step and a stride; "counted": from 0; "none": a reader finds none
    steps: Literal["any", "32 bits", "even", "counted", "none"] = "any"
    #: "even": times follow from steps; "none": they are lost
    times: Literal["float64", "float32", "even", "none"] = "float64"
    #: ps by which times are rounded
    time_tolerance = 0.0
    #: angstrom/ps by which velocities are rounded
    velocity_tolerance = 0.0
    #: whether a frame may lack a cell if the first has one
    cells_of_some = True
    #: whether all frames of a file have the cell of the first
    one_cell = False
    #: whether cells are kept as lengths and angles, which mirror left-handed ones
    cells_by_lengths = False
    #: share of its longest edge by which a cell may differ
    cell_tolerance = 0.0
    #: share by which lengths and cosines of any cell may be rounded
    cell_share = 1e-6
    #: whether cells with open edges are lost; the loss is named
    loses_open_edges = False
    #: ps by which times may be rounded if the loss is named
    time_rounding = 1e-30
    #: what all frames lose, even those that `frames` makes
    always_lost: frozenset[str] = frozenset()
    #: whether the same frames are the same bytes, however they were given; otherwise the same values
    records = True
    #: whether an index is stored
    table = False
    #: whether frames are written as they come, before they are flushed
    streams = False
    #: whether files can be appended to; if not, mode="a" is refused
    appends = True
    #: atoms of the files
    n_atoms = 12

    # -- for subclasses ------------------------------------------------------------------------------------------

    def frames(
        self,
        n_frames: int,
        names: tuple[str, ...],
        dtype: str = "float32",
        *,
        cell: CellKind = "cuboid",
        seed: int = 1,
    ) -> GivenFrames:
        """Frames that the format keeps, except for `always_lost`."""
        random = np.random.default_rng(seed)
        shape = (n_frames, self.n_atoms, 3)
        fields = {name: random.normal(0.0, 9.0, shape).astype(dtype) for name in names}
        if "positions" in names:
            fields["positions"] = (
                random_walk(n_frames, self.n_atoms, seed) + random.uniform(-1e-3, 1e-3, shape)
            ).astype(dtype)
        count = np.arange(n_frames, dtype=np.int64)
        # float32 holds these in nm
        cells = np.round(random_cells(n_frames, cell, seed).astype(np.float64) * 6.4) * 10 / 64
        there = {name: np.ones(n_frames, np.bool_) for name in names}
        times: NDArray[np.float64] = np.arange(1, n_frames + 1, dtype=np.float64) / 4
        return GivenFrames(fields, cells, count if self.steps == "counted" else 5 + 5 * count, times, there)

    @property
    def made_of(self) -> Mapping[str, Any]:
        """Arguments that the writer of the format requires: `atoms`."""
        return {}

    def open(self, path: Path, **options: Any) -> kn.Writer:
        """A writer of a new file."""
        return kn.Writer(path, self.n_atoms, **{**self.made_of, **self.options, **options})

    def read(self, path: Path, dtype: str = "float32") -> GivenFrames:
        """All frames of a file."""
        return read_frames(path, dtype)

    def write(self, path: Path, given: GivenFrames, how: How = "frames", **options: Any) -> kn.Writer:
        """Writes all frames to a new file; returns the closed writer."""
        with collected(), self.open(path, **options) as out:
            self._put(out, given, how)
        return out

    def check(self, found: GivenFrames, given: GivenFrames, lost: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        """Asserts that the frames read equal those given, except for `lost`, within the tolerances of the class."""
        for name in given.fields:
            if name not in self.fields or name not in found.fields:
                assert name in lost
                continue
            np.testing.assert_array_equal(found.present[name], given.present[name])
            exact = name in self.exact and (given.fields[name].dtype == np.float32 or self.wide is not None)
            share = 0.0 if exact else 2.5e-7
            least = {"positions": self.tolerance, "velocities": self.velocity_tolerance}.get(name, 0.0)
            np.testing.assert_allclose(found.fields[name], given.fields[name], rtol=share, atol=least)
        cells = np.broadcast_to(given.cells[:1], given.cells.shape) if self.one_cell else given.cells
        np.testing.assert_array_equal(found.cells.any(axis=(1, 2)), cells.any(axis=(1, 2)))
        if "cells" not in lost:
            bound = self.cell_tolerance * np.abs(cells).max(initial=0.0)
            np.testing.assert_allclose(found.cells, cells, rtol=0, atol=bound)
        if "steps" not in lost and self.steps != "none":
            np.testing.assert_array_equal(found.steps, given.steps)
        if "times" not in lost and self.times != "none":
            share = 1e-6 if "times" in self.always_lost and not self.time_tolerance else 0.0
            np.testing.assert_allclose(found.times, given.times, rtol=share, atol=self.time_tolerance)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _all(self) -> tuple[str, ...]:
        return self.fields[:1] if self.one_field else self.fields

    def _choices(self) -> list[tuple[str, ...]]:
        """Fields that a file can have: each alone, and all."""
        alone: list[tuple[str, ...]] = [(name,) for name in self.fields]
        return alone if self.one_field or len(alone) == 1 else [*alone, self.fields]

    def _refuses_to_append(self, tmp_path: Path) -> None:
        """Asserts that a file that cannot be appended to is refused, and stays."""
        path = tmp_path / f"made{self.suffix}"
        self.write(path, self.frames(3, self._all))
        before = path.read_bytes()
        for options in ({"mode": "a"}, {"mode": "a", "overwrite": True}):
            with pytest.raises(kn.ArgumentError, match=r"not appended to|mode='a' keeps the frames"):
                self.open(path, **options)
        with pytest.raises(kn.ArgumentError, match="files are not appended to, expected mode='w'"):
            self.open(tmp_path / f"none{self.suffix}", mode="a")
        assert path.read_bytes() == before
        assert not (tmp_path / f"none{self.suffix}").exists()

    def _appending(self, path: Path, n_atoms: int | None) -> kn.Writer:
        """A writer that makes the file if there is none; an existing file describes itself."""
        return kn.Writer(path, n_atoms, mode="a", **({} if n_atoms is None else self.options))

    def _options(self, dtype: str) -> Mapping[str, Any]:
        return self.wide if self.wide is not None and dtype == "float64" else {}

    def _put(self, out: kn.Writer, given: GivenFrames, how: How) -> None:
        """Gives frames to a writer one by one, as blocks, as arrays, in turns, or flushed after each three."""
        if how == "frames":
            for one in given.single():
                out.write(**one)
            return
        if how == "mixed":
            for number, begin in enumerate(range(0, len(given), 2)):
                self._put(out, given[begin : begin + 2], ("blocks", "frames", "arrays")[number % 3])
            return
        for begin in range(0, len(given), 3):
            some = given[begin : begin + 3]
            if how == "arrays":
                out.write(**some.arguments())
            else:
                out.write(some.block())
            if how == "flushed":
                out.flush()

    def _same(self, found: Path, expected: Path) -> None:
        if self.records:
            assert found.read_bytes() == expected.read_bytes()
        else:
            assert not self.read(expected, "float64").differing(self.read(found, "float64"))

    def _drawn(self, data: st.DataObject) -> GivenFrames:
        """Frames with any steps, times and cells that the format takes."""
        n_frames = data.draw(st.integers(1, 6))
        names = data.draw(st.sampled_from(self._choices()))
        dtype = data.draw(st.sampled_from(["float32", "float64"]))
        kind: CellKind = data.draw(st.sampled_from(["none", "cuboid", "triclinic", "growing"]))
        seed = data.draw(st.integers(0, 2**16))
        made = self.frames(n_frames, names, dtype, cell=kind, seed=seed)
        gaps = data.draw(st.lists(st.integers(1, 2**34) | st.just(1), min_size=n_frames, max_size=n_frames))
        steps = np.cumsum(np.array(gaps, np.int64)) + data.draw(st.sampled_from([-1, 0, 2**31 - 2, -(2**40), 2**60]))
        waits = data.draw(
            st.lists(st.sampled_from([0.0, 0.002, 0.25, 1e-9, 1e6]), min_size=n_frames, max_size=n_frames)
        )
        times: NDArray[np.float64] = np.cumsum(waits, dtype=np.float64) + data.draw(
            st.sampled_from([0.0, -3.0, 1e9 / 7])
        )
        cells: NDArray[np.float64] = made.cells
        if data.draw(st.booleans()):
            # edges that float32 does not hold in nm
            cells = (cells * (1.0 + 1.0 / 3.0)).astype(np.float64)
        if data.draw(st.booleans()):
            # as readers of other programs turn them: along other axes
            cells = cells[:, :, [1, 2, 0]]
        every = data.draw(st.booleans())
        return GivenFrames(
            made.fields,
            cells,
            steps if every else made.steps,
            times if data.draw(st.booleans()) else made.times,
            made.present,
        )
