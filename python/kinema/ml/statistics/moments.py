"""`Moments`: count, mean, squared deviations, minimum and maximum of values, merged in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of `count` values for each feature; arrays have the shape of the features, float64.

    They merge as in Chan, Golub and LeVeque (1979). The result depends on the order, which is the order of the samples.
    """

    count: int
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    """Sums of the squared deviations from the mean."""
    least: NDArray[np.float64]
    largest: NDArray[np.float64]

    @classmethod
    def from_core(cls, found: Mapping[str, Any], shape: tuple[int, ...] = (-1,)) -> Moments:
        """The moments that the core returns, with the features in `shape`."""
        arrays = (found[name].reshape(shape) for name in ("mean", "squares", "least", "largest"))
        return cls(int(found["count"]), *arrays)

    @classmethod
    def from_values(cls, values: NDArray[Any]) -> Moments:
        """Moments of values in memory, (n, ...), at least one: the mean first, then the deviations from it."""
        exact = values.astype(np.float64)
        mean = exact.mean(axis=0)
        return cls(len(exact), mean, ((exact - mean) ** 2).sum(axis=0), exact.min(axis=0), exact.max(axis=0))

    def merged(self, later: Moments) -> Moments:
        """Moments of the values of both."""
        if not later.count or not self.count:
            return self if self.count else later
        count = self.count + later.count
        delta = later.mean - self.mean
        share = later.count / count
        return Moments(
            count,
            self.mean + delta * share,
            self.squares + (later.squares + delta * delta * (self.count * share)),
            np.minimum(self.least, later.least),
            np.maximum(self.largest, later.largest),
        )

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation: the root of the mean squared deviation (divided by `count`, as `numpy.std`)."""
        return np.sqrt(self.squares / max(1, self.count))

    @property
    def rms(self) -> float:
        """Root of the mean square of all features together."""
        squares = np.mean(self.squares / max(1, self.count) + self.mean**2)
        return float(np.sqrt(squares))

    @property
    def is_finite(self) -> bool:
        """Whether all values were finite, with squares that float64 holds."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.squares).all())

    def to_json(self) -> dict[str, Any]:
        """The moments as lists of numbers, which read back to the same bits."""
        arrays = {name: getattr(self, name) for name in ("mean", "squares", "least", "largest")}
        return {
            "count": self.count,
            "shape": list(self.mean.shape),
            **{name: array.reshape(-1).tolist() for name, array in arrays.items()},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Moments:
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError for other content."""
        shape = tuple(int(length) for length in content["shape"])
        names = ("mean", "squares", "least", "largest")
        arrays = (np.array(content[name], np.float64).reshape(shape) for name in names)
        return cls(int(content["count"]), *arrays)
