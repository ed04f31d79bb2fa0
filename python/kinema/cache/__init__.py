"""Files on a disk of this node: a cache of blocks, into which each byte of a shared file system is fetched once, and
files that one node publishes and others fetch.

Public names are imported on first use.
"""

from typing import TYPE_CHECKING

from kinema.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from kinema.cache.counts import CacheCounts
    from kinema.cache.file_objects import open, open_hdf5
    from kinema.cache.node_cache import NodeCache
    from kinema.cache.nodes import SharedBlocks
    from kinema.cache.peers import NodeServer
    from kinema.cache.publishing import PublishedFile, await_ready, publish, published

__all__ = [
    "CacheCounts",
    "NodeCache",
    "NodeServer",
    "PublishedFile",
    "SharedBlocks",
    "await_ready",
    "open",
    "open_hdf5",
    "publish",
    "published",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kinema.cache.counts": ("CacheCounts",),
        "kinema.cache.file_objects": ("open", "open_hdf5"),
        "kinema.cache.node_cache": ("NodeCache",),
        "kinema.cache.nodes": ("SharedBlocks",),
        "kinema.cache.peers": ("NodeServer",),
        "kinema.cache.publishing": ("PublishedFile", "await_ready", "publish", "published"),
    },
)
