"""Estimators of correlated series: exact values of an AR(1) process, formulas by brute force, circular moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.statistics import (
    block_error,
    circular_moments,
    detect_equilibration,
    statistical_inefficiency,
)
from kinema.statistics.estimators import _inefficiencies, _length_of_fft


def correlated(number: int, inefficiency: float, seed: int = 1) -> Any:
    """An AR(1) series of variance 1, whose statistical inefficiency is known."""
    share = (inefficiency - 1) / (inefficiency + 1)
    noise = np.random.default_rng(seed).normal(size=number) * np.sqrt(1 - share**2)
    values = np.empty(number)
    values[0] = noise[0] / np.sqrt(1 - share**2)
    for i in range(1, number):
        values[i] = share * values[i - 1] + noise[i]
    return values


def exact_error(number: int, inefficiency: float) -> float:
    """The standard error of the mean of `correlated`."""
    share = (inefficiency - 1) / (inefficiency + 1)
    lags = np.arange(1, number)
    return float(np.sqrt((1 + 2 * np.sum((1 - lags / number) * share**lags)) / number))


def inefficiency_by_sums(values: Any) -> float:
    """The definition, lag by lag."""
    number, deviations = len(values), values - np.mean(values)
    variance = np.mean(deviations**2)
    found = 1.0
    for lag in range(1, number):
        correlation = np.sum(deviations[:-lag] * deviations[lag:]) / ((number - lag) * variance)
        if correlation <= 0:
            break
        found += 2 * correlation * (1 - lag / number)
    return found


@pytest.mark.parametrize("number", [2, 3, 10, 97, 1000])
@pytest.mark.parametrize("inefficiency", [1.0, 8.0])
def test_inefficiency_is_that_of_the_definition(number: int, inefficiency: float) -> None:
    values = correlated(number, inefficiency, seed=number)
    assert statistical_inefficiency(values) == pytest.approx(inefficiency_by_sums(values), rel=1e-9)


def test_long_correlations_are_left_to_transforms() -> None:
    # its correlation lasts longer than the lags that are summed one by one
    values = np.sin(np.arange(4000.0) * (2 * np.pi / 6000.0)) + 0.01 * correlated(4000, 1.0)
    assert statistical_inefficiency(values) == pytest.approx(inefficiency_by_sums(values), rel=1e-9)
    drift = np.arange(3000.0)
    assert statistical_inefficiency(drift) == pytest.approx(inefficiency_by_sums(drift), rel=1e-9)


def test_inefficiency_of_an_ar1_process() -> None:
    found = [statistical_inefficiency(correlated(20_000, 9.0, seed)) for seed in range(5)]
    assert np.mean(found) == pytest.approx(9.0, rel=0.1)
    assert statistical_inefficiency(np.random.default_rng(3).normal(size=20_000)) == pytest.approx(1.0, abs=0.05)


def test_lengths_of_transforms() -> None:
    lengths = [_length_of_fft(least) for least in range(1, 400)]
    smooth = sorted(2**a * 3**b * 5**c for a in range(11) for b in range(7) for c in range(5))
    assert lengths == [next(one for one in smooth if one >= least) for least in range(1, 400)]


@pytest.mark.parametrize("inefficiency", [1.0, 9.0])
def test_block_error_of_an_ar1_process(inefficiency: float) -> None:
    found = [block_error(correlated(20_000, inefficiency, seed)) for seed in range(6)]
    assert all(one.has_plateau for one in found)
    assert np.mean([one.error for one in found]) == pytest.approx(exact_error(20_000, inefficiency), rel=0.08)
    assert all(one.n_blocks == 20_000 // one.block_length >= 8 for one in found)


def test_block_errors_are_those_of_flyvbjerg_and_petersen() -> None:
    values = correlated(1001, 5.0)
    found = block_error(values)
    for level, length in enumerate(found.lengths):
        blocks = values[: 1001 // length * length].reshape(-1, length).mean(axis=1)
        expected = np.sqrt(np.mean((blocks - blocks.mean()) ** 2) / (len(blocks) - 1))
        assert found.errors[level] == pytest.approx(expected, rel=1e-9)
        assert found.uncertainties[level] == pytest.approx(expected / np.sqrt(2 * (len(blocks) - 1)), rel=1e-9)
    assert list(found.lengths) == [2**level for level in range(9)]


def test_a_short_run_has_a_lower_bound() -> None:
    for seed in range(5):
        found = block_error(correlated(500, 200.0, seed))
        assert not found.has_plateau
        assert found.error == found.errors[found.lengths <= 500 / 8].max() < exact_error(500, 200.0) * 1.5
    drift = block_error(np.arange(5000.0))
    assert not drift.has_plateau and drift.n_blocks >= 8


def test_equal_values() -> None:
    # 0.1 + 0.1 + 0.1 is not 3 times 0.1
    found = block_error([0.1] * 300)
    assert (found.error, found.has_plateau) == (0.0, False)
    assert statistical_inefficiency([0.1] * 300) == 300
    assert detect_equilibration([0.1] * 300).start == 0
    single = block_error([2.0])
    assert np.isnan(single.error) and not single.has_plateau and len(single.errors) == 0


def test_equilibration_is_the_start_with_most_independent_values() -> None:
    values = np.concatenate([np.linspace(20.0, 0.0, 25), np.zeros(75)]) + correlated(100, 2.0)
    independent = [(len(values) - start) / inefficiency_by_sums(values[start:]) for start in range(99)]
    found = detect_equilibration(values)
    assert found.start == int(np.argmax(independent))
    assert found.n_effective == pytest.approx(max(independent), rel=1e-9)
    assert 15 <= found.start <= 30
    # every fourth place
    coarse = detect_equilibration(values, n_origins=25)
    assert coarse.start == 4 * int(np.argmax(independent[::4]))


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("inefficiency", [1.0, 30.0])
def test_inefficiencies_of_many_starts_at_once(offset: float, inefficiency: float) -> None:
    values = correlated(3000, inefficiency) + offset + 40.0 * np.exp(-np.arange(3000) / 100.0)
    values[2900:] = values[2900]
    origins = np.arange(0, 2999, 37)
    expected = [inefficiency_by_sums(values[start:]) if start < 2900 else 3000 - start for start in origins]
    np.testing.assert_allclose(_inefficiencies(values, origins), expected, rtol=1e-6)


def test_circular_moments() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(5).normal(175.0, 12.0, size=500)
    wrapped = (values + 180.0) % 360.0 - 180.0
    found = circular_moments(wrapped)
    assert found.mean == pytest.approx(scipy_stats.circmean(wrapped, high=180, low=-180), abs=1e-9)
    assert found.deviation == pytest.approx(scipy_stats.circstd(wrapped, high=180, low=-180), abs=1e-9)
    # of a narrow distribution: as of the same values that do not wrap
    assert found.mean == pytest.approx(values.mean(), abs=0.05)
    assert block_error(found.linearised).error == pytest.approx(block_error(values).error, rel=0.05)
    assert found.linearised.mean() == pytest.approx(0.0, abs=1e-9)
    shifted = circular_moments(wrapped + 720.0)
    assert shifted.mean == pytest.approx(found.mean, abs=1e-9)
    assert circular_moments(wrapped / 360.0, period=1.0).mean == pytest.approx(found.mean / 360.0, abs=1e-12)


def test_directions_that_cancel_have_no_mean() -> None:
    found = circular_moments([0.0, 90.0, 180.0, 270.0])
    assert np.isnan(found.mean) and np.isinf(found.deviation)


@pytest.mark.parametrize(
    ("values", "message"),
    [([], "are empty"), ([[1.0]], r"the shape \(1, 1\)"), ([1.0, np.nan], "found nan at place 1"), ([np.inf], "inf")],
)
def test_bad_values_are_refused(values: Any, message: str) -> None:
    for estimator in (statistical_inefficiency, block_error, detect_equilibration, circular_moments):
        with pytest.raises(kn.ArgumentError, match=message):
            estimator(values)


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(kn.ArgumentError, match="n_origins is a whole number"):
        detect_equilibration([1.0, 2.0], n_origins=0)
    with pytest.raises(kn.ArgumentError, match="period is a finite number above 0"):
        circular_moments([1.0], period=0.0)
