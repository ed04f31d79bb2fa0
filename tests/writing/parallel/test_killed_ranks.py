"""Ranks that are killed while they write: what is left of the file is what they had committed, whatever the moment."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected

pytestmark = pytest.mark.processes

PROGRAMS = Path(__file__).with_name("rank_growth.py")
N_RANKS, N_ATOMS = 2, 211
CASES = (
    ("dcd", "direct"),
    ("xtc", "gather"),
    ("nc", "direct"),
    ("trr", "mpiio"),
    ("history", "direct"),
    ("trr", "gather"),
)


def expected(frame: int) -> np.ndarray[Any, Any]:
    """As `rank_common.values_of`."""
    return frame % 97 + np.arange(N_ATOMS * 3).reshape(N_ATOMS, 3) % 331 / 10


def killed(mpi: Any, folder: Path, words: list[str], moments: random.Random, *, all_ranks: bool) -> int:
    """Starts the ranks and kills one or all of them at a random moment after a flush; how many they have said are
    flushed."""
    process = mpi.started(N_RANKS, ["-m", "mpi4py", str(PROGRAMS), *words], folder)
    ranks: list[int] = []
    flushed, n_flushes = 0, moments.randrange(1, 4)
    try:
        for line in process.stdout:
            word, number = line.split()
            if word == "rank":
                ranks.append(int(number))
                continue
            flushed, n_flushes = int(number), n_flushes - 1
            if not n_flushes:
                break
        assert len(ranks) == N_RANKS, process.stderr.read()
        time.sleep(moments.uniform(0.0, 0.1))
    finally:
        for rank in ranks if all_ranks else moments.sample(ranks, min(1, len(ranks))):
            with suppress(ProcessLookupError):
                os.kill(rank, signal.SIGKILL)
    said, _ = process.communicate(timeout=120)
    assert all(mpi.is_gone(rank) for rank in ranks)
    return max([flushed, *(int(line.split()[1]) for line in said.splitlines() if line.startswith("flushed"))])


def check(path: Path, flushed: int) -> int:
    """The frames of a file, which must be those that were written."""
    with collected():
        trajectory = kn.open(path, stored=False)
        trajectory.scan()
        assert trajectory.n_frames >= flushed, (path, flushed)
        for frame, found in enumerate(trajectory):
            np.testing.assert_allclose(found.positions, expected(frame), atol=6e-3, err_msg=f"{path}, frame {frame}")
    return trajectory.n_frames


@pytest.mark.parametrize("all_ranks", [False, True])
def test_ranks_killed_at_random_moments(
    mpi: Any, tmp_path: Path, kills: Callable[..., int], *, all_ranks: bool
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    moments = random.Random(seed)
    # a short run has half of the cases with one rank, the others with all
    for number in range(first := 3 * all_ranks, first + kills(3)):
        suffix, strategy = CASES[number % len(CASES)]
        mode = "a" if number // len(CASES) % 2 or suffix in ("trr", "history") else "w"
        path = tmp_path / f"{strategy}.{suffix}"
        if mode == "w":
            path.unlink(missing_ok=True)
        before = check(path, 0) if path.exists() else 0
        flushed = killed(mpi, tmp_path, [path.name, strategy, mode], moments, all_ranks=all_ranks)
        if mode == "a":
            assert check(path, flushed) >= max(before, 1)
            continue
        (left,) = tmp_path.glob(f"{strategy}.part-*.{suffix}")
        assert "-k" in left.name
        check(left, flushed)
        # as its user would
        left.rename(path)


@pytest.mark.parametrize("suffix", ["dcd", "trr", "xtc"])
def test_a_record_that_was_not_finished_ends_the_file_and_nuls_do_not(tmp_path: Path, suffix: str) -> None:
    path, n_frames = tmp_path / f"a.{suffix}", 7
    with collected(), kn.Writer(path, N_ATOMS) as out:
        for frame in range(n_frames):
            out.write(expected(frame), step=frame, time=float(frame))
            if frame == 2:
                out.flush()
    trajectory = kn.open(path, stored=False)
    trajectory.scan()
    begin = int(trajectory.core.extents(0)[0][4])
    whole = bytearray(path.read_bytes())
    if suffix == "dcd":
        whole[8:12] = (3).to_bytes(4, "little")  # the count that was flushed
    for mark in (b"KINE", bytes(4)):
        made = bytearray(whole)
        made[begin : begin + 4] = mark
        path.write_bytes(made)
        if mark == b"KINE":
            assert check(path, 4) == 4
            with collected() as notes, kn.Writer(path, mode="a") as out:
                assert out.n_frames == 4
            assert any("was not finished" in note for note in notes), notes
            assert path.stat().st_size == begin
        else:
            with pytest.raises(kn.errors.CorruptFileError), collected():
                check(path, 0)
