"""Functions and kernels written in Python: the same results on every runner, exceptions as they were raised."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema import _core
from kinema.analysis.custom import Adapter
from kinema.execution.checkpoint.value_bytes import to_bytes
from kinema.testing.programs.imports import lazy

datafiles = lazy("MDAnalysisTests.datafiles")

RUNNERS = [("serial", None), ("threads", 2), ("threads", 5)]


@pytest.fixture(scope="module")
def traj() -> kn.Trajectory:
    return kn.open(datafiles.DCD, datafiles.PSF)


class Covariance(kn.analysis.PythonKernel):
    """Sums of coordinates and their products: a partial that merges."""

    def empty(self) -> Any:
        return [0, 0.0, 0.0]

    def accumulate(self, partial: Any, block: kn.Block) -> Any:
        for frame in block:
            x = frame.positions.ravel().astype(np.float64)
            partial = [partial[0] + 1, partial[1] + x, partial[2] + np.outer(x, x)]
        return partial

    def merge(self, left: Any, right: Any) -> Any:
        return [a + b for a, b in zip(left, right, strict=True)]

    def finish(self, partial: Any) -> Mapping[str, Any]:
        n, first, second = partial
        return {"mean": first / n, "covariance": second / n - np.outer(first / n, first / n)}


def end_to_end(frame: kn.Frame) -> float:
    return float(np.linalg.norm(frame.positions[-1] - frame.positions[0]))


@pytest.mark.parametrize(("runner", "workers"), RUNNERS)
def test_a_function_of_frames(traj: kn.Trajectory, runner: str, workers: int | None) -> None:
    frames = [5, 3, 90, 3]
    done = kn.analysis.from_function(end_to_end, traj, "name CA").run(frames=frames, runner=runner, workers=workers)
    positions = traj.read(frames=frames, select="name CA")
    np.testing.assert_array_equal(done.results.values, [np.linalg.norm(x[-1] - x[0]) for x in positions])
    np.testing.assert_array_equal(done.results.frames, frames)
    np.testing.assert_array_equal(done.results.time, traj.times[frames])


def test_a_function_of_blocks_sees_atoms_in_the_order_asked_for(traj: kn.Trajectory) -> None:
    atoms = [40, 7, 300]
    done = kn.analysis.from_function(lambda block: block.positions, traj, atoms, over="blocks").run(workers=3)
    np.testing.assert_array_equal(done.results.values, traj.read(select=atoms))


@pytest.mark.parametrize(("runner", "workers"), RUNNERS)
def test_a_kernel_has_the_same_bits_on_every_runner(traj: kn.Trajectory, runner: str, workers: int | None) -> None:
    atoms = list(range(0, 100, 10))
    expected = kn.analysis.Custom(traj, Covariance(), atoms).run(runner="serial").results
    found = kn.analysis.Custom(traj, Covariance(), atoms).run(runner=runner, workers=workers).results
    np.testing.assert_array_equal(found.covariance, expected.covariance)
    x = traj.read(select=atoms).reshape(98, -1).astype(np.float64)
    np.testing.assert_allclose(found.covariance, np.cov(x, rowvar=False, bias=True), atol=1e-8)


def test_together_with_a_kernel_in_rust(traj: kn.Trajectory) -> None:
    alone = kn.analysis.RMSD(traj, "name CA").run()
    rmsd, custom = kn.analysis.RMSD(traj, "name CA"), kn.analysis.from_function(end_to_end, traj, "name CA")
    kn.run([rmsd, custom], workers=2)
    np.testing.assert_array_equal(rmsd.results.rmsd, alone.results.rmsd)
    assert custom.results.values.shape == (98,)


@pytest.mark.parametrize("workers", [1, 3])
def test_an_exception_is_raised_as_it_was(traj: kn.Trajectory, workers: int) -> None:
    def fails(frame: kn.Frame) -> float:
        if frame.frame == 42:
            raise ZeroDivisionError("no good")
        return 1.0

    analysis = kn.analysis.from_function(fails, traj)
    with pytest.raises(ZeroDivisionError, match="no good") as raised:
        analysis.run(workers=workers)
    assert "42" in raised.value.__notes__[0]


class FailsToMerge(Covariance):
    def merge(self, left: Any, right: Any) -> Any:
        raise RuntimeError("cannot merge")


def test_an_exception_while_merging_is_raised(traj: kn.Trajectory) -> None:
    with pytest.raises(RuntimeError, match="cannot merge"):
        kn.analysis.Custom(traj, FailsToMerge(), [0]).run(workers=2)


def test_an_exception_while_partials_merge_leaves_none_that_seems_empty(traj: kn.Trajectory) -> None:
    atoms = np.array([0], np.uint32)
    kernel = _core.Kernel("python", traj.n_atoms, atoms=atoms, fields=["positions"], adapter=Adapter(FailsToMerge()))
    left, right = (kernel.from_bytes(to_bytes([number, 0.0, 0.0])) for number in (1, 2))
    with pytest.raises(RuntimeError, match="cannot merge"):
        left.merge(right)
    with pytest.raises(kn.ArgumentError, match="used up"):
        left.finish()


class Numbers(kn.analysis.PythonKernel):
    """The frames' numbers; fails to merge those from 40 on until there is a file."""

    def __init__(self, mended: Path) -> None:
        self.mended = str(mended)

    def empty(self) -> Any:
        return []

    def accumulate(self, partial: Any, block: kn.Block) -> Any:
        return partial + block.frames.tolist()

    def merge(self, left: Any, right: Any) -> Any:
        if left[0] == 40 and not os.path.exists(self.mended):
            raise RuntimeError("cannot merge")
        return left + right

    def finish(self, partial: Any) -> Mapping[str, Any]:
        return {"numbers": partial}


def test_leaves_that_failed_to_merge_are_run_again(traj: kn.Trajectory, tmp_path: Path) -> None:
    kernel, checkpoint = Numbers(tmp_path / "mended"), tmp_path / "run.checkpoint"
    with pytest.raises(RuntimeError, match="cannot merge"):
        kn.analysis.Custom(traj, kernel, [0]).run(workers=1, checkpoint=checkpoint)
    (tmp_path / "mended").touch()
    again = kn.analysis.Custom(traj, kernel, [0]).run(workers=1, checkpoint=checkpoint)
    assert again.timings.frames_restored == 40
    assert again.results.numbers == list(range(98))


def test_wrong_results_are_refused(traj: kn.Trajectory) -> None:
    with pytest.raises(kn.ArgumentError, match="one row a frame"):
        kn.analysis.from_function(lambda block: 1.0, traj, over="blocks").run()
    with pytest.raises(kn.ArgumentError, match="callable"):
        kn.analysis.from_function(3, traj)  # type: ignore[arg-type]
    with pytest.raises(kn.ArgumentError, match="returned None"):
        kn.analysis.from_function(lambda frame: None, traj).run()


@pytest.mark.parametrize("frames", [None, list(range(98)) * 6])
def test_values_of_several_shapes_are_refused(traj: kn.Trajectory, frames: list[int] | None) -> None:
    # one frame a leaf, and several
    analysis = kn.analysis.from_function(lambda frame: frame.positions[: 1 + frame.frame // 50, 0], traj)
    with pytest.raises(kn.ArgumentError, match=r"one shape for all frames, expected \(1,\), found \(2,\)"):
        analysis.run(frames=frames, workers=1)


def test_what_cannot_be_sent_is_refused_with_the_way_out(traj: kn.Trajectory) -> None:
    lock = threading.Lock()

    def held(frame: kn.Frame) -> bool:
        return lock.locked()

    with pytest.raises(kn.ArgumentError, match=r"held cannot be sent to workers .*lock.*runner='threads'"):
        kn.analysis.from_function(held, traj).run(runner="processes", workers=2)
    assert not kn.analysis.from_function(held, traj).run(runner="threads", workers=2).results.values.any()


def test_a_function_of_a_module_runs_on_processes(tmp_path: Any) -> None:
    (tmp_path / "quantities.py").write_text(
        "import numpy as np\n\n\ndef span(frame):\n    return np.ptp(frame.positions, axis=0)\n"
        "\n\ndef fails(frame):\n    raise KeyError('frame')\n"
        "\n\nclass Odd(Exception):\n    def __init__(self, what, why):\n        super().__init__(what)\n"
        "\n\ndef fails_oddly(frame):\n    raise Odd('such', 'so')\n"
    )
    code = (
        "import kinema as kn, numpy as np, quantities\n"
        f"traj = kn.open({datafiles.DCD!r})\n"
        "on = {r: kn.analysis.from_function(quantities.span, traj, [1, 5, 9]).run(runner=r, workers=2).results.values\n"
        "      for r in ('threads', 'processes')}\n"
        "assert (on['threads'] == on['processes']).all() and on['threads'].shape == (98, 3)\n"
        "try:\n"
        "    kn.analysis.from_function(quantities.fails, traj).run(runner='processes', workers=2)\n"
        "except KeyError as error:\n"
        "    print('raised', error)\n"
        # an exception that cannot be unpickled: its text has to do, and the line where it was raised
        "try:\n"
        "    kn.analysis.from_function(quantities.fails_oddly, traj).run(runner='processes', workers=2)\n"
        "except kn.InternalError as error:\n"
        "    print(error, 'in fails_oddly' in error.__notes__[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "raised 'frame'\nOdd in a worker process: such True\n"


def test_values_are_saved_as_columns(traj: kn.Trajectory, tmp_path: Any) -> None:
    done = kn.analysis.from_function(lambda frame: frame.positions[0], traj, [0]).run(stop=3)
    done.save(tmp_path / "values.csv")
    assert "frame,time (ps),value_0 (1),value_1 (1),value_2 (1)" in (tmp_path / "values.csv").read_text()


def shape_of(frame: kn.Frame) -> dict[str, Any]:
    centred = frame.positions - frame.positions.mean(axis=0)
    return {"rg": float(np.sqrt((centred**2).sum() / len(centred))), "centre": frame.positions.mean(axis=0), "n": 3}


@pytest.mark.parametrize("runner", ["serial", "threads", "processes"])
def test_a_dict_is_results_by_name(traj: kn.Trajectory, tmp_path: Path, runner: str) -> None:
    done = kn.analysis.from_function(shape_of, traj, "name CA").run(stop=7, runner=runner)
    positions = traj.read(frames=range(7), select="name CA")
    np.testing.assert_allclose(done.results.centre, positions.mean(axis=1), rtol=1e-6)
    assert done.results.rg.shape == done.results.n.shape == done.results.time.shape == (7,)
    assert done.results.n.dtype.kind == "i" and done.results.values.dtype.names == ("rg", "centre", "n")
    done.save(tmp_path / "shape.csv")
    head = "frame,time (ps),rg (1),centre_0 (1),centre_1 (1),centre_2 (1),n (1)"
    lines = (tmp_path / "shape.csv").read_text().splitlines()
    assert head in lines and lines[-1].endswith(",3")


def test_blocks_by_name_and_checkpoints(traj: kn.Trajectory, tmp_path: Path) -> None:
    def ends(block: kn.Block) -> dict[str, Any]:
        return {"first": block.positions[:, 0], "last": block.positions[:, -1]}

    done = kn.analysis.from_function(ends, traj, [0, 5], over="blocks").run(checkpoint=tmp_path / "a.checkpoint")
    np.testing.assert_array_equal(done.results.last, traj.read(select=[5])[:, 0])
    with pytest.raises(kn.ArgumentError, match="are not written to a file of results"):
        kn.analysis.from_function(ends, traj, [0, 5], over="blocks").run(out=tmp_path / "a.h5")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda frame: {"time": 1.0}, "a dict with 'time', expected names, and none of frames, time, values"),
        (lambda frame: {1: 1.0}, "a dict with 1, expected names"),
        (lambda frame: {"word": "x"}, "whose word is neither a number"),
        (lambda frame: {}, "an empty dict"),
        (lambda frame: {"a": 1.0} if frame.frame < 50 else {"b": 1.0}, r"expected {'a': \(\)}, found {'b': \(\)}"),
        (lambda frame: {"a": 1.0} if frame.frame < 50 else 1.0, r"expected {'a': \(\)}, found \(\)"),
    ],
)
@pytest.mark.parametrize("frames", [None, list(range(98)) * 6])
def test_dicts_that_are_no_results_are_refused(
    traj: kn.Trajectory, function: Any, message: str, frames: list[int] | None
) -> None:
    with pytest.raises(kn.ArgumentError, match=message):
        kn.analysis.from_function(function, traj).run(frames=frames, workers=1)


def test_exceptions_name_the_frame(traj: kn.Trajectory) -> None:
    def fails(frame: kn.Frame) -> float | None:
        if frame.frame == 61:
            raise ValueError("no good")
        return None if frame.frame == 33 else 1.0

    for runner in ("serial", "processes"):
        for frames, error in (([1, 33, 5], kn.ArgumentError), (slice(40, None), ValueError)):
            with pytest.raises(error) as raised:
                kn.analysis.from_function(fails, traj).run(frames=frames, runner=runner, workers=1)
            (note,) = [one for one in raised.value.__notes__ if one.startswith("raised by ")]
            assert note.endswith("fails in frame 33" if error is kn.ArgumentError else "fails in frame 61")
