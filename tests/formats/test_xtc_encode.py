"""Encoded XTC frames against libmdaxdr, the GROMACS C library, and read back by us and by chemfiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinema as kn
from kinema import _core
from kinema.testing.programs.imports import lazy, package_folder

libmdaxdr = lazy("MDAnalysis.lib.formats.libmdaxdr")

DATA = package_folder("MDAnalysisTests") / "data"
CELL = np.array([[4, 0, 0], [0.5, 5, 0], [-1, 1.25, 6]], "f4")
# from this place of its table on, libxdrf reads past the end of the table, and its output cannot be read
FIRST_UNSOUND_PLACE = 65


def write_libmdaxdr(path, positions, step, time, precision):
    with libmdaxdr.XTCFile(str(path), "w") as file:
        file.write(positions, CELL, step, time, precision)
    return path.read_bytes()


def first_place(frame, n_atoms):
    return int.from_bytes(frame[84:88], "big") if n_atoms > 9 else 0


def made_up(random):
    """Positions (nm) of a chain, of water, of a gas or of all together, and a precision."""
    n_atoms = int(random.choice([random.integers(1, 31), random.integers(31, 400)]))
    precision = float(random.choice([1, 10, 100, 997, 1000, 1e4, 1e5, 1e6]))
    # up to 2^29 integers, so that chains of steps as long remain below 2^31
    spread = 2.0 ** random.uniform(1, 29) / precision
    chain = np.cumsum(random.normal(0, spread / n_atoms, (n_atoms, 3)) * random.choice([0.1, 1], (n_atoms, 1)), axis=0)
    gas = random.uniform(-0.5, 0.5, (n_atoms, 3)) * spread
    molecules = np.repeat(gas[::3], 3, axis=0)[:n_atoms]
    water = molecules + random.normal(0, 0.01, (n_atoms, 3)) * spread
    parts = np.array([chain, water, gas, np.zeros_like(gas), np.floor(gas)])
    kind = int(random.integers(0, 6))
    which = random.integers(0, len(parts), n_atoms) if kind == 5 else np.full(n_atoms, kind)
    return parts[which, np.arange(n_atoms)].astype("f4"), precision


def test_thousands_of_random_frames_have_the_bytes_of_libmdaxdr(tmp_path):
    compared = 0
    for seed in range(3000):
        positions, precision = made_up(np.random.default_rng(seed))
        expected = write_libmdaxdr(tmp_path / "one.xtc", positions, seed - 1000, seed / 3, precision)
        found = _core._encode_xtc_frame(positions, CELL.tolist(), seed - 1000, seed / 3, precision)
        if first_place(expected, len(positions)) < FIRST_UNSOUND_PLACE:
            assert found == expected, f"seed {seed}: {len(positions)} atoms, precision {precision}"
            compared += 1
        if len(positions) > 9:
            assert _core._reencode_xtc_frame(found, len(positions)) == found, f"seed {seed}"
    assert compared > 2800


@given(
    st.lists(st.tuples(*[st.integers(-(2**19), 2**19)] * 3), min_size=10, max_size=60),
    st.sampled_from([1.0, 10.0, 1000.0, 4096.0]),
)
def test_any_integers_have_the_bytes_of_libmdaxdr(tmp_path_factory, integers, precision):
    path = tmp_path_factory.getbasetemp() / "hypothesis.xtc"
    positions = (np.array(integers, "f8") / precision).astype("f4")
    expected = write_libmdaxdr(path, positions, 0, 0.0, precision)
    assert _core._encode_xtc_frame(positions, CELL.tolist(), 0, 0.0, precision) == expected


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.xtc")), ids=lambda path: path.name)
def test_every_real_file_re_encodes_to_itself(path):
    content = path.read_bytes()
    at = 0
    with libmdaxdr.XTCFile(str(path)) as file:
        n_atoms = file.n_atoms
        for frame in file:
            found = _core._encode_xtc_frame(frame.x, frame.box.tolist(), frame.step, frame.time, frame.prec or 1000.0)
            assert found == content[at : at + len(found)], f"frame at byte {at}"
            assert _core._reencode_xtc_frame(found, n_atoms) == (found if n_atoms > 9 else None)
            at += len(found)
    assert at == len(content) > 0


def test_frames_are_read_back(tmp_path):
    import chemfiles

    random = np.random.default_rng(16)
    positions = np.cumsum(random.normal(0, 0.1, (2, 500, 3)), axis=1).astype("f4")
    ours = []
    for long in (False, True):
        frames = [
            _core._encode_xtc_frame(one, CELL.tolist(), i, i / 2, 1000.0, long) for i, one in enumerate(positions)
        ]
        path = tmp_path / f"{long}.xtc"
        path.write_bytes(b"".join(frames))
        ours.append(kn.open(path).read())
    np.testing.assert_allclose(ours[0], positions * 10, rtol=0, atol=0.00502)
    # of magic 2023
    np.testing.assert_array_equal(ours[1], ours[0])
    # chemfiles 0.10.4 reads magic 1995 only
    with chemfiles.Trajectory(str(tmp_path / "False.xtc")) as trajectory:
        read = [trajectory.read() for _ in range(trajectory.nsteps)]
        # positions are views into frames, which must live as long
        theirs = np.array([frame.positions for frame in read])
    np.testing.assert_allclose(theirs, ours[0], rtol=0, atol=2e-5)


def test_a_selection_keeps_the_integers(tmp_path):
    """Atoms of water in a cell of 50 nm at precision 10^6, which float32 does not hold."""
    random = np.random.default_rng(5)
    positions = random.uniform(0, 50, (300, 3)).astype("f4")
    frame = _core._encode_xtc_frame(positions, CELL.tolist(), 1, 2.0, 1e6)
    atoms = list(range(0, 300, 3))
    part = _core._reencode_xtc_frame(frame, 300, atoms)
    (tmp_path / "part.xtc").write_bytes(part)
    (tmp_path / "whole.xtc").write_bytes(frame)
    found, whole = (kn.open(tmp_path / f"{name}.xtc").read()[0] for name in ("part", "whole"))
    np.testing.assert_array_equal(found, whole[atoms])
    assert _core._reencode_xtc_frame(part, 100) == part


def test_what_cannot_be_stored_is_refused():
    positions = np.zeros((12, 3), "f4")
    positions[7, 1] = np.nan
    what = r"y of atom 8 \(counted from 1\) cannot be stored at precision 1000, .* found NaN nm"
    with pytest.raises(kn.ArgumentError, match=what):
        _core._encode_xtc_frame(positions, CELL.tolist(), 0, 0.0, 1000.0)
    with pytest.raises(kn.CorruptFileError, match=r"XTC.* wrong atom count, expected 11, found 12"):
        _core._reencode_xtc_frame(_core._encode_xtc_frame(np.zeros((12, 3), "f4"), CELL.tolist(), 0, 0.0, 1000.0), 11)
