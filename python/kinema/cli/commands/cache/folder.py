"""The option that all commands of this group share: the folder of the cache."""

from pathlib import Path
from typing import Annotated

import typer

from kinema.base.errors import ArgumentError
from kinema.cache.folder_settings import INSIDE
from kinema.cache.node_cache import NodeCache

Folder = Annotated[
    Path,
    typer.Option("--node-cache", metavar="DIR", help="Folder of the cache, on a disk of this node."),
]


def existing(folder: Path) -> NodeCache:
    """The cache in a folder. Raises ArgumentError if there is none; it never makes one."""
    if not (folder / INSIDE).is_dir():
        raise ArgumentError(f"{folder}: there is no node cache; kinema cache fill makes one", path=str(folder))
    return NodeCache(folder)
