"""Files on a disk of this node: a cache of blocks, into which each byte of a shared file system is fetched once, and
files that one node publishes and others fetch.

Public names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinema.cache.counts import CacheCounts
    from kinema.cache.file_objects import open, open_hdf5
    from kinema.cache.node_cache import NodeCache
    from kinema.cache.nodes import SharedBlocks
    from kinema.cache.peers import NodeServer
    from kinema.cache.publishing import PublishedFile, await_ready, publish, published

# public names, by their modules
_NAMES = {
    "kinema.cache.counts": ("CacheCounts",),
    "kinema.cache.file_objects": ("open", "open_hdf5"),
    "kinema.cache.node_cache": ("NodeCache",),
    "kinema.cache.nodes": ("SharedBlocks",),
    "kinema.cache.peers": ("NodeServer",),
    "kinema.cache.publishing": ("PublishedFile", "await_ready", "publish", "published"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

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


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'kinema.cache' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
