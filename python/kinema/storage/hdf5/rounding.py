"""Rounding of coordinates to multiples of a power of two, whose mantissas end in zeros and compress well.

With the quantum q = 2^k, x' = q round(x / q) is exact in binary floating point as long as |x / q| has fewer bits than
the mantissa, so |x' - x| <= q / 2. The quantum is the largest power of two whose half is within the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.base.errors import ArgumentError

# note for rounding without compression
NOT_COMPRESSED = (
    "rounded positions are no smaller by themselves: without compression max_error saves nothing; choose one, as zstd, "
    "or leave max_error out"
)

# beyond, 2^-exponent or its products leave the range of float32
_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -100, 100
# elements rounded at a time: what stays in the cache
_RUN = 1 << 15


@dataclass(frozen=True)
class Rounding:
    """Rounds values to multiples of 2^`exponent`; no value moves by more than half of that."""

    exponent: int

    @property
    def quantum(self) -> float:
        """2^exponent."""
        return math.ldexp(1.0, self.exponent)

    def apply(self, values: NDArray[Any]) -> None:
        """Rounds in place; `values` is C-contiguous, float32 or float64. NaN, infinities and values that have no bits
        below the quantum stay as they are."""
        flat = values.reshape(-1)
        scale, quantum = values.dtype.type(1.0 / self.quantum), values.dtype.type(self.quantum)
        whole_from = values.dtype.type(2.0 ** (np.finfo(values.dtype).nmant))
        scaled = np.empty(min(_RUN, flat.size), values.dtype)
        for start in range(0, flat.size, _RUN):
            part = flat[start : start + _RUN]
            work = scaled[: part.size]
            with np.errstate(over="ignore", invalid="ignore"):
                np.multiply(part, scale, out=work)
                # a comparison with NaN is false; then each value is compared
                if max(work.max(), -work.min()) < whole_from:
                    np.rint(work, out=work)
                    np.multiply(work, quantum, out=part)
                else:
                    keeps = ~(np.abs(work) < whole_from)
                    np.rint(work, out=work)
                    np.multiply(work, quantum, out=work)
                    np.copyto(part, work, where=~keeps)


def rounding_within(bound: float) -> Rounding:
    """The coarsest rounding that moves no value by more than `bound`, in the unit of the values.

    Raises ArgumentError unless the bound is a positive number within the range of float32.
    """
    if isinstance(bound, bool) or not isinstance(bound, (int, float, np.floating, np.integer)):
        raise ArgumentError(f"max_error is a positive number, found {bound!r}")
    if not (math.isfinite(bound) and bound > 0):
        raise ArgumentError(f"max_error is a positive number, found {bound!r}")
    # 2 bound = m 2^e with m in [0.5, 1): the largest power of two that is not larger is 2^(e - 1)
    exponent = math.frexp(2.0 * float(bound))[1] - 1
    if not _SMALLEST_EXPONENT <= exponent <= _LARGEST_EXPONENT:
        raise ArgumentError(f"max_error={bound!r} is outside of what float32 resolves")
    return Rounding(exponent)
