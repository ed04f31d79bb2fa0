"""Caches of nodes that do not see each other: the file that is left when nodes write whole pages back, in any order.

A node that writes a part of a page has the rest of it as the storage had it then: NULs, if the file is new. If another
node's bytes are in the same page, the page that is written back last wins. This is the mechanism by which parallel
writing by direct access left NUL characters in files of the DL_POLY publication. A file system with locks of extents
writes a page back before another node gets it, and does not have this fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from kinema.base.errors import ArgumentError

__all__ = ["NodeWrite", "assemble_file"]


@dataclass(frozen=True)
class NodeWrite:
    """Bytes that a node writes."""

    node: int
    offset: int
    data: bytes


def assemble_file(
    file: BinaryIO, writes: Iterable[NodeWrite], page_bytes: int, write_back: Sequence[int] | None = None
) -> None:
    """Writes into an empty file what is left of the nodes' writes.

    Parameters
    ----------
    file : file opened for writing bytes
    writes : in the order in which the nodes make them
    page_bytes : size of a page; 1: the caches see each other
    write_back : the nodes in the order in which they write their pages back; by default in that of their numbers

    Raises ArgumentError if `write_back` does not have each node once.
    """
    pages: dict[int, dict[int, bytearray]] = {}
    end = 0
    for one in writes:
        own = pages.setdefault(one.node, {})
        end = max(end, one.offset + len(one.data))
        at = 0
        while at < len(one.data):
            number, within = divmod(one.offset + at, page_bytes)
            part = one.data[at : at + page_bytes - within]
            own.setdefault(number, bytearray(page_bytes))[within : within + len(part)] = part
            at += len(part)
    order = sorted(pages) if write_back is None else list(write_back)
    if sorted(order) != sorted(pages):
        raise ArgumentError(f"write_back must have each of the nodes {sorted(pages)} once, found {order}")
    for node in order:
        for number, page in sorted(pages[node].items()):
            file.seek(number * page_bytes)
            file.write(page)
    file.truncate(end)
