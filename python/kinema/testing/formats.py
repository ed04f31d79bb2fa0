"""`FormatTests`: the conformance suite of formats. A subclass in a test module writes files of its format."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinema as kn
from kinema.model.frame import WORKING_MEMORY, frame_bytes
from kinema.testing.amounts import each
from kinema.testing.changes import ChangedFileTests
from kinema.testing.recording import open_recorded
from kinema.testing.strategies import atom_choices, examples_of_files, frame_choices, trajectories
from kinema.testing.synthetic import Synthetic, random_walk
from kinema.trajectory.opening import files_stay


@dataclass(frozen=True, eq=False)
class Golden:
    """A file with values that independent programs read from it.

    `positions` (frames, atoms, 3) float32 in angstrom, `times` (frames,) in ps; `tolerance` in angstrom.
    """

    path: Path
    positions: NDArray[np.float32]
    times: NDArray[np.float64] | None = None
    cells: NDArray[np.float32] | None = None
    tolerance: float = 0.0


def _opened(*args: Any, **options: Any) -> Any:
    """As `kinema.open`, but if nothing is stored, it does not wait for a file that was just written."""
    with files_stay():
        return kn.open(*args, **options)


class FormatTests(ChangedFileTests):
    """Subclass it with `suffix`, `write` and `golden_files`; change `index` for formats without arithmetic index."""

    #: of the files that `write` makes
    suffix = ""
    #: value of `Part.index`: "arithmetic" or "structure", or "table" for an index that is stored
    index = "arithmetic"
    #: whether the complete frames of a truncated file can be read: not if a library checks the file's end
    reads_cut_files = True
    #: whether the bytes of a frame are contiguous
    frames_lie_alone = True
    #: whether Kinema reads the bytes itself; if another library does, it decides which bytes it reads
    reads_bytes = True
    #: whether each frame states which fields it has
    may_lack_fields = False
    #: angstrom by which positions of a file may differ from those written, which are rounded to 0.01
    tolerance = 1e-5
    #: share of their value by which velocities of a file may differ from those written
    velocity_tolerance = 0.0
    #: atoms of the small files
    n_atoms = 12

    def write(self, path: Path, positions: NDArray[np.float32], first_step: int) -> None:
        """Writes positions (frames, atoms, 3) in angstrom; frame i gets step and time (ps) `first_step + i`."""
        raise NotImplementedError("a subclass of FormatTests writes files of its format")

    def write_synthetic(self, path: Path, made: Synthetic) -> tuple[bool, bool]:
        """Writes as much of a trajectory as the format holds; returns whether that includes cells, and velocities."""
        raise NotImplementedError("a subclass of FormatTests writes files of its format")

    def golden_files(self) -> list[Golden]:
        """Files with golden values."""
        raise NotImplementedError("a subclass of FormatTests names its golden files")

    # -- values -------------------------------------------------------------------------------------------------

    def test_golden_values(self) -> None:
        for golden in self.golden_files():
            traj = kn.open(golden.path, stored=False)
            found = traj.read(fields=["positions"])
            assert found["positions"].shape == golden.positions.shape
            np.testing.assert_allclose(found["positions"], golden.positions, rtol=0, atol=golden.tolerance)
            if golden.times is not None:
                np.testing.assert_allclose(found["times"], golden.times, rtol=1e-6)
                np.testing.assert_allclose(traj.times, golden.times, rtol=1e-6)
            if golden.cells is not None:
                np.testing.assert_allclose(found["cells"], golden.cells, rtol=1e-5, atol=1e-3)

    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        positions, traj = self._made(tmp_path, 7)
        assert (traj.n_frames, traj.n_atoms, len(traj)) == (7, self.n_atoms, 7)
        found = traj.read(fields=["positions"])
        np.testing.assert_allclose(found["positions"], positions, rtol=0, atol=self.tolerance)
        np.testing.assert_array_equal(found["frames"], np.arange(7))
        np.testing.assert_array_equal(np.diff(found["steps"]), np.ones(6))
        np.testing.assert_allclose(np.diff(found["times"]), np.ones(6), rtol=1e-5)

    @pytest.mark.parametrize("seed", range(10))
    def test_part_is_slice_of_whole(self, tmp_path: Path, seed: int) -> None:
        _, traj = self._made(tmp_path, 23)
        whole = traj.read()
        random = np.random.default_rng(seed)
        frames = random.integers(-23, 23, random.integers(1, 40))
        atoms = random.integers(0, self.n_atoms, random.integers(1, 2 * self.n_atoms))
        workers = int(random.integers(1, 5))
        np.testing.assert_array_equal(traj.read(frames=frames, select=atoms, workers=workers), whole[frames][:, atoms])
        mask = random.random(23) < 0.5
        np.testing.assert_array_equal(traj.read(frames=mask, select=np.unique(atoms)), whole[mask][:, np.unique(atoms)])
        double = traj.read(frames=frames, dtype="float64")
        assert double.dtype == np.float64
        np.testing.assert_allclose(double, whole[frames], rtol=1e-6, atol=1e-6)

    # each example rewrites its file, so that all can use one folder; each subclass runs the test by itself, and no
    # failing example is stored for another
    @settings(
        deadline=None,
        database=None,
        max_examples=examples_of_files(),
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(data=st.data())
    def test_any_trajectory_and_any_choice(self, tmp_path: Path, data: st.DataObject) -> None:
        made = data.draw(trajectories())
        path = tmp_path / f"any{self.suffix}"
        cells, velocities = self.write_synthetic(path, made)
        traj = _opened(path, stored=False)
        n_frames, n_atoms, _ = made.positions.shape
        frames, atoms = data.draw(frame_choices(n_frames)), data.draw(atom_choices(n_atoms))
        chosen = slice(None) if frames is None else frames
        columns = slice(None) if atoms is None else atoms
        names = ["positions", "velocities"] if velocities and made.velocities is not None else ["positions"]
        found = traj.read(frames, atoms, fields=names, workers=data.draw(st.integers(1, 3)))
        expected = made.positions[chosen][:, columns]
        np.testing.assert_allclose(found["positions"], expected, rtol=0, atol=self.tolerance)
        if len(names) > 1:
            assert made.velocities is not None
            expected = made.velocities[chosen][:, columns]
            np.testing.assert_allclose(found["velocities"], expected, rtol=self.velocity_tolerance, atol=0)
        assert found["present"].dtype.names == (*names, "cells")
        assert all(found["present"][name].all() for name in names)
        assert found["cells"].dtype == np.float64
        if cells:
            np.testing.assert_allclose(found["cells"], made.cells[chosen], rtol=0, atol=1e-3)
            np.testing.assert_array_equal(found["present"]["cells"], found["cells"].any(axis=(1, 2)))
        else:
            assert not found["cells"].any()
            assert not found["present"]["cells"].any()

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_atoms_are_given_in_the_order_that_was_asked_for(self, tmp_path: Path, dtype: str) -> None:
        _, traj = self._made(tmp_path, 23)
        order = [7, 2, 2, 8, 0, 7]
        (tmp_path / "index.ndx").write_text(f"[ order ]\n{' '.join(str(atom + 1) for atom in order)}\n")
        whole = traj.read(dtype=dtype)[:, order]
        for select in (order, np.array(order, np.int16), traj.select(index_file=tmp_path / "index.ndx")):
            np.testing.assert_array_equal(traj.read(select=select, dtype=dtype), whole)
            np.testing.assert_array_equal(traj.read([5, 3, 3], select, dtype=dtype), whole[[5, 3, 3]])
            memory = WORKING_MEMORY + 16 * frame_bytes(len(order), 1, 8)
            for block in traj.blocks(memory=memory, select=select, dtype=dtype):
                np.testing.assert_array_equal(block.positions, whole[block.frames.astype(np.int64)])
        # analyses see the frames in this order as well; Kinema's own analyses refuse an atom that is named twice
        seen = kn.analysis.from_function(lambda frame: frame.positions, traj, order).run()
        np.testing.assert_array_equal(seen.results.values, traj.read(select=order))

    def test_rules_for_absent_quantities_are_those_of_all_formats(self, tmp_path: Path) -> None:
        _, traj = self._made(tmp_path, 5)
        rules: list[dict[str, Any]] = [{"absent": "nan"}, {"absent": "hold"}]
        if not self.may_lack_fields:
            rules.append({"axis": "positions"})
        for options in rules:
            same = _opened(traj.paths[0], stored=False, **options)
            np.testing.assert_array_equal(same.read(), traj.read())
            assert dict(same.stated) == options
        missing = next(name for name in ("forces", "velocities") if name not in traj.fields)
        refused = "axis is not for" if self.may_lack_fields else f"has no {missing} for axis=, only positions"
        with pytest.raises(kn.ArgumentError, match=refused):
            kn.open(traj.paths[0], axis=missing)
        with pytest.raises(kn.ArgumentError, match="absent"):
            kn.open(traj.paths[0], absent="zero")

    def test_few_atoms_of_a_frame_touch_its_bytes_only(self, tmp_path: Path) -> None:
        if not self.reads_bytes:
            pytest.skip("another library reads the file")
        path = tmp_path / f"large{self.suffix}"
        positions = random_walk(9, 20_000)
        self.write(path, positions, 0)
        traj = open_recorded(path)
        traj.scan()
        traj.take_reads()
        atoms = np.arange(100, 110)
        np.testing.assert_allclose(traj.read(frames=[7], select=atoms)[0], positions[7, atoms], atol=self.tolerance)
        reads = traj.take_reads()
        frame = path.stat().st_size / 9
        assert sum(length for _, _, length in reads) < frame / 4
        if self.frames_lie_alone:
            begin = min(offset for _, offset, _ in reads)
            end = max(offset + length for _, offset, length in reads)
            # headers before the first frame, and frames that differ a little in size
            assert 6.8 * frame < begin < end < 8.2 * frame

    @pytest.mark.parametrize(("dtype", "atoms"), each(("float32", "float64"), (None, [7, 2, 5])))
    def test_any_order_reads_what_the_sorted_one_does(
        self, tmp_path: Path, dtype: str, atoms: list[int] | None
    ) -> None:
        path = tmp_path / f"made{self.suffix}"
        self.write(path, random_walk(600, self.n_atoms), 0)
        traj = open_recorded(path)
        traj.scan()
        shuffled = np.random.default_rng(5).permutation(np.r_[:600, 17, 17])
        for frames in (shuffled, shuffled[:150]):
            # with memory for a few frames at a time, and for all of them
            for memory in (WORKING_MEMORY + 40 * frame_bytes(self.n_atoms, 1, 8), None):
                how: dict[str, Any] = {"select": atoms, "fields": ["positions"], "dtype": dtype, "memory": memory}
                traj.take_reads()
                expected = traj.read(np.sort(frames), workers=1, **how)
                sorted_reads = traj.take_reads()
                found = traj.read(frames, workers=1, **how)
                shuffled_reads = traj.take_reads()
                # sequentially through the file, and not one byte more than for the sorted request
                assert bool(sorted_reads) == self.reads_bytes
                offsets = [offset for _, offset, _ in shuffled_reads]
                assert offsets == sorted(offsets)
                assert sum(n for *_, n in shuffled_reads) <= sum(n for *_, n in sorted_reads)
                places = np.argsort(frames, kind="stable")
                for name, values in found.items():
                    np.testing.assert_array_equal(values[places], expected[name])
                for name, values in traj.read(frames, workers=3, **how).items():
                    np.testing.assert_array_equal(values, found[name])

    @pytest.mark.parametrize(
        "key", [slice(None, None, -1), slice(20, 3, -4), slice(-3, None), slice(5, 5), slice(1, 99, 7)]
    )
    def test_slices(self, tmp_path: Path, key: slice) -> None:
        _, traj = self._made(tmp_path, 23)
        whole = traj.read()
        np.testing.assert_array_equal(traj.read(frames=key), whole[key])
        view = traj[key]
        assert len(view) == len(whole[key])
        np.testing.assert_array_equal(view.read(), whole[key])
        np.testing.assert_array_equal(view.times, traj.times[key])
        np.testing.assert_array_equal(view[::-1].read(), whole[key][::-1])
        for frame, expected in zip(view, whole[key], strict=True):
            np.testing.assert_array_equal(frame.positions, expected)

    def test_out_is_filled(self, tmp_path: Path) -> None:
        _, traj = self._made(tmp_path, 5)
        out = np.full((5, self.n_atoms, 3), np.nan, dtype=np.float32)
        assert traj.read(out=out) is out
        np.testing.assert_array_equal(out, traj.read())

    def test_blocks_are_the_whole(self, tmp_path: Path) -> None:
        _, traj = self._made(tmp_path, 23)
        needed = frame_bytes(self.n_atoms, 1, 4)
        blocks = list(traj.blocks(memory=WORKING_MEMORY + 16 * needed))
        assert [len(block) for block in blocks] == [5, 5, 5, 5, 3]
        np.testing.assert_array_equal(np.concatenate([block.positions for block in blocks]), traj.read())
        np.testing.assert_array_equal(np.concatenate([block.frames for block in blocks]), np.arange(23))
        with pytest.raises(kn.MemoryLimitError, match="raise memory="):
            traj.blocks(memory=WORKING_MEMORY)

    def test_many_readers_at_once(self, tmp_path: Path) -> None:
        _, traj = self._made(tmp_path, 23)
        whole = traj.read()

        def read(seed: int) -> bool:
            frames = np.random.default_rng(seed).integers(0, 23, 9)
            return bool(np.array_equal(traj.read(frames=frames, workers=2), whole[frames]))

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, range(64)))

    # -- parts --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("overlap", ["last", "first", "all"])
    def test_overlapping_parts(self, tmp_path: Path, overlap: str) -> None:
        first, second = random_walk(10, self.n_atoms, seed=1), random_walk(10, self.n_atoms, seed=2)
        paths = [tmp_path / f"part{i}{self.suffix}" for i in range(2)]
        self.write(paths[0], first, 0)
        self.write(paths[1], second, 6)
        traj = _opened(paths, overlap=overlap, stored=False)
        expected = {
            "last": np.concatenate([first[:6], second]),
            "first": np.concatenate([first, second[4:]]),
            "all": np.concatenate([first, second]),
        }[overlap]
        np.testing.assert_allclose(traj.read(), expected, rtol=0, atol=self.tolerance)
        assert sum(part.kept[1] - part.kept[0] for part in traj.parts) == len(expected) == len(traj)
        # nothing is missing; if all frames are kept, time goes back
        assert [gap.turns_back for gap in traj.gaps] == [True] * (overlap == "all")

    def test_gaps_are_reported(self, tmp_path: Path) -> None:
        paths = [tmp_path / f"part{i}{self.suffix}" for i in range(2)]
        self.write(paths[0], random_walk(4, self.n_atoms), 0)
        self.write(paths[1], random_walk(4, self.n_atoms), 9)
        traj = _opened(paths, stored=False)
        assert traj.n_frames == 8
        assert [(gap.part, gap.frame) for gap in traj.gaps] == [(1, 4)]

    # -- index --------------------------------------------------------------------------------------------------

    def test_grown_file_extends_the_index(self, tmp_path: Path) -> None:
        positions = random_walk(9, self.n_atoms)
        path = tmp_path / f"grows{self.suffix}"
        self.write(path, positions[:5], 0)
        assert kn.open(path).n_frames == 5
        self.write(path, positions, 0)
        traj = kn.open(path)
        assert traj.n_frames == 9
        np.testing.assert_allclose(traj.read(), positions, rtol=0, atol=self.tolerance)
        assert traj.parts[0].index == ("extended" if self.index == "table" else self.index)

    def test_wrong_index_is_never_used(self, tmp_path: Path) -> None:
        path = tmp_path / f"changes{self.suffix}"
        self.write(path, random_walk(9, self.n_atoms, seed=1), 0)
        stored = kn.open(path).parts[0].index_path
        other = random_walk(6, self.n_atoms, seed=2)
        self.write(path, other, 0)  # another file of the same name
        np.testing.assert_allclose(kn.open(path).read(), other, rtol=0, atol=self.tolerance)
        if self.index != "table":
            return
        assert stored is not None
        for damage in (b"", b"not an index", Path(stored).read_bytes()[:-9], self._flipped(Path(stored), 40)):
            Path(stored).write_bytes(damage)
            np.testing.assert_allclose(kn.open(path).read(), other, rtol=0, atol=self.tolerance)

    def test_stored_index_is_used(self, tmp_path: Path) -> None:
        if self.index != "table":
            pytest.skip("the format needs no stored index")
        self._made(tmp_path, 9, stored=True)[1].scan()
        again = kn.open(tmp_path / f"made{self.suffix}")
        assert again.parts[0].index == "stored"
        assert len(again.read()) == 9

    # -- damage -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("on_truncated", ["error", "drop"])
    def test_truncation(self, tmp_path: Path, on_truncated: str) -> None:
        if not self.reads_bytes:
            pytest.skip("another library reads the file, and says what is complete")
        _positions, traj = self._made(tmp_path, 3)
        whole = traj.read()
        data = (tmp_path / f"made{self.suffix}").read_bytes()
        path = tmp_path / f"cut{self.suffix}"
        path.write_bytes(data)
        dropped, lengths = 0, self._lengths(traj, len(data))
        for length in lengths:
            os.truncate(path, length)
            try:
                found = _opened(path, on_truncated=on_truncated, stored=False).read(workers=1)
            except kn.Error as error:
                assert "\n" not in str(error)
                assert str(path) in str(error)
            else:
                assert len(found) < 3
                np.testing.assert_array_equal(found, whole[: len(found)])
                dropped += 1
        if on_truncated == "drop" and self.reads_cut_files:
            assert dropped > len(lengths) // 2

    def test_bit_flips(self, tmp_path: Path) -> None:
        self._made(tmp_path, 3)
        source, path = tmp_path / f"made{self.suffix}", tmp_path / f"flipped{self.suffix}"
        for seed in range(self._n_damaged()):
            # some file systems flush a file that is overwritten
            path.unlink(missing_ok=True)
            path.write_bytes(self._flipped(source, seed))
            try:
                traj = _opened(path, stored=False)
                found = traj.read(workers=1, memory="64 MiB") if traj.n_atoms < 1000 else None
            except kn.InternalError:
                raise
            except kn.Error as error:
                assert "\n" not in str(error)
            else:
                assert found is None or found.shape[2] == 3

    def test_what_is_no_trajectory(self, tmp_path: Path) -> None:
        path = tmp_path / f"wrong{self.suffix}"
        for content in (b"", b"\0" * 300, b"this is a letter, not a trajectory\n" * 30, os.urandom(500)):
            path.write_bytes(content)
            with pytest.raises(kn.Error):
                _opened(path, stored=False).read()

    # -- inside -------------------------------------------------------------------------------------------------

    def _n_damaged(self) -> int:
        """Number of damaged files to try: fewer if another process checks each beforehand, as for HDF5."""
        return (1 if self.index == "structure" else 3) * examples_of_files()

    def _lengths(self, traj: Any, size: int) -> list[int]:
        """Lengths of a truncated file, from the longest: around the ends of frames, and any; all in a long run."""
        places = [traj.core.locate(frame) for frame in range(traj.n_frames)]
        ends = {0, size, *(at for _, _, offset, length in places for at in (offset, offset + length))}
        around = {at + shift for at in ends for shift in range(-8, 9)}
        drawn = np.random.default_rng(0).choice(size, min(size, self._n_damaged()), replace=False)
        return sorted((around | set(drawn.tolist())) & set(range(size)), reverse=True)

    def _made(self, folder: Path, n_frames: int, stored: bool = False) -> tuple[NDArray[np.float32], Any]:
        positions = random_walk(n_frames, self.n_atoms)
        path = folder / f"made{self.suffix}"
        self.write(path, positions, 0)
        return positions, _opened(path, stored=stored)

    def _flipped(self, path: Path, seed: int) -> bytes:
        data = bytearray(path.read_bytes())
        random = np.random.default_rng(seed)
        # headers are short and matter most
        place = int(random.integers(0, len(data) if seed % 2 else min(len(data), 300)))
        data[place] ^= 1 << int(random.integers(0, 8))
        return bytes(data)
