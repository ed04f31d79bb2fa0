"""A refresh of a file that has grown reads as much of a long file as of a short one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.following.writers import BYTE_FORMATS, make

import kinema as kn
from kinema.base.notes import collected


@pytest.fixture(autouse=True)
def _noted() -> Iterator[None]:
    with collected():
        yield


def bytes_read(folder: Path, path: Path) -> int:
    events = [
        json.loads(line)
        for journal in folder.glob("*.pfw")
        for line in journal.read_text().splitlines()[1:]
        if line[1:]
    ]
    reads = [event for event in events if event["name"] in ("pread64", "preadv64")]
    assert reads, path
    return sum(event["args"]["ret"] for event in reads)


@pytest.mark.parametrize("name", BYTE_FORMATS)
def test_a_refresh_reads_the_new_frames_alone(name: str, tmp_path: Path) -> None:
    found = []
    for n_frames in (3000, 9000):
        made = make(tmp_path, name, n_frames)
        path = tmp_path / f"{n_frames}-{name}"
        traj = None
        for number, stop in enumerate((n_frames - 3, n_frames - 2, n_frames - 1)):
            # its head says that there are more
            path.write_bytes(made.data[: made.ends[stop - 1]])
            if traj is None:
                traj = kn.open(path, stored=False)
            with kn.trace(tmp_path / f"trace-{n_frames}-{number}"):
                assert traj.refresh() == stop
        np.testing.assert_array_equal(traj.times, made.times[: n_frames - 1])
        if name not in ("md.dcd", "md.nc"):
            np.testing.assert_array_equal(traj.steps, 10 * np.arange(n_frames - 1))
        found.append(bytes_read(tmp_path / f"trace-{n_frames}-2", path))
    frame = len(made.data) // n_frames
    print(name, "bytes of a refresh", found, "of a frame", frame)
    assert abs(found[1] - found[0]) <= 4 * frame + 4096
