"""Functions as transforms: what they get, what they may return, and how their errors arrive."""

import dataclasses
import pickle
import threading

import numpy as np
import pytest

import kinema as kn

CA = "tests/data/golden/ca.dcd"


def lifted(frame):
    """Each frame by its number, and the cell with it."""
    frame.positions[:, 2] += frame.frame
    frame.cell[2, 2] += frame.frame
    return frame


def lowered(frame):
    frame.positions[:, 2] -= frame.frame
    return frame


@pytest.fixture(scope="module")
def traj():
    return kn.open(CA, stored=False)


def test_a_function_sees_a_frame_of_its_own_and_what_it_returns_is_read(traj):
    plain, changed = traj.read(fields=["positions"]), traj.with_transform(lifted).read(fields=["positions"])
    numbers = np.arange(len(traj), dtype=np.float32)
    expected = plain["positions"].copy()
    expected[:, :, 2] += numbers[:, None]
    np.testing.assert_array_equal(changed["positions"], expected)
    np.testing.assert_array_equal(changed["cells"][:, 2, 2], plain["cells"][:, 2, 2] + numbers)
    np.testing.assert_array_equal(traj.read(), plain["positions"])


def test_chosen_atoms_are_seen_in_their_order_and_others_stay(traj):
    seen = []

    def first_two(frame):
        seen.append((frame.positions.shape, frame.velocities, frame.time, frame.step))
        frame.positions[0] = 1.0
        frame.positions[1] = 2.0
        return frame

    moved = traj.with_transform(kn.transforms.function(first_two, [7, 3]))
    positions = moved.read(frames=[4], select=[2, 3, 7])[0]
    np.testing.assert_array_equal(positions[0], traj.read(frames=[4], select=[2])[0, 0])
    np.testing.assert_array_equal(positions[1:], [[2.0] * 3, [1.0] * 3])
    assert seen == [((2, 3), None, float(traj.times[4]), int(traj.steps[4]))]


def test_functions_stand_anywhere_in_a_stack_and_for_threads_and_analyses(traj):
    superpose = kn.transforms.superpose()
    there_and_back = traj.with_transform(lifted, lowered, superpose)
    again = traj.with_transform(superpose)
    np.testing.assert_allclose(there_and_back.read(workers=3), again.read(), atol=1e-4)
    order = traj.with_transform(superpose, lifted)
    np.testing.assert_array_equal(
        order.read()[:, :, 2], again.read()[:, :, 2] + np.arange(len(traj), dtype=np.float32)[:, None]
    )
    with pytest.warns(kn.Note, match="nothing was superposed"):
        serial, threads = (kn.analysis.RMSF(order).run(runner=one) for one in ("serial", "threads"))
    np.testing.assert_array_equal(serial.results.rmsf, threads.results.rmsf)
    assert "function(function=lifted)" in order.transforms


def test_what_a_function_raises_arrives_with_file_and_frame_and_its_cause(traj):
    def fails(frame):
        if frame.frame == 5:
            return 1 / 0
        return frame

    broken = traj.with_transform(fails)
    with pytest.raises(kn.ArgumentError, match=r"ca.dcd: DCD frame 5: ZeroDivisionError: division by zero") as caught:
        broken.read()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert (caught.value.frame, caught.value.path) == (5, CA)
    np.testing.assert_array_equal(broken.read(slice(0, 5)), traj.read(slice(0, 5)))
    with pytest.warns(kn.Note), pytest.raises(kn.ArgumentError, match=r"frame 5: ZeroDivisionError"):
        kn.analysis.RMSF(broken).run(runner="threads", workers=2)


def test_an_interrupt_in_a_function_is_passed_on(traj):
    def interrupted(frame):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        traj.with_transform(interrupted)[0]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda frame: None, "must return the frame, found NoneType"),
        (lambda frame: frame.positions, "must return the frame, found ndarray"),
        (lambda frame: _replaced(frame, positions=frame.positions[1:]), r"expected shape \(214, 3\), found \(213, 3\)"),
        (lambda frame: _replaced(frame, positions=frame.positions.astype(int)), "float32 or float64, found int64"),
        (lambda frame: _replaced(frame, positions=None), "float32 or float64, found NoneType"),
        (lambda frame: _replaced(frame, cell=np.eye(2)), r"a cell of floats, expected shape \(3, 3\), found \(2, 2\)"),
        (lambda frame: _replaced(frame, time=-1.0), "must not change step, time or number"),
    ],
)
def test_results_of_another_shape_or_kind_are_refused(traj, change, what):
    with pytest.raises(kn.ArgumentError, match=f"frame 3: .*{what}"):
        traj.with_transform(change).read(frames=[3])


def _replaced(frame, **changed):
    return dataclasses.replace(frame, **changed)


def test_float64_is_rounded_and_functions_differ_by_what_they_do(traj):
    halves = traj.with_transform(lambda frame: _replaced(frame, positions=frame.positions.astype(np.float64) / 3))
    np.testing.assert_array_equal(halves.read(), (traj.read().astype(np.float64) / 3).astype(np.float32))
    one, other = (traj.with_transform(made) for made in (lambda frame: frame, lambda frame: lifted(frame)))
    assert not one.same_frames(other)
    assert one.core.transforms[0].identity != other.core.transforms[0].identity
    assert traj.with_transform(lifted).same_frames(traj.with_transform(lifted))
    assert not traj.with_transform(lifted).same_frames(traj.with_transform(lowered))


def test_a_function_goes_with_a_pickled_trajectory(traj):
    offset = np.float32(0.5)
    moved = traj.with_transform(lambda frame: _replaced(frame, positions=frame.positions + offset))[2:9]
    again = pickle.loads(pickle.dumps(moved))
    np.testing.assert_array_equal(again.read(), moved.read())
    assert again.core.transforms[0].identity == moved.core.transforms[0].identity


def test_a_function_that_no_other_process_can_have_is_refused_there_and_works_here(traj):
    lock = threading.Lock()

    def locked(frame):
        with lock:
            return frame

    moved = traj.with_transform(locked)
    np.testing.assert_array_equal(moved.read(workers=2), traj.read())
    with pytest.raises(kn.ArgumentError, match=r"locked cannot be sent to workers .*runner='threads'"):
        pickle.dumps(moved)
    with pytest.warns(kn.Note), pytest.raises(kn.ArgumentError, match="cannot be sent to workers"):
        kn.analysis.RMSF(moved).run(runner="processes", workers=2)


def test_arguments_are_checked_before_anything_is_read(traj):
    with pytest.raises(kn.ArgumentError, match="no velocities"):
        traj.with_transform(kn.transforms.function(lifted, fields="velocities"))
    with pytest.raises(kn.ArgumentError, match="fields are some of"):
        kn.transforms.function(lifted, fields="colours")
    with pytest.raises(kn.ArgumentError, match="selected twice"):
        traj.with_transform(kn.transforms.function(lifted, [1, 1]))
