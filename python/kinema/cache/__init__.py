"""Files near where they are computed with: what is published on one node, and fetched once by another."""

from kinema.cache.peers import NodeServer
from kinema.cache.publishing import PublishedFile, await_ready, publish, published

__all__ = ["NodeServer", "PublishedFile", "await_ready", "publish", "published"]
