"""Slicing, reading, blocks and frames of a trajectory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinema as kn
from kinema.model.selection.frames import resolve

pytestmark = pytest.mark.usefixtures("nobody_changes_files")


def test_frames_by_number(small):
    whole = small.read()
    for i in (0, 19, -1, -20, np.int64(3)):
        frame = small[i]
        np.testing.assert_array_equal(frame.positions, whole[i])
        assert frame.frame == i % 20
        assert frame.time == small.times[i]
        assert frame.cell.shape == (3, 3)
        assert frame.velocities is None
    for i in (20, -21):
        with pytest.raises(IndexError, match=f"frame {i} is out of range, the trajectory has 20 frames"):
            small[i]


def test_views_of_views(small):
    whole = small.read()
    numbers = np.arange(20)
    keys = [slice(None, None, -2), [1, 5, -1], slice(1, 9), np.arange(8) % 3 == 0]
    view, expected = small, numbers
    for key in [*keys[:2], slice(None), [True, False, True]]:
        view, expected = view[key], expected[key]
        np.testing.assert_array_equal(view.frame_numbers, expected)
        np.testing.assert_array_equal(view.read(), whole[expected])
        np.testing.assert_array_equal([frame.frame for frame in view], expected)
        np.testing.assert_array_equal(view.times, small.times[expected])
        np.testing.assert_array_equal(view.steps, small.steps[expected])
    view = small[keys[2]][keys[3]]
    np.testing.assert_array_equal(view[1].positions, whole[4])
    assert len(small[5:5]) == 0
    assert small[5:5].dt is None
    assert list(small[5:5]) == []


choices = st.one_of(
    st.builds(slice, *[st.one_of(st.none(), st.integers(-30, 30))] * 2, st.sampled_from([None, 1, 2, 7, -1, -3])),
    st.lists(st.integers(-20, 19), max_size=30),
    st.lists(st.booleans(), min_size=20, max_size=20),
    st.builds(range, st.integers(0, 19), st.integers(0, 19), st.sampled_from([1, 2, -1])),
)


@given(choices, st.integers(1, 9))
def test_choices_are_those_of_numpy(choice, size):
    resolved = resolve(choice, 20)
    key = choice if isinstance(choice, slice) else np.array(list(choice), dtype=None if len(choice) else int)
    expected = np.arange(20)[key]
    np.testing.assert_array_equal(resolved.numbers(), expected)
    assert len(resolved) == len(expected)
    pieces = [piece.numbers() for piece in resolved.split(size)]
    np.testing.assert_array_equal(np.concatenate([[], *pieces]), expected)
    assert all(len(piece) <= size for piece in pieces)


@given(choices, st.data())
def test_views_compose(choice, data):
    outer = resolve(choice, 20)
    length = len(outer)
    inner_key = data.draw(
        st.one_of(
            st.builds(slice, st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([None, 2, -1])),
            st.lists(st.integers(-length, length - 1), max_size=9) if length else st.just([]),
        )
    )
    inner = resolve(inner_key, length)
    expected = outer.numbers()[inner.numbers().astype(int)]
    np.testing.assert_array_equal(outer.compose(inner).numbers(), expected)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ([0.5], "float64"),
        ([[1, 2]], "one dimension"),
        ([True, False], "expected 20 values, found 2"),
        (slice(None, None, 0), "zero"),
        (slice("a"), "slice"),
        ("all", "str"),
    ],
)
def test_choices_that_name_no_frames(small, choice, message):
    with pytest.raises(kn.ArgumentError, match=message):
        small.read(frames=choice)


def test_read_one_frame(small):
    assert small.read(frames=3).shape == (1, 15, 3)
    assert small.read(frames=[]).shape == (0, 15, 3)


def test_read_several_fields(small):
    found = small.read(fields=["positions"], frames=[3, 1], select=[2, 0])
    assert found["positions"].shape == (2, 2, 3)
    assert found["cells"].shape == (2, 3, 3)
    np.testing.assert_array_equal(found["frames"], [3, 1])
    np.testing.assert_array_equal(found["times"], small.times[[3, 1]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fields": "velocities"}, "has no velocities; it holds positions"),
        ({"fields": "charges"}, "none of positions, velocities, forces"),
        ({"fields": []}, "nothing to read"),
        ({"dtype": "int32"}, "float32 or float64, found int32"),
        ({"dtype": "nonsense"}, "float32 or float64"),
        ({"workers": 0}, "workers"),
        ({"memory": "x"}, "memory"),
        ({"out": np.empty((20, 15, 3))}, "expected float32, found float64"),
        ({"out": np.empty((20, 14, 3), dtype=np.float32)}, r"expected \(20, 15, 3\), found \(20, 14, 3\)"),
        ({"out": np.empty((20, 15, 6), dtype=np.float32)[:, :, ::2]}, "C-contiguous"),
        ({"out": [1]}, "found list"),
    ],
)
def test_arguments_of_read(small, arguments, message):
    with pytest.raises(kn.ArgumentError, match=message):
        small.read(**arguments)


def test_blocks(small):
    blocks = list(small.blocks(memory="16 MiB", select=[4, 2], frames=slice(None, None, 3)))
    assert sum(len(block) for block in blocks) == 7
    block = blocks[0]
    np.testing.assert_array_equal(block.positions, small.read(frames=slice(None, None, 3), select=[4, 2]))
    np.testing.assert_array_equal(block.frames, np.arange(0, 20, 3))
    assert block.cells.shape == (7, 3, 3)
    assert block[2].frame == 6
    with pytest.raises(kn.ArgumentError, match="memory"):  # at the call, not at the first block
        small.blocks(memory="x")


def test_frames_outlive_what_they_came_from(tmp_path, small):
    frame = small[3]
    copy = frame.positions.copy()
    del small
    np.testing.assert_array_equal(frame.positions, copy)
