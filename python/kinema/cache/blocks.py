"""Block sizes: bytes that a cache fetches for each byte used, and the choice of a size.

A block is always fetched whole. That costs nothing if all of a file is read. A node that reads some samples at random,
such as one of several nodes that share an epoch, fetches nearly all blocks for few bytes.
"""

from __future__ import annotations

DEFAULT_BLOCK = "16 MiB"
LARGEST_BLOCK = 16 << 20
# a smaller request of a parallel file system takes longer than the transfer of its bytes
_SMALLEST = 256 << 10
_STEP = 64 << 10
# largest acceptable read amplification (bytes fetched / bytes used)
_MOST = 1.1


def amplification(unit: int, block: int, coverage: float = 1.0) -> float:
    """Bytes fetched for each byte used, if a node reads a random share of the units for the first time.

    `unit`: bytes that are read together: a sample, a frame.
    `coverage`: share of the units that the node reads, above 0 and at most 1.

    Notes
    -----
    Units are drawn independently. A block is touched by the units within it and by one that lies across its border.
    """
    touching = 1 + block / unit
    return float((1 - (1 - coverage) ** touching) / coverage)


def chosen_block(unit: int, *, coverage: float = 1.0) -> int:
    """Bytes of a block: as many whole units as fit into 16 MiB; fewer if over a tenth too much would be fetched.

    The size is rounded up to 64 KiB: a unit that lies across a border is read from two blocks.
    """
    unit = max(1, unit)
    number = max(1, LARGEST_BLOCK // unit)
    while number > 1 and number * unit > _SMALLEST and amplification(unit, number * unit, coverage) > _MOST:
        number = max(1, number // 2)
    block = min(max(number * unit, _SMALLEST), LARGEST_BLOCK)
    return -(-block // _STEP) * _STEP


def explain_blocks(unit: int, block: int, *, size: int, limit: int, batch: int, coverage: float = 1.0) -> list[str]:
    """Describes in words how much a cold first epoch in exact random order fetches.

    `size`: bytes of the files; `limit`: bytes of the cache; `batch`: units of a batch; `coverage` as in
    `amplification`.
    """
    shares = [share for share in dict.fromkeys((coverage, 1 / 8, 1 / 64)) if share <= coverage]
    fetched = ", ".join(f"{amplification(unit, block, share):.2f} of {_share(share)}" for share in shares)
    first = min(batch * (block + unit), size)
    lines = [
        f"blocks of {block} bytes, exact random order: bytes that a first epoch fetches for each useful byte, by the "
        f"share of samples that this node reads: {fetched}; the first batch fetches up to {first} bytes"
    ]
    best = chosen_block(unit, coverage=coverage)
    if amplification(unit, block, coverage) > _MOST and best < block:
        better = amplification(unit, best, coverage)
        lines.append(f"block={best} would fetch {better:.2f}; an order by windows reads whole blocks")
    if size > limit:
        again = (1 - limit / size) * (1 + block / unit)
        lines.append(
            f"the files have {size} bytes, the cache holds {limit}: in exact random order later epochs fetch about "
            f"{again:.2f} bytes for each useful byte; an order by windows, or a larger limit, avoids that"
        )
    return lines


def _share(share: float) -> str:
    return "all" if share == 1 else f"1/{1 / share:.3g}"
