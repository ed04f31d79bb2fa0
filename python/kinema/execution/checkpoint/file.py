"""The checkpoint file: the identity of a run, its passes, and the nodes of the merge tree of each pass.

`manager` decides when to save, and whether a file belongs to this run. Layout, little-endian:

    bytes 0-7    "KINEMACK"
    bytes 8-15   version of this layout, uint64
    records      tag (4 bytes), length of the payload (uint64), payload, BLAKE2b-256 of all three
        "RUN "   the items of the run, JSON
        "ROWS"   the file of results that the nodes rely on, its name relative to this file's folder; optional
        "RND "   a pass: its items, JSON; the nodes that follow belong to it
        "NODE"   level, index, number of partials n (uint64 each), n lengths (uint64), the bytes of the partials
        "DATA"   digests of bytes of the file of results that the nodes rely on, by name, JSON; optional
        "SIGN"   if a partial is pickled, which could run any code: the proof by the user's key (HMAC-SHA256 in
                 hexadecimal digits) of the checksums of all records before it; without it nothing of the file is used
        "END "   empty; the file is complete
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import IO, NamedTuple, TypeAlias

from kinema import _core
from kinema.base.errors import (
    ArgumentError,
    CorruptFileError,
    Error,
    FileAccessError,
    TruncatedFileError,
    UnsupportedFormatError,
    from_os,
    os_errors,
)
from kinema.base.frozen_dataclass import dataclass
from kinema.base.input_files import open_regular
from kinema.base.resources import physical_memory
from kinema.execution.checkpoint.counted import Digests, packed, unpacked
from kinema.execution.checkpoint.value_bytes import is_pickled
from kinema.storage.output_file import remove_leftovers

DEFAULT_INTERVAL = 30.0

_MAGIC = b"KINEMACK"
# 3: leaves depend only on the number of frames; 4: files by their FileIdentity; 5: no pickles without a proof;
# 6: digests of the written data
_VERSION = 6
_START = struct.Struct("<8sQ")
_HEAD = struct.Struct("<4sQ")
_NODE = struct.Struct("<QQQ")
_DIGEST = 32
_PURPOSE = "checkpoint"
# descriptions of a run take some KiB; nodes hold results and may have any size
_MOST_ITEMS_BYTES = 64 << 20
_ADVICE = "remove it to start again"
# prefix of an exact value that is a `FileIdentity`
_FILE = "FileIdentity "


# the file to which a run is saved, or a Checkpoint with more settings
CheckpointChoice: TypeAlias = "str | os.PathLike[str] | Checkpoint | None"


@dataclass(frozen=True)
class Checkpoint:
    """File and interval at which a run is saved.

    `path`: the file; saved under a temporary name in the same folder, then synced and renamed.
    `interval`: seconds between two saves; longer if a save takes more than a twentieth of it.
    `keep`: whether the file stays after the run. A run that finds a finished checkpoint reads no frame again.
    """

    path: str | os.PathLike[str]
    interval: float = DEFAULT_INTERVAL
    keep: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)):
            raise ArgumentError(f"checkpoint is a file name, found {type(self.path).__name__}")
        number = isinstance(self.interval, (int, float)) and not isinstance(self.interval, bool)
        if not number or not math.isfinite(self.interval) or self.interval < 0:
            raise ArgumentError(f"checkpoint_interval is a number of seconds from 0 on, found {self.interval!r}")

    @classmethod
    def from_choice(cls, chosen: CheckpointChoice, interval: float | None) -> Checkpoint | None:
        """The checkpoint for `checkpoint=` and `checkpoint_interval=`; ArgumentError for an interval alone."""
        if chosen is None:
            if interval is not None:
                raise ArgumentError("checkpoint_interval says how often to save; name the file with checkpoint=")
            return None
        checkpoint = chosen if isinstance(chosen, Checkpoint) else cls(chosen)
        return checkpoint if interval is None else replace(checkpoint, interval=interval)

    @property
    def name(self) -> str:
        """The path as text."""
        return os.fspath(self.path)

    def remove(self) -> None:
        """Removes the file, if it exists, and temporary files left by runs that were killed while saving."""
        with os_errors("cannot remove the checkpoint", self.name), suppress(FileNotFoundError):
            os.unlink(self.name)
        remove_leftovers(self.name)


class IdentityItem(NamedTuple):
    """A fact that decides the results: its name, its exact value or a digest of it, and a description for users."""

    what: str
    exact: str
    label: str

    @classmethod
    def from_file(cls, what: str, identity: _core.FileIdentity, label: str) -> IdentityItem:
        """Identity of a file that is read."""
        return cls(what, f"{_FILE}{identity.to_bytes().hex()}", label)

    def difference(self, now: IdentityItem) -> str | None:
        """The difference to a later item, in words; None if there is none."""
        if self.what != now.what:
            return f"expected {self.what} ({self.label}), found {now.what} ({now.label})"
        if self.exact == now.exact:
            return None
        if self.exact.startswith(_FILE) and now.exact.startswith(_FILE):
            try:
                how = _identity(self.exact).difference(_identity(now.exact))
            except ValueError:
                how = "its identity cannot be read"
            return how and f"{self.what}, expected {self.label}, found {now.label}: {how}"
        same_labels = self.label == now.label
        expected, found = (self.exact, now.exact) if same_labels else (self.label, now.label)
        return f"{self.what}, expected {expected}, found {found}"


# a node of the merge tree: level, index, and the partial of each job as bytes
Node = tuple[int, int, list[bytes]]


@dataclass
class PassContent:
    """A pass in the file. `at` is the byte of its record."""

    items: list[IdentityItem]
    at: int
    nodes: list[Node] = field(default_factory=list)


@dataclass
class Content:
    """Full content of a file."""

    items: list[IdentityItem]
    passes: list[PassContent]
    rows: str | None = None
    counted: dict[str, Digests] = field(default_factory=dict)


class CheckpointWriter:
    """Writes records, in the order of the layout.

    `n_nodes`: nodes written so far, of all passes.
    `is_pickled`: whether one of their partials is pickled: then the file is signed with the user's key.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.n_nodes = 0
        self.is_pickled = False
        self._digests = bytearray()
        self._file = file
        file.write(_START.pack(_MAGIC, _VERSION))

    def run(self, items: Sequence[IdentityItem]) -> None:
        """Writes the identity of the run; once, at the beginning."""
        self._record(b"RUN ", [_packed(items)])

    def rows(self, name: str) -> None:
        """Writes the name of the file of results; after the identity of the run."""
        self._record(b"ROWS", [os.fsencode(name)])

    def begin_pass(self, items: Sequence[IdentityItem]) -> None:
        """Begins a pass."""
        self._record(b"RND ", [_packed(items)])

    def node(self, level: int, index: int, partials: Sequence[bytes]) -> None:
        """Writes a node of the pass begun last."""
        lengths = struct.pack(f"<{len(partials)}Q", *map(len, partials))
        self._record(b"NODE", [_NODE.pack(level, index, len(partials)), lengths, *partials])
        self.n_nodes += 1
        self.is_pickled = self.is_pickled or any(map(is_pickled, partials))

    def counted(self, digests: Mapping[str, Digests]) -> None:
        """Writes the digests of the data that the nodes rely on; after all nodes."""
        self._record(b"DATA", [packed(digests)])

    def end(self) -> None:
        """Marks the file as complete; raises as `user_key` if it must be signed and cannot be."""
        if self.is_pickled:
            self._record(b"SIGN", [_proof_of(self._digests)])
        self._record(b"END ", [])

    def _record(self, tag: bytes, payload: Sequence[bytes]) -> None:
        from hashlib import blake2b

        digest = blake2b(digest_size=_DIGEST)
        for part in (_HEAD.pack(tag, sum(map(len, payload))), *payload):
            digest.update(part)
            self._file.write(part)
        self._file.write(digest.digest())
        self._digests += digest.digest()


def _proof_of(digests: bytes | bytearray) -> bytes:
    """The proof by the user's key; raises as `user_key` if there is no key and none can be made."""
    # imported only for files that are signed: these modules slow down the start
    from kinema.storage.user_key import prove, user_key

    return prove(user_key(), _PURPOSE, bytes(digests)).encode()


def load(path: str) -> Content | None:
    """The content of a file; None if the file does not exist.

    Raises CorruptFileError (with the byte) for a file that is damaged or not a checkpoint, TruncatedFileError for a
    file that ends too early, UnsupportedFormatError for another version of the layout, FileAccessError for pickled
    values that were not written with this user's key.
    """
    try:
        with open_regular(path, "checkpoint") as file:
            return _RecordReader(path, file).content()
    except FileNotFoundError:
        return None
    except Error:
        raise
    except OSError as error:
        raise from_os("cannot read the checkpoint", error, path) from None


def _identity(exact: str) -> _core.FileIdentity:
    return _core.FileIdentity.from_bytes(bytes.fromhex(exact.removeprefix(_FILE)))


def _packed(items: Sequence[IdentityItem]) -> bytes:
    return json.dumps([list(item) for item in items]).encode()


class _RecordReader:
    """Reads records and never trusts a length."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self._path = path
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._at = 0
        self._digests = bytearray()
        self._proof = b""

    def content(self) -> Content:
        start = self._file.read(_START.size)
        if not start.startswith(_MAGIC) or len(start) < _START.size:
            raise CorruptFileError(
                f"byte 0: this is not a checkpoint of Kinema, expected {_MAGIC!r}, found {start[:8]!r}; "
                "name another file",
                at=self._path,
                offset=0,
            )
        version = _START.unpack(start)[1]
        if version != _VERSION:
            raise UnsupportedFormatError(
                f"byte 8: wrong version of a checkpoint, expected {_VERSION}, found {version}; {_ADVICE}",
                at=self._path,
                offset=8,
            )
        self._at = _START.size
        content: Content | None = None
        while True:
            at, signed = self._at, len(self._digests)
            tag, payload = self._record()
            if self._proof and tag != b"END ":
                raise self._damaged(at, f"a record {tag!r} has no place after the proof")
            if tag == b"RUN " and content is None:
                content = Content(self._items(payload, at), [])
            elif tag == b"ROWS" and content is not None and not content.passes:
                content.rows = os.fsdecode(payload)
            elif tag == b"RND " and content is not None:
                content.passes.append(PassContent(self._items(payload, at), at))
            elif tag == b"NODE" and content is not None and content.passes:
                content.passes[-1].nodes.append(self._node(payload, at))
            elif tag == b"DATA" and content is not None and content.passes:
                try:
                    content.counted = unpacked(payload)
                except (ValueError, RecursionError):
                    raise self._damaged(at, "a record is not what its tag says") from None
            elif tag == b"SIGN" and content is not None:
                from hmac import compare_digest

                self._proof = _proof_of(self._digests[:signed])
                if not compare_digest(payload, self._proof):
                    raise self._not_ours("another proof")
            elif tag == b"END " and content is not None and self._at == self._size:
                nodes = (node for one in content.passes for node in one.nodes)
                if not self._proof and any(is_pickled(partial) for _, _, partials in nodes for partial in partials):
                    raise self._not_ours("no proof")
                return content
            else:
                raise self._damaged(at, f"a record {tag!r} has no place here")

    def _record(self) -> tuple[bytes, bytes]:
        at = self._at
        head = self._file.read(_HEAD.size)
        tag, length = _HEAD.unpack(head) if len(head) == _HEAD.size else (b"", 0)
        needed = _HEAD.size + length + _DIGEST
        if not tag or needed > self._size - at:
            raise TruncatedFileError(
                f"byte {at}: the checkpoint ends within a record, expected {needed} bytes, "
                f"found {self._size - at}; {_ADVICE}",
                at=self._path,
                offset=at,
            )
        memory = physical_memory()
        if memory is not None and length > memory // 2:
            # a sparse file may claim any number of bytes
            raise self._damaged(at, f"a record has {length} bytes, expected at most {memory // 2} on this machine")
        payload = self._node_payload(length, at) if tag == b"NODE" else self._items_payload(length, at)
        digest = self._file.read(_DIGEST)
        from hashlib import blake2b

        expected = blake2b(head, digest_size=_DIGEST)
        expected.update(payload)
        if digest != expected.digest():
            raise self._damaged(
                at, f"the checksum of a record is wrong, expected {expected.hexdigest()}, found {digest.hex()}"
            )
        self._at = at + needed
        self._digests += digest
        return tag, payload

    def _items_payload(self, length: int, at: int) -> bytes:
        if length > _MOST_ITEMS_BYTES:
            raise self._damaged(at, f"a record has {length} bytes, expected at most {_MOST_ITEMS_BYTES}")
        return self._file.read(length)

    def _node_payload(self, length: int, at: int) -> bytes:
        """Reads the partials only if their lengths make up the record."""
        start = self._file.read(min(length, _NODE.size))
        n = _NODE.unpack(start)[2] if len(start) == _NODE.size else 0
        if 8 * n <= length - len(start):
            start += self._file.read(8 * n)
            partials = sum(struct.unpack_from(f"<{n}Q", start, _NODE.size)) if n else 0
            if len(start) + partials == length:
                return start + self._file.read(partials)
        raise self._damaged(at, "a record is not what its tag says")

    def _items(self, payload: bytes, at: int) -> list[IdentityItem]:
        try:
            return [IdentityItem(*map(str, item)) for item in json.loads(payload)]
        except (ValueError, TypeError, RecursionError):
            raise self._damaged(at, "a record is not what its tag says") from None

    def _node(self, payload: bytes, at: int) -> Node:
        try:
            level, index, n = _NODE.unpack_from(payload)
            lengths = struct.unpack_from(f"<{n}Q", payload, _NODE.size)
        except (struct.error, OverflowError, MemoryError):
            raise self._damaged(at, "a record is not what its tag says") from None
        begin = _NODE.size + 8 * n
        if begin + sum(lengths) != len(payload):
            raise self._damaged(at, f"a node has {len(payload)} bytes, expected {begin + sum(lengths)}")
        partials = []
        for length in lengths:
            partials.append(payload[begin : begin + length])
            begin += length
        return level, index, partials

    def _not_ours(self, found: str) -> FileAccessError:
        from kinema.storage.user_key import key_file

        return FileAccessError(
            "the checkpoint holds pickled values, which can run any code, expected the proof that they "
            f"were written with the key {key_file()}, found {found}; copy the key from where it was made, or {_ADVICE}",
            at=self._path,
        )

    def _damaged(self, at: int, what: str) -> CorruptFileError:
        message = f"{self._path}: byte {at}: the checkpoint is damaged: {what}; {_ADVICE}"
        return CorruptFileError(message, path=self._path, offset=at)
