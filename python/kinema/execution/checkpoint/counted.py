"""Digests of the bytes of a file that a checkpoint counts: a run does not continue if they have changed since.

Only bytes that no later write changes are digested, because a run may continue after its checkpoint was saved. The
bytes are cut into cells on a grid: up to 64 MiB all cells are read, beyond that every second, fourth, ... cell, and
always the last one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

from kinema.base.errors import CorruptFileError, TruncatedFileError, from_os, os_errors

_CELL = 1 << 20
_MOST_BYTES, _MOST_CELLS = 64 << 20, 1024
_DIGEST = 8

Run: TypeAlias = tuple[int, int]
"""First byte of a run that no longer changes, and the byte after the run."""
Digests: TypeAlias = list[tuple[int, int, str]]
"""First byte, the byte after the last one, digest in hexadecimal digits."""


class CountedBytes:
    """Digests of runs of a file; bytes that were read once are not read again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Run], str] = {}

    def digests(self, path: str, runs: Iterable[Run]) -> Digests:
        """Digests of the chosen cells of the runs. Raises as `open`; TruncatedFileError if the file ends earlier."""
        cells = _chosen(runs)
        chosen = set(cells)
        self._known = {key: digest for key, digest in self._known.items() if key[0] != path or key[1] in chosen}
        todo = [cell for cell in cells if (path, cell) not in self._known]
        for cell, digest in zip(todo, _read(path, todo), strict=True):
            self._known[path, cell] = digest
        return [(*cell, self._known[path, cell]) for cell in cells]

    @staticmethod
    def check(path: str, counted: Sequence[tuple[int, int, str]]) -> None:
        """Compares the bytes of a file with digests.

        Raises CorruptFileError or TruncatedFileError with the first bytes that differ, and as `open`.
        """
        for (start, stop, expected), found in zip(counted, _read(path, [one[:2] for one in counted]), strict=True):
            if expected != found:
                raise CorruptFileError(
                    f"byte {start}: bytes {start} to {stop - 1}, which the checkpoint counts, were changed "
                    f"since they were written, expected digest {expected}, found {found}; bring the file back as it "
                    "was, or remove the checkpoint to start again",
                    at=path,
                    offset=start,
                )


def packed(counted: Mapping[str, Digests]) -> bytes:
    """Digests by file name, as bytes to store."""
    return json.dumps(counted).encode()


def unpacked(stored: bytes) -> dict[str, Digests]:
    """The inverse of `packed`; raises ValueError for other bytes."""
    found = json.loads(stored)
    if not isinstance(found, dict):
        raise ValueError("these are not digests")
    try:
        digests = {str(name): [(int(a), int(b), str(digest)) for a, b, digest in of] for name, of in found.items()}
    except TypeError as error:
        raise ValueError(str(error)) from None
    if any(not 0 <= start < stop <= start + _CELL for of in digests.values() for start, stop, _ in of):
        raise ValueError("these are not bytes of a file")
    return digests


def _chosen(runs: Iterable[Run]) -> list[Run]:
    """Cells of the runs: at most `_MOST_CELLS` cells and `_MOST_BYTES` bytes, and the last cell."""
    cells = [
        (max(start, at), min(stop, at + _CELL))
        for start, stop in runs
        if start < stop
        for at in range(start - start % _CELL, stop, _CELL)
    ]
    # a power of two, so that the same cells are chosen again as the file grows
    too_many = max(-(-len(cells) // _MOST_CELLS), -(-sum(stop - start for start, stop in cells) // _MOST_BYTES))
    stride = 1 << max(0, too_many - 1).bit_length()
    chosen = cells[::stride]
    return chosen if not cells or chosen[-1] == cells[-1] else [*chosen, cells[-1]]


def _read(path: str, cells: Sequence[Run]) -> Iterable[str]:
    """Digests of cells, in order."""
    if not cells:
        return
    with os_errors("cannot read what was written", path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for start, stop in cells:
            digest, at = blake2b(digest_size=_DIGEST), start
            while at < stop:
                data = os.pread(descriptor, stop - at, at)
                if not data:
                    raise TruncatedFileError(
                        f"byte {at}: the file is shorter than what was written of it, expected at least "
                        f"{stop} bytes, found {at}",
                        at=path,
                        offset=at,
                    )
                digest.update(data)
                at += len(data)
            yield digest.hexdigest()
    except OSError as error:
        raise from_os("cannot read what was written", error, path=path) from None
    finally:
        os.close(descriptor)
