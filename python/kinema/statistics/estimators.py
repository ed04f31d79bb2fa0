"""Estimators of a correlated series: statistical inefficiency, standard error by blocks, start of equilibrium.

Each takes the values of one quantity, equally spaced in time; NumPy alone computes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.base.choices import positive_number, whole_number
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# fewer blocks say too little about the spread of their means: the error of an error from 8 blocks is a quarter of it
_FEWEST_BLOCKS = 8
# with fewer independent values, errors of 1 in 10 series stop growing by chance
_FEWEST_INDEPENDENT = 50
# lags that are summed one by one; from more of them on, transforms are faster
_LAGS_AT_ONCE = 512
# a mean direction this short is rounding
_SHORTEST_DIRECTION = 1e-12


def finite_series(values: ArrayLike, what: str = "values") -> NDArray[np.float64]:
    """(values,) float64; raises ArgumentError, which names `what`, for other shapes, no values, and values that are not
    finite, with the place of the first."""
    found = np.asarray(values, np.float64)
    if found.ndim != 1:
        raise ArgumentError(f"{what} have the shape {found.shape}, expected one number for each frame")
    if not len(found):
        raise ArgumentError(f"{what} are empty, expected one number for each frame")
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        raise ArgumentError(f"{what} must be finite, found {found[bad[0]]:g} at place {bad[0]}")
    return found


def statistical_inefficiency(values: ArrayLike) -> float:
    """The number g of values that are worth one independent value.

    g = 1 + 2 sum (1 - t/T) C(t) over the lags t = 1, 2, ... before the first with C(t) <= 0, where C is the normalised
    autocorrelation function of the T values. A series of equal values has g = T: it shows one value.

    Parameters
    ----------
    values : (T,) array_like
        Equally spaced in time.

    Returns
    -------
    float
        1 for independent values. The standard error of the mean is about deviation * sqrt(g / T).

    Raises
    ------
    ArgumentError
        For no values, or values that are not finite.

    References
    ----------
    J. D. Chodera, W. C. Swope, J. W. Pitera, C. Seok, K. A. Dill, J. Chem. Theory Comput. 3, 26 (2007).

    Examples
    --------
    >>> kn.statistics.statistical_inefficiency([1.0, 2.0, 1.0, 2.0])
    1.0
    """
    return _whole_inefficiency(finite_series(values))


def _whole_inefficiency(values: NDArray[np.float64]) -> float:
    return float(_inefficiencies(values, np.zeros(1, np.int64))[0])


def _inefficiency_by_transform(values: NDArray[np.float64]) -> float:
    number = len(values)
    deviations = values - values.mean()
    # padded by zeros, so that no product wraps around
    length = _length_of_fft(2 * number)
    spectrum = np.fft.rfft(deviations, length)
    sums = np.fft.irfft(np.abs(spectrum) ** 2, length)[:number]
    lags = np.arange(number)
    correlation = sums / (number - lags) * (number / sums[0])
    ends = np.flatnonzero(correlation[1:] <= 0)
    last = int(ends[0]) + 1 if len(ends) else number
    return float(1.0 + 2.0 * np.sum((1.0 - lags[1:last] / number) * correlation[1:last]))


def _length_of_fft(least: int) -> int:
    """The smallest length from `least` on that has the factors 2, 3 and 5 alone."""
    best = 1 << (least - 1).bit_length()
    five = 1
    while five < best:
        odd = five
        while odd < best:
            best = min(best, odd << max(0, (-(-least // odd) - 1).bit_length()))
            odd *= 3
        five *= 5
    return best


@dataclass(frozen=True, eq=False)
class BlockError:
    """The standard error of a mean, from blocks of consecutive values.

    Attributes
    ----------
    error : float
        Standard error of the mean; nan for a single value.
    has_plateau : bool
        Whether the error stops growing with the length of blocks. If not, `error` is a lower bound: the series is too
        short for its correlation time.
    block_length, n_blocks : int
        Values of a block, and blocks, that gave the error.
    lengths, errors, uncertainties : (levels,) arrays
        Block lengths 1, 2, 4, ..., the standard error from each, and the uncertainty of that error.
    """

    error: float
    has_plateau: bool
    block_length: int
    n_blocks: int
    lengths: NDArray[np.int64]
    errors: NDArray[np.float64]
    uncertainties: NDArray[np.float64]


def block_error(values: ArrayLike) -> BlockError:
    """The standard error of the mean of a correlated series, from blocks whose length doubles until it has a plateau.

    The error of n blocks is sqrt(c / (n - 1)) (1 +- 1 / sqrt(2 (n - 1))), with c the variance of the means of blocks of
    B consecutive values (Flyvbjerg and Petersen). The plateau begins at the shortest blocks with
    B^3 > 2 T (error / error of B = 1)^4 (Wolff; Lee and others), if there are at least 8 of them, and if T is at least
    50 times the statistical inefficiency. Values at the end that do not fill a block are left out. Without a plateau,
    the error is the largest of those from at least 8 blocks: a lower bound.

    Parameters
    ----------
    values : (T,) array_like
        Equally spaced in time.

    Raises
    ------
    ArgumentError
        For no values, or values that are not finite.

    References
    ----------
    H. Flyvbjerg, H. G. Petersen, J. Chem. Phys. 91, 461 (1989).
    U. Wolff, Comput. Phys. Commun. 156, 143 (2004).
    R. M. Lee, G. J. Conduit, N. Nemec, P. Lopez Rios, N. D. Drummond, Phys. Rev. E 83, 066706 (2011).

    Examples
    --------
    >>> found = kn.statistics.block_error(np.random.default_rng(1).normal(size=10_000))
    >>> f"{found.error:.3f}", found.has_plateau
    ('0.010', True)
    """
    series = means = finite_series(values)
    number = len(series)
    lengths: list[int] = []
    errors: list[float] = []
    while len(means) > 1:
        lengths.append(1 << len(lengths))
        # exactly 0 for equal values, whose mean is rounded
        spread = 0.0 if means.min() == means.max() else float(np.var(means))
        errors.append(math.sqrt(spread / (len(means) - 1)))
        pairs = means[: len(means) // 2 * 2].reshape(-1, 2)
        means = pairs.mean(axis=1)
    if not errors:
        nothing = np.empty(0)
        return BlockError(math.nan, False, 1, 1, np.empty(0, np.int64), nothing, nothing)
    found, counts = np.array(errors), number // np.array(lengths)
    trusted = max(1, int(np.sum(counts >= _FEWEST_BLOCKS)))
    level = _first_of_plateau(number, np.array(lengths[:trusted]), counts[:trusted], found[:trusted])
    has_plateau = level is not None and number >= _FEWEST_INDEPENDENT * _whole_inefficiency(series)
    if level is None or not has_plateau:
        level = int(np.argmax(found[:trusted]))
    return BlockError(
        error=errors[level],
        has_plateau=has_plateau,
        block_length=lengths[level],
        n_blocks=int(counts[level]),
        lengths=np.array(lengths, np.int64),
        errors=found,
        uncertainties=found / np.sqrt(2.0 * (counts - 1)),
    )


def _first_of_plateau(
    number: int, lengths: NDArray[np.int64], counts: NDArray[np.int64], errors: NDArray[np.float64]
) -> int | None:
    """The first level whose error no longer grows with the length of blocks; None if there is none."""
    if errors[0] == 0:
        return None
    growth = (errors / errors[0]) ** 4
    long = np.flatnonzero((counts >= _FEWEST_BLOCKS) & (lengths**3.0 > 2.0 * number * growth))
    return int(long[0]) if len(long) else None


@dataclass(frozen=True)
class Equilibration:
    """The part of a series that is in equilibrium.

    Attributes
    ----------
    start : int
        The first value of it, from 0.
    inefficiency : float
        Statistical inefficiency of the values from there on.
    n_effective : float
        Their number divided by it: the number of independent values.
    """

    start: int
    inefficiency: float
    n_effective: float


def detect_equilibration(values: ArrayLike, *, n_origins: int = 100) -> Equilibration:
    """The start of equilibrium: the one that leaves the largest number of independent values.

    Starts are tried at `n_origins` equally spaced places, so that the resolution is a hundredth of the series.

    Parameters
    ----------
    values : (T,) array_like
        Equally spaced in time.
    n_origins : int
        Number of starts that are tried; T or more: all.

    Raises
    ------
    ArgumentError
        For no values, values that are not finite, or `n_origins` below 1.

    References
    ----------
    J. D. Chodera, J. Chem. Theory Comput. 12, 1799 (2016).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> drift = np.concatenate([np.linspace(9.0, 0.0, 200), np.zeros(800)])
    >>> kn.statistics.detect_equilibration(drift + rng.normal(size=1000)).start
    180
    """
    found = finite_series(values)
    step = -(-len(found) // whole_number("n_origins", n_origins))
    origins = np.arange(0, max(1, len(found) - 1), step)
    inefficiencies = _inefficiencies(found, origins)
    n_effective = (len(found) - origins) / inefficiencies
    best = int(np.argmax(n_effective))
    return Equilibration(int(origins[best]), float(inefficiencies[best]), float(n_effective[best]))


def _inefficiencies(values: NDArray[np.float64], origins: NDArray[np.int64]) -> NDArray[np.float64]:
    """(origins,) statistical inefficiency of the values from each origin on.

    Sums of one lag are made for all origins at once. Origins whose correlation lasts longer than `_LAGS_AT_ONCE` are
    left to transforms.
    """
    number = len(values)
    lengths = (number - origins).astype(np.float64)
    # about the mean of the second half: sums of the last values are then small numbers
    shifted = values - values[number // 2 :].mean()
    sums = np.concatenate([[0.0], np.cumsum(shifted[::-1])])  # of the last values
    means = sums[number - origins] / lengths
    variances = _sums_from(shifted * shifted, origins) / lengths - means**2
    equal = np.minimum.accumulate(values[::-1])[::-1][origins] == np.maximum.accumulate(values[::-1])[::-1][origins]
    found = np.where(equal, lengths, 1.0)
    active = np.flatnonzero(~equal & (lengths > 1))
    for lag in range(1, min(number, _LAGS_AT_ONCE + 1)):
        active = active[lengths[active] > lag]
        if not len(active):
            return found
        at = origins[active]
        products = _sums_from(shifted[at[0] : number - lag] * shifted[at[0] + lag :], at - at[0])
        mean, left = means[active], lengths[active] - lag
        both = sums[number - at] - sums[lag] + sums[number - at - lag]
        covariances = products - mean * both + left * mean**2
        correlations = covariances / (left * variances[active])
        positive = correlations > 0
        found[active[positive]] += 2.0 * (1.0 - lag / lengths[active][positive]) * correlations[positive]
        active = active[positive]
    for k in active:
        found[k] = _inefficiency_by_transform(values[origins[k] :])
    return found


def _sums_from(values: NDArray[np.float64], origins: NDArray[np.int64]) -> NDArray[np.float64]:
    """(origins,) sum of the values from each of ascending origins on."""
    return np.asarray(np.cumsum(np.add.reduceat(values, origins)[::-1])[::-1])


@dataclass(frozen=True, eq=False)
class CircularMoments:
    """Mean and deviation of periodic values, such as dihedral angles.

    Attributes
    ----------
    mean : float
        Direction of the mean of the unit vectors, from -period / 2 to period / 2; nan if they cancel.
    deviation : float
        Circular standard deviation, sqrt(-2 ln R) period / (2 pi), with R the length of that mean.
    linearised : (values,) float64
        The part of each value in the mean: sin(value - mean) / R, in the unit of the values. Its standard error is,
        to first order, the standard error of the circular mean.
    """

    mean: float
    deviation: float
    linearised: NDArray[np.float64]


def circular_moments(values: ArrayLike, period: float = 360.0) -> CircularMoments:
    """The circular mean and standard deviation of values that repeat after `period`.

    Raises
    ------
    ArgumentError
        For no values, values that are not finite, or a period that is not above 0.

    References
    ----------
    K. V. Mardia, P. E. Jupp, Directional Statistics, Wiley (2000).

    Examples
    --------
    >>> round(kn.statistics.circular_moments([170.0, -170.0]).mean)
    180
    """
    found, per_radian = finite_series(values), positive_number("period", period) / (2.0 * math.pi)
    angles = found / per_radian
    mean: Any = np.mean(np.exp(1j * angles))
    length = float(abs(mean))
    if length < _SHORTEST_DIRECTION:
        return CircularMoments(math.nan, math.inf, np.zeros(len(found)))
    direction = math.atan2(mean.imag, mean.real)
    deviation = math.sqrt(max(0.0, -2.0 * math.log(min(1.0, length)))) * per_radian
    return CircularMoments(direction * per_radian, deviation, np.sin(angles - direction) / length * per_radian)
