"""`FrameSelection`, and the selection of frames by time."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import random_walk, write_xtc


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> kn.Trajectory:
    """100 frames at 0, 0.5, 1, ... ps."""
    path: Path = tmp_path_factory.mktemp("timed") / "a.xtc"
    write_xtc(path, random_walk(100, 4), dt=0.5)
    return kn.open(path, stored=False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"begin": 10.0, "end": 20.0}, range(20, 41)),
        ({"begin": 10.0}, range(20, 100)),
        ({"end": 3.0, "every": 1.0}, range(0, 7, 2)),
        ({"begin": 49.5}, range(99, 100)),
        ({}, range(100)),
    ],
)
def test_a_window_of_time_is_a_stride(timed: kn.Trajectory, arguments: dict[str, float], expected: range) -> None:
    frames = kn.frames_between(timed, **arguments)
    assert frames.stride == (expected.start, expected.step, len(expected))
    np.testing.assert_array_equal(frames, expected)
    np.testing.assert_array_equal(timed.read(frames), timed.read()[expected])
    rmsd = kn.analysis.RMSD(timed).run(frames=frames)
    assert rmsd.results.frames.tolist() == list(expected)


def test_a_window_of_a_view_counts_the_frames_of_the_view(timed: kn.Trajectory) -> None:
    view = timed[::-1][:50]
    frames = kn.frames_between(view, begin=30.0, end=40.0)
    assert frames.stride == (19, 1, 21)
    np.testing.assert_array_equal(view[frames].times, np.arange(40.0, 29.9, -0.5))
    assert view.choose(frames=frames).stride == (80, -1, 21)


def test_times_at_uneven_distances_are_a_list(timed: kn.Trajectory) -> None:
    view = timed[[0, 1, 2, 40, 41, 90]]
    frames = kn.frames_between(view, every=20.0)
    np.testing.assert_array_equal(view[frames].times, [0.0, 20.0])
    assert kn.frames_between(view[[0, 1, 3]], end=20.0).stride == (0, 1, 3)
    uneven = kn.frames_between(timed[[0, 1, 2, 4, 6]], every=1.0)
    assert uneven.stride is None
    np.testing.assert_array_equal(uneven, [0, 2, 3, 4])


def test_selections_are_sequences_of_numbers() -> None:
    stride, numbers = kn.FrameSelection(range(40, 10, -3)), kn.FrameSelection(np.array([5, 1, 5], np.uint64))
    assert (len(stride), stride[0], stride[-1]) == (10, 40, 13)
    assert (len(numbers), numbers[0], list(numbers)) == (3, 5, [5, 1, 5])
    assert stride[2:4].stride == (34, -3, 2)
    assert list(numbers[1:]) == [1, 5]
    assert (str(stride), str(numbers)) == ("10 from 40, every -3", "3 chosen: 5, 1, 5")
    assert stride == kn.FrameSelection(np.arange(40, 10, -3).astype(np.uint64)) != numbers
    with pytest.raises(ValueError, match="read-only"):
        numbers.numbers()[0] = 7


def test_strides_stay_strides() -> None:
    outer = kn.FrameSelection(range(100, 1_000_000_000_100, 10))
    pieces = [outer, outer.compose(kn.FrameSelection(range(50, 7, -2))), outer[1000:], next(outer.split(17))]
    assert [piece.stride for piece in pieces] == [
        (100, 10, 100_000_000_000),
        (600, -20, 22),
        (10_100, 10, 99_999_999_000),
        (100, 10, 17),
    ]
    for piece in pieces:
        packed = pickle.dumps(piece)
        assert len(packed) < 200
        assert pickle.loads(packed) == piece


def test_no_frames_are_an_empty_stride() -> None:
    for empty in (kn.FrameSelection(range(7, 3)), kn.FrameSelection(range(9))[5:5]):
        assert empty.stride == (0, 1, 0)
        assert empty.numbers().dtype == np.uint64
        assert list(empty.split(3)) == []


def test_only_a_selection_reaches_the_core(timed: kn.Trajectory) -> None:
    with pytest.raises(kn.ArgumentError, match="frames must be a FrameSelection"):
        timed.core.read((0, 1, 3))


def xtc_with_times(path: Path, times: list[float]) -> kn.Trajectory:
    """An XTC file of 4 atoms whose frames have these times."""
    write_xtc(path, random_walk(len(times), 4))
    data = bytearray(path.read_bytes())
    length = len(data) // len(times)  # too few atoms to be packed: all frames are as long
    for frame, time in enumerate(times):
        struct.pack_into(">f", data, frame * length + 12, time)
    path.write_bytes(data)
    return kn.open(path, stored=False)


def test_infinite_times_are_in_no_window(tmp_path: Path) -> None:
    traj = xtc_with_times(tmp_path / "inf.xtc", [0.0, 1.0, 2.0, np.inf, 4.0, -np.inf, 6.0])
    for arguments, expected in (
        ({"begin": 0.0, "end": 5.0}, [0, 1, 2, 4]),
        ({"begin": 1.0}, [1, 2, 4, 6]),
        ({"end": 4.0}, [0, 1, 2, 4]),
        ({"every": 2.0}, [0, 2, 4, 6]),
    ):
        with pytest.warns(kn.Note, match=r"inf\.xtc: frame 3 has the time inf ps, 2 of 7 frames"):
            frames = kn.frames_between(traj, **arguments)
        np.testing.assert_array_equal(frames, expected)


def test_frames_without_a_time_cannot_be_chosen_by_time(tmp_path: Path) -> None:
    traj = xtc_with_times(tmp_path / "nan.xtc", [0.0, 1.0, np.nan, 3.0, np.nan])
    for arguments in ({"begin": 0.0, "end": 5.0}, {"every": 1.0}, {}):
        with pytest.raises(kn.ArgumentError, match=r"nan\.xtc: frame 2 has no time \(nan\), as 2 of 5 frames"):
            kn.frames_between(traj, **arguments)


@pytest.mark.parametrize("arguments", [{"begin": np.nan}, {"end": np.nan}, {"every": np.nan}, {"every": np.inf}])
def test_limits_are_numbers(timed: kn.Trajectory, arguments: dict[str, float]) -> None:
    with pytest.raises(kn.ArgumentError, match=r"time .*must be"):
        kn.frames_between(timed, **arguments)


@pytest.mark.parametrize(
    ("arguments", "noted"),
    [
        (
            {"every": 0.3},
            "34 frames are used where one every 0.3 ps would be 166: the others have no frame at their time",
        ),
        ({"every": 0.8, "end": 4.0}, "2 frames are used where one every 0.8 ps would be"),
        ({"every": 0.5}, None),
        ({"every": 2.0, "begin": 0.5}, None),
        ({"every": 100.0}, None),
    ],
)
def test_times_without_a_frame_are_noted(timed: kn.Trajectory, arguments: dict[str, float], noted: str | None) -> None:
    with collected() as notes:
        kn.frames_between(timed, **arguments)
    assert [noted] == [note.split(": ", 1)[1][: len(noted or "")] for note in notes] if noted else notes == []
