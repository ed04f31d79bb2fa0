"""First passes of all three transforms that need one: kept, used again, continued when files have grown."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import kinema as kn
from kinema import transforms
from kinema.cli.options.analyses import remove_checkpoints_of_passes
from kinema.execution.checkpoint import Checkpoint
from kinema.execution.run import run
from kinema.testing.programs.children import start_child
from kinema.transforms.first_passes.base import FirstPass
from kinema.transforms.first_passes.kinds import EdgeSums, JumpCounts, Rotations
from kinema.transforms.first_passes.making import stations_of
from kinema.transforms.pbc_words import Asked

N_FRAMES, N_ATOMS = 400, 7
CELL = np.array([[31.0, 2.0, 1.0], [11.0, 29.0, 3.0], [-7.0, 5.0, 23.0]])
MADE = {
    "nojump": transforms.nojump,
    "displacement": transforms.displacement,
    "superpose": lambda **options: transforms.superpose(reference="previous", **options),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for made in (JumpCounts, EdgeSums, Rotations):
        monkeypatch.setattr(made, "least", 16)


def walk() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(24)
    cells = CELL * (1 + 0.03 * np.sin(np.arange(N_FRAMES)))[:, None, None]
    return np.cumsum(rng.uniform(-0.3, 0.3, (N_FRAMES, N_ATOMS, 3)), axis=0) % 1.0 @ cells, cells


def write(path: Path, start: int = 0, stop: int = N_FRAMES) -> Path:
    positions, cells = walk()
    with kn.Writer(path, N_ATOMS, overwrite=True) as writer:
        numbers = np.arange(start, stop)
        writer.write(positions[start:stop], cell=cells[start:stop], step=numbers, time=numbers.astype(float))
    return path


def read(paths: Any, name: str, *, stored: bool = True, **options: Any) -> tuple[NDArray[Any], list[int]]:
    """All frames after the transform, and the number of frames of its first pass."""
    totals: list[int] = []
    made = MADE[name](progress=lambda done, total: totals.append(total), **options)
    found = kn.open(paths, stored=stored).with_transform(made).read()
    return found, sorted(set(totals))


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("ending", ["trr", "h5md"])
def test_the_second_time_there_is_no_pass(tmp_path: Path, name: str, ending: str) -> None:
    path = write(tmp_path / f"walk.{ending}")
    expected, totals = read(path, name)
    assert totals == [N_FRAMES]
    for again, none in ((read(path, name), []), (read(path, name, stored=False), [N_FRAMES])):
        assert_array_equal(again[0], expected)
        assert again[1] == none
    # less memory has fewer stations, and the same bits
    thinner, none = read(path, name, memory="6 MiB")
    assert_array_equal(thinner, expected)
    assert none == []
    # of other frames before, and of a file that was changed in place
    moved = kn.open(path).with_transform(
        transforms.center([0]) if name == "superpose" else transforms.whole(bonds=[[0, 1]])
    )
    totals = []
    moved.with_transform(MADE[name](progress=lambda done, total: totals.append(total)))
    assert set(totals) == {N_FRAMES}
    os.utime(path)
    assert read(path, name)[1] == [N_FRAMES]


@pytest.mark.parametrize("ending", ["trr", "h5md"])
def test_a_file_that_was_put_in_place_of_the_opened_one_gets_no_stations_of_it(tmp_path: Path, ending: str) -> None:
    path, other = write(tmp_path / f"walk.{ending}"), tmp_path / f"other.{ending}"
    positions, cells = walk()
    with kn.Writer(other, N_ATOMS) as writer:
        writer.write(positions[:, ::-1], cell=cells, step=np.arange(N_FRAMES), time=np.arange(N_FRAMES) * 1.0)
    asked, frames = transforms.nojump(), [90, 399]
    opened = kn.open(path)
    opened.scan()
    os.replace(other, path)
    expected = kn.open(path, stored=False).with_transform(asked).read(frames)
    # nothing is read of the file that was opened, and nothing of it is kept for the other one
    with pytest.raises(kn.CorruptFileError, match="another file has its name"):
        opened.with_transform(asked).read(frames)
    assert_array_equal(kn.open(path).with_transform(asked).read(frames), expected)


def test_files_that_an_hdf5_file_draws_in_count(tmp_path: Path) -> None:
    write(tmp_path / "other.h5md")
    with h5py.File(write(tmp_path / "walk.h5md"), "a") as file:
        group = next(iter(file["particles"].values()))
        place = f"{group.name}/position/value"
        del file[place]
        file[place] = h5py.ExternalLink("other.h5md", place)
    expected, totals = read(tmp_path / "walk.h5md", "nojump")
    assert totals == [N_FRAMES]
    assert read(tmp_path / "walk.h5md", "nojump")[1] == []
    # libhdf5 may still have the old one open
    with h5py.File(write(tmp_path / "new.h5md"), "a") as file:
        values = file[place]
        values[...] = values[...][:, ::-1]
    gc.collect()
    os.replace(tmp_path / "new.h5md", tmp_path / "other.h5md")
    found, totals = read(tmp_path / "walk.h5md", "nojump")
    assert totals == [N_FRAMES]
    assert_array_equal(found, read(tmp_path / "walk.h5md", "nojump", stored=False)[0])
    assert np.abs(found - expected).max() > 1
    # one that is not there any more, and that nothing is read of
    with h5py.File(write(tmp_path / "named.h5md"), "a") as file:
        file["another"] = h5py.ExternalLink("other.h5md", place)
    assert [read(tmp_path / "named.h5md", "nojump")[1] for _ in range(2)] == [[N_FRAMES], []]
    (tmp_path / "other.h5md").unlink()
    assert read(tmp_path / "named.h5md", "nojump")[1] == [N_FRAMES]


@pytest.mark.parametrize("name", MADE)
def test_of_a_file_that_has_grown_the_rest_is_read(tmp_path: Path, name: str) -> None:
    path, whole = tmp_path / "grows.trr", write(tmp_path / "whole.trr").read_bytes()
    frame = len(whole) // N_FRAMES
    assert frame * N_FRAMES == len(whole)
    expected = read(tmp_path / "whole.trr", name, stored=False)[0]

    def put(start: int, data: bytes) -> None:
        with open(path, "r+b" if path.exists() else "wb") as file:
            file.seek(start)
            file.write(data)

    put(0, whole[: 150 * frame])
    assert read(path, name)[1] == [150]
    put(150 * frame, whole[150 * frame : 300 * frame])
    found, totals = read(path, name)
    assert_array_equal(found, expected[:300])
    # from the station before
    assert totals == [300 - 144]
    # one that was changed before its end, and has grown, is read from the front
    put(40 * frame, whole[41 * frame : 42 * frame])
    put(300 * frame, whole[300 * frame :])
    found, totals = read(path, name)
    assert totals == [N_FRAMES]
    assert_array_equal(found, read(path, name, stored=False)[0])
    assert np.abs(found - expected).max() > 1


@pytest.mark.parametrize("name", MADE)
def test_of_a_chain_with_more_parts_the_rest_is_read(tmp_path: Path, name: str) -> None:
    expected = read(write(tmp_path / "whole.h5md"), name, stored=False)[0]
    parts = [write(tmp_path / f"{start}.h5md", start, start + 100) for start in range(0, N_FRAMES, 100)]
    assert read(parts[:3], name)[1] == [300]
    found, totals = read(parts, name)
    assert totals == [N_FRAMES - 288]
    assert_array_equal(found, expected)
    # the last part has changed
    write(parts[3], 301, N_FRAMES)
    found, totals = read(parts, name)
    assert totals == [N_FRAMES - 1 - 288]
    assert_array_equal(found, read(parts, name, stored=False)[0])


def test_passes_of_a_command_save_beside_its_checkpoint(tmp_path: Path) -> None:
    traj = kn.open(write(tmp_path / "walk.trr"), stored=False)
    asked, saved = Asked(pbc="displacement", fit="progressive", fit_group="all"), Checkpoint(tmp_path / "run.ckpt")
    stack = asked.transforms(traj, None, lambda option, text: traj.select(text), {"checkpoint": saved, "workers": 1})
    moved = traj.with_transform(*stack)
    beside = [tmp_path / f"run.ckpt.{kind}" for kind in ("displacements", "rotations")]
    assert [path.exists() for path in beside] == [True, True]
    # what is done is not done again
    assert_array_equal(traj.with_transform(*stack).read(), moved.read())
    remove_checkpoints_of_passes(saved)
    assert not any(path.exists() for path in beside)


KILLED = """
import sys, time
import kinema as kn
from kinema.transforms.first_passes.kinds import EdgeSums, Rotations

EdgeSums.least = Rotations.least = 16

def slowly(done, total):
    # whoever kills this has the time to
    if done > 100:
        print("at work", flush=True)
        time.sleep(120)

name, path, saved = sys.argv[1:]
options = dict(runner="threads", workers=2, checkpoint=saved, checkpoint_interval=0, progress=slowly)
traj = kn.open(path, stored=False)
if name == "superpose":
    traj.with_transform(kn.transforms.superpose(reference="previous", **options))
else:
    traj.with_transform(kn.transforms.displacement(**options))
"""


@pytest.mark.processes
@pytest.mark.parametrize("name", ["displacement", "superpose"])
def test_what_was_killed_goes_on(tmp_path: Path, name: str) -> None:
    path, saved = write(tmp_path / "walk.trr"), tmp_path / "pass.ckpt"
    package = str(Path(kn.__file__).parent.parent)
    arguments = [sys.executable, "-c", KILLED, name, str(path), str(saved)]
    child = start_child(arguments, env={**os.environ, "PYTHONPATH": package})
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "at work\n", child.communicate()
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    traj = kn.open(path, stored=False)
    selection = traj.select(None)
    made: list[FirstPass] = []
    for _ in range(2):
        if name == "superpose":
            reference = {"atoms": selection.indices, "reference": traj.read([0])[0].astype(float), "weights": None}
            made.append(Rotations(traj, selection, reference))
        else:
            made.append(EdgeSums(traj, selection))
    (done,) = run([made[0]], checkpoint=saved)
    assert done.timings.frames_restored > 0
    assert not saved.exists()
    expected = stations_of(made[1], {"runner": "serial"})
    assert_array_equal(done.results.stations.sums, expected.sums)
    assert done.results.stations.longest == expected.longest
