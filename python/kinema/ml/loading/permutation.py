"""Keyed permutations: the whole numbers below a limit in an order given by a key; each position is computed by itself.

Construction, version 1. A number x below m is split into x = left * b + right, with a = ceil(sqrt(m)) and b = ceil(m /
a). Sixteen rounds of an alternating Feistel network on Z_a x Z_b follow: left += F(right) mod a, then right += F(left)
mod b, and so on. F is the upper half of a 64-bit mixture (two multiplications, three shifts) of the other half, the key
and the round, scaled to the modulus by a multiplication. A result of m or more (there are fewer than a of these) is put
through the same network again, which ends below m because the network is a permutation of Z_ab ("cycle walking"). All
arithmetic is on unsigned 64-bit numbers modulo 2^64, so that every machine gives the same numbers.

The idea: J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, LNCS 2271, 114-130 (generalised
Feistel network, cycle walking); M. Bellare, T. Ristenpart, P. Rogaway and T. Stegers, "Format-preserving encryption",
SAC 2009, LNCS 5867, 295-312 (alternating, on unequal halves). The constants of the mixture are those of D. Stafford's
variant 13 as in SplitMix64: G. L. Steele, D. Lea and C. H. Flood, OOPSLA 2014, 453-472. The permutation shuffles; it
does not encrypt.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

# of the construction; another construction gives other orders and has another number
VERSION = 1

_ROUNDS = 16
_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
# elements worked on at a time: few enough for the cache of a core
_AT_A_TIME = 1 << 14
# a and scaled products fit into 64 bits
_LARGEST = 1 << 62

Numbers = NDArray[np.uint64]


def derived_key(*words: int) -> int:
    """A key of 64 bits that depends on all words and their order."""
    key = _STEP
    for word in words:
        key = _mixed_word((key + (word & _MASK) * _STEP + _STEP) & _MASK)
    return key


def permuted(
    numbers: NDArray[np.int64], limit: int, key: int, tweaks: NDArray[np.uint64] | None = None
) -> NDArray[np.int64]:
    """The images of `numbers` in the permutation of range(limit) that `key` decides.

    `numbers`: int64, any number of them; from 0 to limit - 1; not checked.
    `limit`: from 1 to 2^62.
    `key`: 64 bits, of `derived_key`.
    `tweaks`: uint64, as many as numbers; numbers with different tweaks are put through different permutations.
    """
    result = np.empty(len(numbers), np.int64)
    assert len(numbers) == 0 or 1 <= limit <= _LARGEST
    for start in range(0, len(numbers), _AT_A_TIME):
        here = slice(start, start + _AT_A_TIME)
        own = None if tweaks is None else _mixed(tweaks[here] * np.uint64(_STEP) + np.uint64(key))
        result[here] = _walked(numbers[here].astype(np.uint64), limit, key, own)
    return result


def _walked(values: Numbers, limit: int, key: int, tweaks: Numbers | None) -> Numbers:
    """Puts values through the network until all are below the limit."""
    rows = math.isqrt(limit - 1) + 1
    columns = -(-limit // rows)
    values = _network(values, rows, columns, key, tweaks)
    outside = np.flatnonzero(values >= limit)
    while len(outside):
        values[outside] = _network(values[outside], rows, columns, key, None if tweaks is None else tweaks[outside])
        outside = outside[values[outside] >= limit]
    return values


def _network(values: Numbers, rows: int, columns: int, key: int, tweaks: Numbers | None) -> Numbers:
    """All rounds of the network, on range(rows * columns)."""
    left, right = np.divmod(values, np.uint64(columns))
    here, other, modulus, others_modulus = left, right, rows, columns
    for turn in range(_ROUNDS):
        round_key = np.uint64(_mixed_word((key + (turn + 1) * _STEP) & _MASK))
        shift = other + round_key
        if tweaks is not None:
            shift += tweaks
        shift = _mixed(shift)
        shift >>= np.uint64(32)
        shift *= np.uint64(modulus)
        shift >>= np.uint64(32)
        here += shift
        # values below the modulus wrap to a large number
        np.minimum(here, here - np.uint64(modulus), out=here)
        here, other, modulus, others_modulus = other, here, others_modulus, modulus
    left *= np.uint64(columns)
    left += right
    return left


def _mixed(values: Numbers) -> Numbers:
    """A bijection of 64-bit numbers that makes close numbers unlike; in place."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(_FIRST)
    values ^= values >> np.uint64(27)
    values *= np.uint64(_SECOND)
    values ^= values >> np.uint64(31)
    return values


def _mixed_word(value: int) -> int:
    """The same for one number."""
    value = ((value ^ (value >> 30)) * _FIRST) & _MASK
    value = ((value ^ (value >> 27)) * _SECOND) & _MASK
    return value ^ (value >> 31)
