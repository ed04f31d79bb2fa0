"""Lists of frames: numbers and ranges, files of numbers and of times, what is refused."""

import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd
from kinema.trajectory.time_range import frames_listed


@pytest.fixture(scope="module")
def trajectory(tmp_path_factory):
    path = tmp_path_factory.mktemp("lists") / "walk.dcd"
    write_dcd(path, random_walk(30, 4))
    return kn.open(path, stored=False, dt=0.5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1,5,9-12", [1, 5, 9, 10, 11, 12]), (" 7 - 8 ,3", [7, 8, 3]), ("4", [4]), ("2-2,2", [2, 2])],
)
def test_of_numbers_and_ranges(trajectory, text, expected):
    assert list(frames_listed(trajectory, text)) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("# chosen by hand\n3, 1\n29 ; the last\n", [3, 1, 29]),
        ("0.0 2.5\n1e1\n".replace("1e1", "1.0e1"), [0, 5, 20]),
        ("10.00000095\n", [20]),
    ],
)
def test_of_files(trajectory, tmp_path, content, expected):
    path = tmp_path / "frames.txt"
    path.write_text(content)
    assert list(frames_listed(trajectory, str(path))) == expected


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("1\nx\n", kn.CorruptFileError, r"line 2: expected a frame number from 0, .* found 'x'"),
        ("1\n2.0\n", kn.CorruptFileError, "line 2: expected a frame number"),
        ("1.0\n2\n", kn.CorruptFileError, "line 2: expected a time in ps with a decimal point"),
        ("[ frames ]\n1 2\n", kn.CorruptFileError, r"line 1: expected .* found '\['"),
        ("# none\n", kn.CorruptFileError, "found none"),
        ("3\n30\n", kn.OutOfRangeError, "line 2: frame 30 is out of range, the trajectory has 30 frames"),
        ("1.0 1.2\n", kn.OutOfRangeError, "line 1: no frame is at 1.2 ps, the nearest is 1 ps"),
    ],
)
def test_files_that_are_refused(trajectory, tmp_path, content, error, message):
    path = tmp_path / "frames.txt"
    path.write_text(content)
    with pytest.raises(error, match=message):
        frames_listed(trajectory, str(path))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("5-2", kn.ArgumentError, "the range 5-2 ends before it begins; write 2-5"),
        ("1,30", kn.OutOfRangeError, "frame 30 is out of range"),
        ("0-9999999999999", kn.OutOfRangeError, "frame 9999999999999 is out of range"),
        ("some.txt", kn.ArgumentError, "1,5,9-20, or a file of them, found 'some.txt'"),
        ("-1", kn.ArgumentError, "found '-1'"),
    ],
)
def test_lists_that_are_refused(trajectory, text, error, message):
    with pytest.raises(error, match=message):
        frames_listed(trajectory, text)
