"""Rounding of mantissas: within the bound for every value, to as few bits as the bound allows, and told in the file."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import kinema as kn
from kinema.base.notes import collected
from kinema.formats.hdf5.encoding import Preparation
from kinema.storage.hdf5.rounding import Rounding, rounding_within

BOUNDS = st.floats(1e-20, 1e20, allow_nan=False)


def exactly_within(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any], bound: float) -> bool:
    """Compared as fractions: no rounding of the comparison itself."""
    return all(
        abs(Fraction(float(a)) - Fraction(float(b))) <= Fraction(bound)
        for a, b in zip(before.flat, after.flat, strict=True)
    )


@given(
    arrays.arrays(np.float32, st.integers(1, 30), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)),
    BOUNDS,
)
@example(np.array([0.00390625, 8388607.5, 8388608.5, -16777217.0], np.float32), 2.0**-8)
@example(np.array([np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal], np.float32), 1e-20)
def test_no_value_moves_by_more_than_the_bound(values: np.ndarray[Any, Any], bound: float) -> None:
    rounding = rounding_within(bound)
    rounded = values.copy()
    rounding.apply(rounded)
    assert exactly_within(values, rounded, bound)
    again = rounded.copy()
    rounding.apply(again)
    np.testing.assert_array_equal(again, rounded)


@given(arrays.arrays(np.float64, 20, elements=st.floats(-1e6, 1e6)), st.floats(1e-6, 1e3))
def test_float64_stored_as_float32(values: np.ndarray[Any, Any], bound: float) -> None:
    preparation = Preparation(np.dtype("<f4"), 1.0, rounding_within(bound))
    out = np.empty(20, "<f4")
    try:
        preparation.check(values)
    except kn.ArgumentError:
        # only where float32 has no room for the values at this bound
        assert np.abs(values).max() > 2**23 * bound
        return
    preparation.into(values, out)
    assert exactly_within(values, out, bound)


@given(BOUNDS)
def test_the_quantum_is_the_largest_that_is_allowed(bound: float) -> None:
    quantum = Fraction(rounding_within(bound).quantum)
    assert quantum / 2 <= Fraction(bound) < quantum


def test_bits_below_the_quantum_are_zero() -> None:
    rounding = rounding_within(0.005)
    assert rounding == Rounding(-7)
    values = np.random.default_rng(5).uniform(-200, 200, 10_000).astype(np.float32)
    rounded = values.copy()
    rounding.apply(rounded)
    assert np.abs(rounded - values).max() <= 2.0**-8
    # 200 has 8 bits before the point and 7 after it: of 24 bits at least 9 are zero
    assert not (rounded.view(np.uint32) & 0x1FF).any()
    assert (rounded * 128 == np.rint(rounded * 128)).all()


def test_what_is_no_number_stays() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 1.001, 3e38, -3e38], np.float32)
    rounded = values.copy()
    rounding_within(0.3).apply(rounded)
    np.testing.assert_array_equal(rounded, np.array([np.nan, np.inf, -np.inf, 1.0, 3e38, -3e38], np.float32))


def test_rounding_without_compression_is_noted_as_by_repack(tmp_path: Path) -> None:
    with pytest.warns(kn.Note, match="without compression max_error saves nothing") as noted:
        kn.Writer(tmp_path / "plain.h5md", 3, max_error=0.01).close()
    assert len(noted) == 1 and str(noted[0].message).startswith(str(tmp_path / "plain.h5md"))
    with collected() as notes:
        kn.Writer(tmp_path / "packed.h5md", 3, max_error=0.01, compression="gzip").close()
        kn.Writer(tmp_path / "exact.h5md", 3).close()
    assert notes == []


@pytest.mark.parametrize(
    ("options", "exponent", "in_file"),
    [
        ({"max_error": 0.005}, -7, 1.0),
        ({"max_error": 0.005, "length_unit": "nm"}, -10, 10.0),
        ({"max_error": 0.0005, "unit": "nm"}, -7, 1.0),
        ({"max_error": 0.0005, "unit": "nm", "length_unit": "nm"}, -10, 10.0),
        ({"max_error": 0.005, "dtype": "float64"}, -7, 1.0),
    ],
)
def test_rounding_is_told_in_the_file(tmp_path: Path, options: dict[str, Any], exponent: int, in_file: float) -> None:
    path = tmp_path / "rounded.h5md"
    positions = np.random.default_rng(1).uniform(-90, 90, (20, 30, 3)).astype(np.float32)
    with kn.Writer(path, 30, **options) as out:
        out.write(positions, velocities=positions)
    with h5py.File(path) as h5:
        value = h5["particles/trajectory/position/value"]
        assert value.attrs["kinema_max_error"] == options["max_error"]
        assert value.attrs["kinema_max_error_unit"].decode() == options.get("unit", "angstrom")
        unit = {1.0: "Angstrom", 10.0: "nm"}[in_file]
        assert value.attrs["kinema_rounding"].decode() == f"multiples of 2^{exponent} {unit}, to the nearest"
        stored = value[:]
        assert np.array_equal(np.rint(stored * 2.0**-exponent), stored * 2.0**-exponent)
        # in the file's unit the bound holds against the values in that unit
        assert np.abs(stored - positions / np.float32(in_file)).max() <= 2.0 ** (exponent - 1)
        assert np.abs(stored * np.float64(in_file) - positions).max() <= 0.005
        # velocities are none of the bound's business
        np.testing.assert_array_equal(
            h5["particles/trajectory/velocity/value"], positions / np.dtype(stored.dtype).type(in_file)
        )
        assert "kinema_max_error" not in h5["particles/trajectory/velocity/value"].attrs


def test_values_that_float32_cannot_tell_apart(tmp_path: Path) -> None:
    positions = np.full((1, 2, 3), 1e6 + 0.01)
    with kn.Writer(tmp_path / "far.h5md", 2, max_error=0.001) as out:
        with pytest.raises(kn.ArgumentError, match=r"1e\+06 cannot be stored as float32 within max_error"):
            out.write(positions)
        assert out.n_frames == 0
    with kn.Writer(tmp_path / "wide.h5md", 2, max_error=0.001, dtype="float64") as out:
        out.write(positions)
    with h5py.File(tmp_path / "wide.h5md") as h5:
        assert np.abs(h5["particles/trajectory/position/value"][:] - positions).max() <= 0.001


def test_rounding_is_for_positions(tmp_path: Path) -> None:
    with kn.Writer(tmp_path / "none.h5md", 2, max_error=0.1) as out:
        with pytest.raises(kn.ArgumentError, match="max_error is for positions, which are not written"):
            out.write(velocities=np.zeros((2, 3)))
        out.write(np.zeros((2, 3)))


def test_rounded_positions_are_smaller(tmp_path: Path) -> None:
    positions = np.random.default_rng(2).uniform(0, 80, (50, 500, 3)).astype(np.float32)
    sizes = {}
    for name, options in (("exact", {}), ("rounded", {"max_error": 0.005})):
        path = tmp_path / f"{name}.h5md"
        with kn.Writer(path, 500, compression="gzip", **options) as out:
            out.write(positions)
        sizes[name] = path.stat().st_size
    assert sizes["rounded"] < 0.75 * sizes["exact"]
