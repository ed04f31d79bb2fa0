"""`NodeCache`: a folder on a disk of this node with blocks of files, which each are fetched once a node."""

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

__all__ = ["AUTO", "NodeCache", "NodeCacheChoice", "cache_of", "node_cache_of"]

AUTO = "auto"
VERIFY = ("never", "first", "always")
# by its former name
_FETCH = "fetch"


class NodeCache:
    """Blocks of files in a folder of this node: each is read from the shared file system once, whoever asks first.

        cache = kinema.cache.NodeCache("/local/scratch/kinema", limit="500 GiB")
        traj = kn.open("/shared/md.xtc", topology="top.psf", node_cache=cache)

    All processes of the node that name the folder share its blocks: workers of any runner, ranks, training processes,
    later runs. A block is fetched by one of them while the others wait for it, written under a temporary name with its
    checksum and renamed, so that no end of a process leaves a part of one. The blocks of a file count as long as it is
    what it was: it is compared with the file itself, not with the cache, whenever it is opened. What the cache cannot
    give is read from the file: its results never differ, and a full disk is no error.

    It can be pickled; the same path is used on each node.

    Parameters
    ----------
    root : path
        A folder of the user's own, made where it is not there. Refused are folders of others, those that others may
        write, and shared file systems.
    limit : int or str, optional
        Bytes of all blocks: beyond it blocks are removed, those that are used next last of all where the order is
        known (`kinema.ml.Loader`), else those that were used longest ago. By default what was given last for this
        folder, by any program, or else 200 GiB.
    block : int, str or "auto"
        Bytes of a block: what is fetched at a time, a multiple of 64 KiB. "auto": `kinema.open` and data sets choose:
        as many whole frames, chunks or samples as 16 MiB hold. Blocks of another size are other blocks: who fills the
        cache before names the same.
    verify : {"first", "always", "never"}, optional
        When the checksums of a block, one for each 64 KiB, are compared: when a process first reads these 64 KiB, with
        every read, or at neither. They are always compared when a block is fetched, and after the machine has started
        again. A damaged block is fetched again, and noted. By default what was given last for this folder, or else
        "first".
    fuse : bool
        Whether `root` may be on a FUSE file system, which can be another machine's: true where it is known to be local.

    Raises
    ------
    ArgumentError
        For a folder that is refused, and numbers that are none.
    FileAccessError, FileIOError
        Where the folder cannot be made.
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
        # what is stored and is no word of ours is not ours
        chosen = "first" if kept is None or (verify is None and kept not in VERIFY) else kept
        self._set_up(root, DEFAULT_LIMIT if limit is None else limit, block, chosen, fuse, source_rate, known)
        # whoever names the folder alone has the same
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
        # bytes a second of a slow source below, which is made up: for tests and benchmarks
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
        """Bytes of a block; None where it is chosen for what is opened."""
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
        """With a block for what is read `unit` bytes at a time, where it is to be chosen; else itself.

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
        """Fetches whole files, as a job does before it computes; blocks that are there are not fetched again.

        Returns numbers: files, their blocks and bytes, fetched_blocks and fetched_bytes, which were not there, and
        not_stored, blocks that could not be stored, which is noted. It can be stopped at any time: blocks that were
        fetched stay. Raises as opening the files does, ArgumentError where they do not fit into `limit` together, and
        FileIOError if no block at all could be stored.
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
                raise FileIOError(f"{self._root}: nothing was stored in the node cache: {why}", path=self._root)
            left = counted(done["not_stored"], "block")
            emit([f"{self._root}: {left} not in the node cache, to be read from the files themselves: {why}"])
        return done

    def stat(self) -> dict[str, Any]:
        """What the folder has: blocks, bytes, files as (path, blocks, bytes), temporary files; `fetched`, published
        files of other nodes as (path, bytes), which do not count for `limit`."""
        found: dict[str, Any] = self._core.stat()
        return {**found, "fetched": NodeFiles(self._root).fetched()}

    def verify_all(self, *, progress: ProgressChoice = False) -> list[tuple[str, int, str]]:
        """Compares all blocks with their checksums; path, offset and reason of those that were damaged and removed."""
        with reporting(progress, f"verifying {self._root}", self.stat()["bytes"], "bytes") as report:
            return list(self._core.verify_all(report))

    def clear(self, paths: Sequence[str | os.PathLike[str]] | None = None) -> tuple[int, int]:
        """Removes the blocks of these files, or all; how many, and their bytes. What is being read goes on."""
        names = None if paths is None else [os.path.abspath(name) for name in file_names(paths)]
        blocks, size = self._core.clear(names)
        return int(blocks), int(size)

    def clear_fetched(self) -> tuple[int, int]:
        """Removes published files of other nodes, but for those that are being fetched; how many, and their bytes."""
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
    """That a trajectory was opened with; None where its files are read as they are."""
    found: _core.NodeCache | None = core.recipe()["node_cache"]
    if found is None:
        return None
    return _made_again(found.root, found.limit, found.block, found.verify, found.source_rate, found.fuse)


def _made_again(root: str, limit: int, block: int | str, verify: str, source_rate: int | None, fuse: bool) -> NodeCache:
    cache = NodeCache.__new__(NodeCache)
    cache._set_up(root, limit, block, verify, fuse, source_rate)
    return cache


def node_cache_of(choice: NodeCacheChoice) -> NodeCache | None:
    """The cache that a user names: itself, or by its folder with everything else by default."""
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
