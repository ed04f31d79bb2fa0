"""`KernelTests`: the conformance suite of kernels. A subclass in a test module makes the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import Error
from kinema.model.selection.frames import FrameSelection
from kinema.testing.synthetic import random_walk
from kinema.testing.writers import write_dcd

Job = tuple[_core.Kernel, Sequence[_core.Transform]]


class KernelTests:
    """Subclass it and define `jobs`."""

    #: False: results of one atom, or of atoms at one place, may be nan
    defined_for_one_atom = True
    #: lengths of a rectangular cell in angstrom, for kernels that need one
    cell: tuple[float, float, float] | None = None
    #: whether results depend on the order of frames by more than rounding
    depends_on_order = False

    def jobs(self, reference: NDArray[np.float64]) -> list[Job]:
        """Kernels with transforms for a trajectory of `len(reference)` atoms; `reference` (atoms, 3) in angstrom."""
        raise NotImplementedError("a subclass of KernelTests makes its kernels")

    @pytest.mark.parametrize("n_frames", [1, 2, 63, 500])
    def test_same_bits_for_every_worker_count(self, tmp_path: Path, n_frames: int) -> None:
        trajectory, jobs = self._made(tmp_path, n_frames, 30)
        expected = [partial.finish() for partial in _run(trajectory, n_frames, jobs, workers=1)]
        for workers in (2, 3, 7):
            for memory in (0, 8 << 20):
                partials = _run(trajectory, n_frames, jobs, workers=workers, memory=memory)
                for partial, values in zip(partials, expected, strict=True):
                    _assert_same(partial.finish(), values)

    def test_bytes_round_trip(self, tmp_path: Path) -> None:
        trajectory, jobs = self._made(tmp_path, 40, 30)
        for (kernel, _), partial in zip(jobs, _run(trajectory, 40, jobs), strict=True):
            data = partial.to_bytes()
            again = kernel.from_bytes(data)
            assert again.id == partial.id == kernel.id
            assert again.to_bytes() == data
            _assert_same(again.finish(), partial.finish())

    def test_damaged_bytes_are_refused(self, tmp_path: Path) -> None:
        trajectory, jobs = self._made(tmp_path, 5, 30)
        for (kernel, _), partial in zip(jobs, _run(trajectory, 5, jobs), strict=True):
            data = partial.to_bytes()
            for wrong in (b"", data[: len(data) // 2], b"x" * 64):
                with pytest.raises(Error):
                    kernel.from_bytes(wrong)

    def test_empty_is_neutral(self, tmp_path: Path) -> None:
        trajectory, jobs = self._made(tmp_path, 40, 30)
        expected = [partial.finish() for partial in _run(trajectory, 40, jobs)]
        after, before = _run(trajectory, 40, jobs), _run(trajectory, 40, jobs)
        for number, (kernel, _) in enumerate(jobs):
            after[number].merge(kernel.empty())
            _assert_same(after[number].finish(), expected[number])
            start = kernel.empty()
            start.merge(before[number])
            _assert_same(start.finish(), expected[number])

    def test_halves_make_the_whole(self, tmp_path: Path) -> None:
        trajectory, jobs = self._made(tmp_path, 41, 30)
        expected = [partial.finish() for partial in _run(trajectory, 41, jobs)]
        early = _run(trajectory, FrameSelection(range(17)), jobs)
        late = _run(trajectory, FrameSelection(range(17, 41)), jobs)
        for first, second, values in zip(early, late, expected, strict=True):
            first.merge(second)
            for name, found in first.finish().items():
                np.testing.assert_allclose(found, values[name], rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize(("n_frames", "n_atoms"), [(1, 30), (5, 1), (1, 1)])
    def test_one_frame_and_one_atom(self, tmp_path: Path, n_frames: int, n_atoms: int) -> None:
        trajectory, jobs = self._made(tmp_path, n_frames, n_atoms)
        for partial in _run(trajectory, n_frames, jobs):
            for values in partial.finish().values():
                assert np.isfinite(values).all() or not self.defined_for_one_atom
                assert not np.isinf(values).any()

    def test_several_in_one_pass_equal_each_alone(self, tmp_path: Path) -> None:
        trajectory, jobs = self._made(tmp_path, 90, 30)
        jobs = [*jobs, *self.jobs(random_walk(2, 30, seed=5)[1].astype(np.float64))]
        of_one_pass = _run(trajectory, 90, jobs, workers=3)
        for job, partial in zip(jobs, of_one_pass, strict=True):
            _assert_same(_run(trajectory, 90, [job])[0].finish(), partial.finish())

    def test_frames_in_any_order(self, tmp_path: Path) -> None:
        if self.depends_on_order:
            pytest.skip("its results depend on the order of frames")
        trajectory, jobs = self._made(tmp_path, 30, 30)
        order = FrameSelection(np.random.default_rng(3).permutation(30).astype(np.uint64))
        for partial, whole in zip(_run(trajectory, order, jobs), _run(trajectory, 30, jobs), strict=True):
            values, expected = partial.finish(), whole.finish()
            first = expected.pop("first_row", None)
            if first is not None:
                rows = [np.arange(first[frame], first[frame + 1]) for frame in order.numbers()]
                np.testing.assert_array_equal(np.diff(values.pop("first_row")), list(map(len, rows)))
                expected = {name: found[np.concatenate(rows)] for name, found in expected.items() if name != "time"} | {
                    "time": expected["time"]
                }
            for name in values:
                # per-frame results come in the order asked for; over frames the order affects the last bits only
                per_frame = "time" in values and (name == "time" or (first is None and name == "values"))
                wanted = expected[name][order.numbers()] if per_frame else expected[name]
                np.testing.assert_allclose(values[name], wanted, rtol=1e-9, atol=1e-9)

    def _made(self, folder: Path, n_frames: int, n_atoms: int) -> tuple[_core.Trajectory, list[Job]]:
        positions = random_walk(n_frames, n_atoms)
        path = folder / f"{n_frames}x{n_atoms}.dcd"
        write_dcd(path, positions, cell=self.cell)
        return _core.Trajectory([str(path)], index="memory"), self.jobs(positions[0].astype(np.float64))


def _run(
    trajectory: _core.Trajectory, frames: int | FrameSelection, jobs: Sequence[Job], workers: int = 1, memory: int = 0
) -> list[_core.Partial]:
    """The partials of all leaves. `frames`: the first n frames, or a choice of frames."""
    selected = FrameSelection(range(frames)) if isinstance(frames, int) else frames
    plan = _core.Plan(trajectory, selected, jobs, memory=memory, workers=workers)
    ((_, _, partials),), _ = _core.run_leaves(trajectory, plan, jobs, 0, plan.n_leaves)
    return partials


def _assert_same(found: dict[str, NDArray[Any]], expected: dict[str, NDArray[Any]]) -> None:
    assert found.keys() == expected.keys()
    for name, values in found.items():
        assert (values.dtype, values.shape) == (expected[name].dtype, expected[name].shape), name
        assert values.tobytes() == expected[name].tobytes(), name
