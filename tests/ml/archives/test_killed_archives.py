"""`kinema.ml.convert(checkpoint=)` ended at any moment: the same call goes on to the same values."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401, which registers its filters
import numpy as np
import pytest

import kinema as kn
from kinema.execution.checkpoint.counted import CountedBytes
from kinema.ml import SampleDataset, convert
from kinema.testing.amounts import each
from kinema.testing.programs.children import start_child

FILES, SAMPLES, FEATURES = 6, 500, 400
KINDS = {"contiguous": {}, "chunks": {"layout": "samples:33"}, "compressed": {"compression": "lz4"}}

# argv: folder, seed, kills, longest, options. Forks after its imports, and prints how many calls were killed.
KILLER = """
import os, sys
import kinema.ml
from kinema.ml.archives import plan
from kinema.testing.programs.children import kill_at_random
plan._BLOCK_BYTES = 100_000  # many places to be killed at
plan._LEAST_BLOCK = 10_000
folder, seed, n_kills, longest, options = sys.argv[1], *map(eval, sys.argv[2:6])
os.chdir(folder)

def run():
    kinema.ml.convert([f"{i}.npz" for i in range(6)], "out.h5", checkpoint="run.ckpt", checkpoint_interval=0, workers=2,
                      overwrite=True, **options)

kill_at_random(run, seed, n_kills, longest)
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stored and deflated archives of two arrays."""
    folder = tmp_path_factory.mktemp("sources")
    for number in range(FILES):
        made = np.random.default_rng(number)
        arrays: dict[str, Any] = {"x": made.standard_normal((SAMPLES, FEATURES)), "y": made.integers(0, 9, SAMPLES)}
        (np.savez if number % 2 else np.savez_compressed)(folder / f"{number}.npz", **arrays)
    return folder


def paths(folder: Path) -> list[str]:
    return [str(folder / f"{number}.npz") for number in range(FILES)]


def assert_whole(archive: Path, folder: Path) -> None:
    """All samples, bit for bit, by h5py."""
    with h5py.File(archive) as file:
        for name in ("x", "y"):
            expected = np.concatenate([np.load(path)[name] for path in paths(folder)])
            assert file[name][()].tobytes() == expected.tobytes()
    files, rows = SampleDataset(archive).origin(range(FILES * SAMPLES))
    assert files == [path for path in paths(folder) for _ in range(SAMPLES)]
    assert (rows == np.tile(np.arange(SAMPLES), FILES)).all()


def left(folder: Path) -> set[str]:
    return {name for name in os.listdir(folder) if not name.endswith(".npz")}


@pytest.mark.processes
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_moments(kind: str, sources: Path, tmp_path: Path, kills: Callable[..., int]) -> None:
    for path in paths(sources):
        os.link(path, tmp_path / os.path.basename(path))
    n_kills, seed = kills(), random.randrange(1 << 32)
    print("seed", seed)
    words = [sys.executable, "-c", KILLER, str(tmp_path), str(seed), str(n_kills), "0.3", repr(KINDS[kind])]
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    process = start_child(words, env=environment, stdin=-1, seconds=max(150, 10 * n_kills))
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with process:
        for line in process.stdout:
            if line != "finished\n":
                assert line == f"kills {n_kills}\n"
                break
            assert_whole(tmp_path / "out.h5", tmp_path)
            assert left(tmp_path) == {"out.h5"}
            (tmp_path / "out.h5").unlink()
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.stderr.read() == ""
    assert process.returncode == 0


class Stop:
    """Progress that ends the call when so much is done."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __call__(self, done: int, total: int) -> None:
        if done > self.share * total:
            raise KeyboardInterrupt


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from kinema.ml.archives import plan, tasks

    monkeypatch.setattr(plan, "_BLOCK_BYTES", 100_000)
    monkeypatch.setattr(plan, "_LEAST_BLOCK", 10_000)
    monkeypatch.setattr(tasks, "_INTERVAL", 0.001)


@pytest.mark.parametrize(("share", "kind"), each([0.1, 0.3, 0.45, 0.9], list(KINDS)))
def test_stopped_and_gone_on_with(kind: str, share: float, sources: Path, tmp_path: Path, small_blocks: None) -> None:
    given: dict[str, Any] = {"checkpoint": tmp_path / "run.ckpt", "checkpoint_interval": 0, "workers": 2, **KINDS[kind]}
    with pytest.raises(KeyboardInterrupt) as stop:
        convert(paths(sources), tmp_path / "out.h5", progress=Stop(share), **given)
    assert "run.ckpt; the same call continues from there" in stop.value.__notes__[0]
    assert len(left(tmp_path)) == 2 and "run.ckpt" in left(tmp_path)
    with pytest.raises(kn.ArgumentError, match="checkpoint is of another run: array 1"):
        convert(paths(sources), tmp_path / "out.h5", **(given | {"dtype": {"x": "float32"}}))
    with pytest.raises(kn.ArgumentError, match="checkpoint is of another run: the number of files"):
        convert(paths(sources)[:-1], tmp_path / "out.h5", **given)
    done = convert(paths(sources), tmp_path / "out.h5", **(given | {"workers": 1}))
    assert 0 < done.n_restored <= FILES * SAMPLES and done.verified
    if share == 0.9:
        assert done.n_restored == FILES * SAMPLES
    assert_whole(tmp_path / "out.h5", sources)
    assert left(tmp_path) == {"out.h5"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_earlier_call_has_written_is_compared_with_the_sources(
    kind: str, sources: Path, tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"checkpoint": tmp_path / "run.ckpt", "checkpoint_interval": 0, "workers": 1, **KINDS[kind]}
    with pytest.raises(KeyboardInterrupt):
        convert(paths(sources), tmp_path / "out.h5", progress=Stop(0.4), **given)
    (part,) = left(tmp_path) - {"run.ckpt"}
    with h5py.File(tmp_path / part, "r+", locking=False) as file:
        file["y"][3] += 1
    size = os.path.getsize(tmp_path / part)
    # digests show it before anything is written, if they count samples of y: of a chunk that is full, and of the front
    digests, sources_of_it = (
        "which the checkpoint counts, were changed since",
        r"out\.h5: y does not hold what was written",
    )
    with pytest.raises(kn.CorruptFileError, match=f"{digests}|{sources_of_it}") as error:
        convert(paths(sources), tmp_path / "out.h5", **given)
    if digests in str(error.value):
        assert left(tmp_path) == {part, "run.ckpt"}
        monkeypatch.setattr(CountedBytes, "check", lambda *_: None)
        with pytest.raises(kn.CorruptFileError, match=sources_of_it):
            convert(paths(sources), tmp_path / "out.h5", **given)
    # nobody continues it
    assert left(tmp_path) == set(), size


def test_another_source_than_before_is_refused(sources: Path, tmp_path: Path, small_blocks: None) -> None:
    for path in paths(sources):
        (tmp_path / os.path.basename(path)).write_bytes(Path(path).read_bytes())
    given: dict[str, Any] = {"checkpoint": tmp_path / "run.ckpt", "checkpoint_interval": 0}
    with pytest.raises(KeyboardInterrupt):
        convert(paths(tmp_path), tmp_path / "out.h5", progress=Stop(0.3), **given)
    status = os.stat(tmp_path / "0.npz")
    data = bytearray((tmp_path / "0.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "0.npz").write_bytes(data)
    os.utime(tmp_path / "0.npz", ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(kn.ArgumentError, match="checkpoint is of another run: file 1 of 6"):
        convert(paths(tmp_path), tmp_path / "out.h5", **given)


def is_at_work(folder: Path) -> bool:
    """Whether a temporary file of the archive has its structure; one may get another name while it is looked at."""
    with suppress(FileNotFoundError):
        return any(part.stat().st_size for part in folder.glob("out.part-*"))
    return False


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 MB of zeros, in some seconds."""
    path = tmp_path_factory.mktemp("large") / "in.npz"
    np.savez_compressed(path, x=np.zeros((500_000, 100)))
    return path


@pytest.mark.processes
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_stopped_in_the_middle(number: int, code: int, large: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    words = [sys.executable, "-m", "kinema", "ml", "convert", str(large), "-o", "out.h5"]
    for more, ends in (([], "stopped, nothing was written"), (["--checkpoint", "c", "--checkpoint-interval", "0"], "")):
        process = start_child([*words, *more], cwd=tmp_path, env=environment, seconds=60)
        with process:
            while process.poll() is None and not is_at_work(tmp_path):
                time.sleep(0.01)
            time.sleep(0.1)
            process.send_signal(number)
            out, said = process.communicate(timeout=50)
        assert (process.returncode, out) == (code, ""), said
        assert said.startswith("kinema: stopped") and len(said.splitlines()) == 1
        assert ends in said
        if not more:
            assert left(tmp_path) == set()
