"""Processes that sleep: what they refuse, what they write, and how long they wait. Times: benchmarks/lab_replay.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.studies.lab import sleeping
from kinema.studies.lab.machine import EmulatedMachine
from kinema.studies.lab.operations import Barrier, GatherTo, Metadata, Operation, ReadBytes, StoredFile, WriteBytes
from kinema.studies.lab.platform import read_platform
from kinema.studies.lab.sleeping import SleepingPlacer, SleepingStorage, sleep_through

MIB = 1 << 20
FAST = replace(read_platform("beegfs"), targets=2, stripes=2, read_rate=40 * MIB, write_rate=40 * MIB)


def test_a_throttle_gives_each_its_turn(tmp_path: Path) -> None:
    # waits are so long that the time of the test does not matter
    first, second = (_core.Throttle(1, str(tmp_path / "state")) for _ in range(2))
    waits = [first.reserve(1000), second.reserve(1000)]
    assert waits == [pytest.approx(1000, rel=0.1), pytest.approx(2000, rel=0.1)]
    with pytest.raises(ArgumentError):
        _core.Throttle(0, str(tmp_path / "state"))


def test_a_sink_writes_real_bytes_and_waits_as_the_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(sleeping.time, "sleep", waits.append)
    slow = replace(FAST, write_rate=MIB // 10, link_rate=MIB)
    (tmp_path / "f").touch()
    file = StoredFile("f", 16 * MIB, 2)
    placer = SleepingPlacer(str(tmp_path / "f"), "f", SleepingStorage(slow, tmp_path, 0), file)
    data = bytes(range(256)) * (MIB // 256)
    for number in range(16):
        placer.write_at(number * MIB, data)
    placer.close()
    assert (tmp_path / "f").read_bytes() == data * 16
    machine = EmulatedMachine(slow, [0])
    machine.run(lambda _rank: iter([WriteBytes(file, number * MIB, MIB) for number in range(16)]))
    # nobody has slept, so the last wait is that for all bytes
    assert waits[-1] == pytest.approx(16 * 5, rel=0.1) and machine.time.now / 1e9 == pytest.approx(16 * 6, rel=0.1)


@pytest.mark.processes
def test_processes_share_the_targets(tmp_path: Path) -> None:
    file, written = StoredFile("shared", 8 * MIB, 2), StoredFile("written", 8 * MIB, 2)

    def program(rank: int) -> Iterator[Operation]:
        yield Metadata("open", file)
        for number in range(rank * 4, rank * 4 + 4):
            yield ReadBytes(file, number * MIB, MIB)
            yield WriteBytes(written, number * MIB, MIB)
        yield Barrier()

    assert sleep_through(program, 2, FAST, tmp_path) > 0
    assert (tmp_path / "written").read_bytes() == bytes(8 * MIB)


@pytest.mark.parametrize(
    ("n_ranks", "platform", "said"),
    [
        (5, FAST, "processes that sleep must be from 1 to 4, found 5"),
        (2, FAST, "processes that sleep send no messages, found GatherTo"),
        (2, replace(FAST, seek=1), "processes that sleep have no seeks and no locks, and beegfs has"),
    ],
)
def test_what_cannot_sleep_is_refused(n_ranks: int, platform: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=said):
        sleep_through(lambda _rank: iter([GatherTo(0, 1)]), n_ranks, platform, tmp_path)  # type: ignore[arg-type]
