"""`NodeCache`: a folder on a disk of this node with blocks of files; each block is fetched once per node."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kinema import _core
from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError, FileIOError
from kinema.base.input_files import check_regular, file_names
from kinema.base.notes import emit
from kinema.base.printable import counted
from kinema.base.progress import ProgressChoice, reporting
from kinema.base.resources import parse_memory, worker_count
from kinema.cache.blocks import DEFAULT_BLOCK, chosen_block
from kinema.cache.folder_settings import (
    DEFAULT_LIMIT,
    LIMIT,
    VERIFY_WHEN,
    store_setting,
    stored_limit,
    stored_setting,
)
from kinema.cache.node_files import NodeFiles
from kinema.cache.nodes import attach_nodes

AUTO = "auto"
VERIFY = ("never", "first", "always")
# by its former name
_FETCH = "fetch"


class NodeCache:
    """A cache of file blocks in a folder of this node: each block is read from the shared file system once.

    All processes of the node that name the folder share its blocks: workers of any runner, ranks, training processes,
    later runs. One process fetches a block while the others wait for it. A block is written under a temporary name with
    its checksum and then renamed, so a process that ends never leaves part of a block. The blocks of a file are valid
    as long as the file has not changed: each time it is opened, Kinema checks the file itself, not the cache. Bytes
    that the cache cannot give are read from the file. Results never differ, and a full disk does not raise an error.

    A cache can be pickled; the same path is used on each node.

    Parameters
    ----------
    root : path
        A folder that belongs to the user; created if it does not exist. Kinema refuses folders of other users, folders
        that others may write to, and shared file systems.
    limit : int or str, optional
        Bytes of all blocks. Beyond the limit the blocks that were used longest ago are removed first; if the order of
        reading is known (`kinema.ml.Loader`), the blocks that are used next are removed last. Default: the limit that
        any program last gave for this folder, or else 200 GiB.
    block : int, str or "auto"
        Bytes of a block, a multiple of 64 KiB: a block is fetched at a time. With "auto", `kinema.open` and data sets
        choose as many whole frames, chunks or samples as fit into 16 MiB. Blocks of different sizes are not shared: to
        fill the cache beforehand, give the same size.
    verify : {"first", "always", "never"}, optional
        When the checksums of a block, one for each 64 KiB, are compared: when a process first reads these 64 KiB, at
        every read, or at neither. They are always compared when a block is fetched, and after a restart of the machine.
        A damaged block is fetched again, with a note. Default: the value last given for this folder, or else "first".
    fuse : bool
        Whether `root` may be on a FUSE file system. Such a system can be another machine's; set true if it is local.

    Raises
    ------
    ArgumentError
        If the folder is refused, or a value is not a valid number.
    FileAccessError, FileIOError
        If the folder cannot be made.

    Examples
    --------
    >>> cache = kinema.cache.NodeCache("local", limit="1 GiB")
    >>> cached = kn.open("md.xtc", topology="top.psf", node_cache=cache)
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        limit: int | str | None = None,
        block: int | str = DEFAULT_BLOCK,
        verify: str | None = None,
        *,
        fuse: bool = False,
        source_rate: int | str | None = None,
    ) -> None:
        known = stored_limit(root) if limit is None else None
        if verify == _FETCH:
            emit(['verify="fetch" of a node cache is called verify="never" now'])
            verify = "never"
        kept = stored_setting(root, VERIFY_WHEN) if verify is None else verify
        # Kinema has not written a stored word that it does not know
        chosen = "first" if kept is None or (verify is None and kept not in VERIFY) else kept
        self._set_up(root, DEFAULT_LIMIT if limit is None else limit, block, chosen, fuse, source_rate, known)
        # later caches that name only the folder take these settings
        if limit is not None:
            store_setting(self._root, LIMIT, str(self._limit))
        if verify is not None:
            store_setting(self._root, VERIFY_WHEN, verify)

    def _set_up(
        self,
        root: str | os.PathLike[str],
        limit: int | str,
        block: int | str,
        verify: str,
        fuse: bool,
        source_rate: int | str | None,
        known: int | None = None,
    ) -> None:
        check_choice("verify", verify, VERIFY)
        self._root = os.path.abspath(os.fspath(root))
        self._limit = parse_bytes("limit", limit) if known is None else known
        self._block = None if block == AUTO else parse_bytes("block", block)
        self._verify = verify
        self._fuse = fuse
        # bytes a second of a simulated slow source, for tests and benchmarks
        self._source_rate = None if source_rate is None else parse_bytes("source_rate", source_rate)
        self._core = self._made(self._block or parse_memory(DEFAULT_BLOCK))

    def _made(self, block: int) -> _core.NodeCache:
        core = _core.NodeCache(self._root, self._limit, block, self._verify, self._source_rate, self._fuse)
        attach_nodes(core, self._root)
        return core

    @property
    def root(self) -> str:
        """The folder."""
        return self._root

    @property
    def limit(self) -> int:
        """Bytes of all blocks."""
        return self._limit

    @property
    def block(self) -> int | None:
        """Bytes of a block; None if the size is chosen for each file that is opened."""
        return self._block

    @property
    def verify(self) -> str:
        """When checksums are compared."""
        return self._verify

    @property
    def core(self) -> _core.NodeCache:
        """The Rust half."""
        return self._core

    def sized(self, unit: int, *, coverage: float = 1.0) -> NodeCache:
        """The same cache with a block size for reads of `unit` bytes, if the size is "auto"; else the cache itself.

        Parameters
        ----------
        unit : int
            Bytes that are read together: a frame, a chunk, a sample.
        coverage : float
            Share of the units that this node reads in an epoch, or ever.
        """
        if self._block is not None:
            return self
        block = chosen_block(unit, coverage=coverage)
        return _made_again(self._root, self._limit, block, self._verify, self._source_rate, self._fuse)

    # -- the folder -----------------------------------------------------------------------------------------------

    def fill(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        workers: int | None = None,
        progress: ProgressChoice = False,
    ) -> dict[str, Any]:
        """Fetches whole files, for example before a job computes; blocks in the cache are not fetched again.

        The call can be stopped at any time: fetched blocks stay.

        Parameters
        ----------
        paths : path or sequence of paths
        workers : int, optional
            Default: as many threads as this process may run.
        progress : bool or function

        Returns
        -------
        dict
            Counts: `files`, their `blocks` and `bytes`; `fetched_blocks` and `fetched_bytes`, which were not in the
            cache; and `not_stored`, blocks that could not be stored (with a note).

        Raises
        ------
        ArgumentError
            If the files together do not fit into `limit`, or one is not a regular file.
        FileIOError
            If no block at all could be stored.
        FileNotFound, FileAccessError, FileIOError
            As opening the files does.
        """
        names = file_names(paths)
        for name in names:
            check_regular(name, "file")
        total = sum(map(os.path.getsize, names))
        try:
            with reporting(progress, f"filling {self._root}", total, "bytes") as report:
                done: dict[str, Any] = self._core.fill(names, worker_count(workers), report)
        except BaseException as stop:
            if not isinstance(stop, Exception):
                stop.add_note(f"blocks that were fetched stay in {self._root}, and are not fetched again")
            raise
        if done["not_stored"]:
            why = self._core.last_error or "they were changed just now, or nothing can be removed for them"
            if done["not_stored"] == done["blocks"]:
                raise FileIOError(f"nothing was stored in the node cache: {why}", at=self._root)
            left = counted(done["not_stored"], "block")
            emit([f"{self._root}: {left} not in the node cache, to be read from the files themselves: {why}"])
        return done

    def stat(self) -> dict[str, Any]:
        """Contents of the folder.

        Returns
        -------
        dict
            Blocks, bytes, files as (path, blocks, bytes), temporary files; and `fetched`: files that other nodes
            published, as (path, bytes). These do not count towards `limit`.
        """
        found: dict[str, Any] = self._core.stat()
        return {**found, "fetched": NodeFiles(self._root).fetched()}

    def verify_all(self, *, progress: ProgressChoice = False) -> list[tuple[str, int, str]]:
        """Compares all blocks with their checksums, and removes damaged blocks.

        Returns
        -------
        list of (str, int, str)
            Path, offset in bytes and reason of each damaged block.
        """
        with reporting(progress, f"verifying {self._root}", self.stat()["bytes"], "bytes") as report:
            return list(self._core.verify_all(report))

    def clear(self, paths: Sequence[str | os.PathLike[str]] | None = None) -> tuple[int, int]:
        """Removes the blocks of these files, or all blocks. Reads in progress continue.

        Parameters
        ----------
        paths : sequence of paths, optional
            Default: all files.

        Returns
        -------
        blocks, size : int
            Number and bytes of the removed blocks.
        """
        names = None if paths is None else [os.path.abspath(name) for name in file_names(paths)]
        blocks, size = self._core.clear(names)
        return int(blocks), int(size)

    def clear_fetched(self) -> tuple[int, int]:
        """Removes published files of other nodes, except files being fetched.

        Returns
        -------
        files, size : int
            Number and bytes of the removed files.
        """
        return NodeFiles(self._root).clear_fetched()

    def __reduce__(self) -> tuple[Any, ...]:
        block = AUTO if self._block is None else self._block
        return _made_again, (self._root, self._limit, block, self._verify, self._source_rate, self._fuse)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeCache) and self.__reduce__()[1] == other.__reduce__()[1]

    def __hash__(self) -> int:
        return hash(self.__reduce__()[1])

    def __repr__(self) -> str:
        block = "auto" if self._block is None else f"{self._block} bytes"
        return f"<NodeCache {self._root}: blocks of {block}, at most {self._limit} bytes, verify {self._verify!r}>"


NodeCacheChoice = NodeCache | str | os.PathLike[str] | None


def cache_of(core: _core.Trajectory) -> NodeCache | None:
    """The cache with which a trajectory was opened; None if its files are read directly."""
    found: _core.NodeCache | None = core.recipe()["node_cache"]
    if found is None:
        return None
    return _made_again(found.root, found.limit, found.block, found.verify, found.source_rate, found.fuse)


def _made_again(root: str, limit: int, block: int | str, verify: str, source_rate: int | None, fuse: bool) -> NodeCache:
    cache = NodeCache.__new__(NodeCache)
    cache._set_up(root, limit, block, verify, fuse, source_rate)
    return cache


def node_cache_of(choice: NodeCacheChoice) -> NodeCache | None:
    """The cache that a user gives: a `NodeCache`, or a folder, for which all other arguments have their defaults."""
    if choice is None or isinstance(choice, NodeCache):
        return choice
    if not isinstance(choice, (str, os.PathLike)):
        raise ArgumentError(f"node_cache is a folder or a kinema.cache.NodeCache, found {type(choice).__name__}")
    return NodeCache(choice)


def parse_bytes(name: str, value: int | str) -> int:
    """As `parse_memory`, with the argument's own name in the message."""
    try:
        return parse_memory(value)
    except ArgumentError as error:
        raise ArgumentError(f"{name}{str(error).removeprefix('memory')}") from None
