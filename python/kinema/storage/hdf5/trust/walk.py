"""The process that walks through the structure of HDF5 files, in forks of bounded time and memory, before any reader.

libhdf5 may crash on a damaged file, or never return from it. The walk makes every call that readers of the file make,
on all objects to which hard links and references lead: all attributes, texts and small data sets with their values.
Links to other files are not followed, and values in other files are not read, but listed. Objects are also copied, by
the functions that `repack` uses (`object_copies`), without large values.

This module imports nothing of the package: it is run by its path, so the process imports only h5py. Requests and
answers are lines of JSON; the parent uses `verdicts`.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import resource
import runpy
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

# seconds without a request after which the process ends
_IDLE = 10.0
# values of data sets up to this many bytes are read, and of chunks up to this many
_SMALL, _LARGEST_CHUNK = 1 << 20, 4 << 20
# chunks that are read at once
_CHUNKS = 1 << 10
# most names of other files that are listed
_MOST_NAMES = 1 << 20
# bytes of the stack
_STACK = 1 << 20
# words of messages about memory; exit codes of a fork
_NO_MEMORY = ("alloc", "memory")
_NO_MEMORY_LEFT, _NEXT = 3, 4
# most requests of one fork: the next fork starts with the memory of a new process
_MOST_WALKS = 500
# bytes of a file's metadata that libhdf5 caches, in many times as much memory; HDF5's default is 32 MB
_METADATA = 4 << 20


def open_h5py(path: str, **options: Any) -> Any:
    """An `h5py.File` for reading without a lock, even if it is open here with a lock, or is being written."""
    file = _opened(path, options)
    config = file.id.get_mdc_config()
    config.max_size = _METADATA
    file.id.set_mdc_config(config)
    return file


def _opened(path: str, options: dict[str, Any]) -> Any:
    import h5py

    try:
        return h5py.File(path, "r", locking=False, **options)
    except (OSError, RuntimeError, ValueError) as error:
        message = str(error)
        if "locking flag values" in message:  # this process already has it open, with locks
            for locking in (None, True, "best-effort"):
                with suppress(OSError, RuntimeError, ValueError):
                    return h5py.File(path, "r", locking=locking, **options)
        if "SWMR" in message or "already open for write" in message:
            # a file that is being written for single writer, multiple readers
            with suppress(OSError, RuntimeError, ValueError):
                return h5py.File(path, "r", locking=False, swmr=True, **options)
        raise


class _TooMuchMemory(Exception):
    """The memory of the walk was not sufficient."""


class _Broken(Exception):
    """A part of the structure cannot be read."""


class _Walk:
    """One walk; `found` is its result."""

    def __init__(self, file: Any) -> None:
        import h5py
        import numpy as np

        self._h5py, self._numpy = h5py, np
        self._file = file
        self._copying = _object_copies()
        # like the files that repack makes
        self._copies = h5py.File("copies", "w", driver="core", backing_store=False, libver=("v108", "latest"))
        self._seen: set[Any] = set()
        # objects still to check: their group, or the object itself, the name of the link, and the path to it as
        # (name, path before it)
        self._waiting: list[tuple[Any, bytes | None, Any]] = []
        self._kinds: dict[tuple[str, str], str] = {}
        self.found: dict[str, Any] = {}
        self.met_errors = False
        """Whether there was anything that cannot be read."""

    def run(self) -> None:
        self._waiting.append((self._file.id, b"/", ("", None)))
        while self._waiting:
            holder, link, name = self._waiting.pop()
            try:
                self._object(holder if link is None else self._h5py.h5o.open(holder, link), name)
            except (_TooMuchMemory, _Broken):
                raise
            except Exception as error:
                _check_memory(error)
                raise _Broken(f"{_text(name)} cannot be read: {_reason(error)}") from None
        self.found["names"] = [[kind, file, at] for (kind, file), at in self._kinds.items()]

    def _object(self, node: Any, name: Any) -> None:
        info = self._h5py.h5g.get_objinfo(node)
        key = (*info.fileno, *info.objno)
        if key in self._seen:
            return
        self._seen.add(key)
        h5py = self._h5py
        if isinstance(node, h5py.h5d.DatasetID):
            self._dataset(node, name)
            self._attributes(h5py.Dataset(node), name)
        elif isinstance(node, h5py.h5t.TypeID):
            self._type(node, name)
            self._copy(self._copying["copy_type"], node)
            self._attributes(h5py.Datatype(node), name)
        else:
            _ = node.get_create_plist().get_link_creation_order()
            self._copy(self._copying["copy_group"], node)
            self._attributes(h5py.Group(node), name)
            self._members(node, name)

    def _copy(self, copy: Any, node: Any, **options: Any) -> None:
        """Copies an object, with its attributes, and discards the copy."""
        with self._tolerant():
            made = copy(node, self._copies.id, b"copy", **options)
            self._copies.id.unlink(b"copy")
            self._copying["copy_attributes"](node, made)

    def _type(self, kind: Any, name: Any) -> None:
        """Checks a type; a type without an equivalent in h5py is not a fault."""
        fault = self._copying["fault_of_type"](kind)
        if fault is not None:
            raise _Broken(f"{_text(name)} has a type with {fault}")
        with self._tolerant():
            _ = kind.dtype

    def _members(self, group: Any, name: Any) -> None:
        links: list[tuple[bytes, int]] = []
        group.links.iterate(lambda one, info: links.append((one, info.type)), info=True)
        h5py = self._h5py
        for one, kind in reversed(links):
            if kind == h5py.h5l.TYPE_HARD:
                self._waiting.append((group, one, (one, name)))
            elif kind == h5py.h5l.TYPE_SOFT:
                group.links.get_val(one)
            elif kind == h5py.h5l.TYPE_EXTERNAL:
                self._names("link", group.links.get_val(one)[0], (one, name))
            else:
                self._names("user-defined", str(kind), (one, name))

    def _attributes(self, node: Any, name: Any) -> None:
        h5a = self._h5py.h5a
        if not h5a.get_num_attrs(node.id):
            return
        names: list[bytes] = []
        h5a.iterate(node.id, lambda one, *_: names.append(one))
        for one in names:
            attribute = h5a.open(node.id, one)
            attribute.get_space().get_simple_extent_type()
            self._type(attribute.get_type(), (one, name))
            with self._tolerant():
                if attribute.get_storage_size() >= 0 and math.prod(attribute.shape) * attribute.dtype.itemsize:
                    self._refer(node, node.attrs[_decoded(one)], (one, name))

    def _dataset(self, node: Any, name: Any) -> None:
        h5py = self._h5py
        plist = node.get_create_plist()
        for number in range(plist.get_external_count()):
            self._names("storage", plist.get_external(number)[0], name)
            return
        for number in range(plist.get_nfilters()):
            plist.get_filter(number)
        layout = plist.get_layout()
        self._type(node.get_type(), name)
        self._unwritten(node, plist, name)
        if layout == h5py.h5d.VIRTUAL:
            for number in range(plist.get_virtual_count()):
                self._names("virtual", plist.get_virtual_filename(number), name)
                plist.get_virtual_dsetname(number)
                plist.get_virtual_vspace(number).get_select_type()
                plist.get_virtual_srcspace(number).get_select_type()
            return
        self._copy(self._copying["copy_dataset"], node, values=node.get_storage_size() <= _SMALL)
        space = node.get_space()
        if space.get_simple_extent_type() == h5py.h5s.NULL:
            return
        shape = space.get_simple_extent_dims()
        _ = space.get_simple_extent_dims(True), plist.fill_value_defined()
        if layout == h5py.h5d.CHUNKED:
            if node.get_num_chunks() and math.prod(shape):
                node.get_chunk_info_by_coord((0,) * len(shape))
            chunk_bytes = math.prod(plist.get_chunk()) * node.get_type().get_size()
            if chunk_bytes > _LARGEST_CHUNK and self._copying["is_of_fixed_size"](node.get_type()):
                return
        if node.get_storage_size():
            with self._tolerant():
                self._values(node, shape, name)

    def _unwritten(self, node: Any, plist: Any, name: Any) -> None:
        """Refuses lengths and addresses that are undefined because they were not written: libhdf5 leaves its memory as
        it is, and random bytes there would be used as an address."""
        h5d = self._h5py.h5d
        never = plist.get_fill_time() == h5d.FILL_TIME_NEVER or plist.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED
        if not never or self._copying["is_of_fixed_size"](node.get_type()):
            return
        if not self._all_stored(node, plist):
            raise _Broken(f"{_text(name)} has lengths or references, and no value for those that are not written")

    def _all_stored(self, node: Any, plist: Any) -> bool:
        """Whether each value of a data set has a place in the file that libhdf5 finds."""
        h5d, layout = self._h5py.h5d, plist.get_layout()
        shape = node.shape
        if shape is None or not math.prod(shape):
            return True
        if layout != h5d.CHUNKED:
            return layout in (h5d.COMPACT, h5d.CONTIGUOUS) and bool(node.get_storage_size())
        chunk = plist.get_chunk()
        if node.get_num_chunks() < math.prod(-(-count // one) for count, one in zip(shape, chunk, strict=True)):
            return False
        for place in itertools.product(*(range(0, count, one) for count, one in zip(shape, chunk, strict=True))):
            try:
                # the only call that looks up a chunk as reading does: others go through a damaged index from end to end
                node.read_direct_chunk(place)
            except (OSError, ValueError, RuntimeError):
                return False
        return True

    def _values(self, node: Any, shape: tuple[int, ...], name: Any) -> None:
        """Reads a data set that is small, or whose values are in the heap of the file."""
        dataset, kind = self._h5py.Dataset(node), node.dtype
        if kind.hasobject:
            parts = self._copying["stored_parts"](node)
        elif math.prod(shape) * kind.itemsize <= _SMALL:
            parts = self._some_chunks(node, shape)
        else:
            return
        for part in parts:
            # values that cannot be read do not stop the check of others
            with self._tolerant():
                self._refer(dataset, dataset[part], name)

    def _some_chunks(self, node: Any, shape: tuple[int, ...]) -> Iterator[Any]:
        """Yields a whole data set in parts, with as many chunks as libhdf5 has memory for: it takes 7 kB for each."""
        plist = node.get_create_plist()
        if plist.get_layout() != self._h5py.h5d.CHUNKED:
            yield (...,)
            return
        chunk = plist.get_chunk()
        grid = tuple(-(-count // one) for count, one in zip(shape, chunk, strict=True))
        for part in self._copying["pieces"](grid, most=_CHUNKS):
            yield tuple(slice(part.start * one, part.stop * one) for part, one in zip(part, chunk, strict=True))

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        """Context that ignores refusals of libhdf5 or h5py: a reader gets the same error. A lack of memory is not
        ignored."""
        try:
            yield
        except (_TooMuchMemory, _Broken):
            raise
        except Exception as error:
            _check_memory(error)
            self.met_errors = True

    def _refer(self, node: Any, value: Any, name: Any) -> None:
        """Adds the targets of references in a value to the objects to check."""
        h5py = self._h5py
        if isinstance(value, (h5py.Reference, h5py.RegionReference)):
            if value:
                with self._tolerant():
                    if isinstance(value, h5py.RegionReference):
                        h5py.h5r.get_region(value, node.id)
                    self._waiting.append((h5py.h5r.dereference(value, node.id), None, ("(reference)", name)))
        elif getattr(getattr(value, "dtype", None), "hasobject", False):
            names = value.dtype.names
            for one in [value[field] for field in names] if names else value.reshape(-1).tolist():
                if not isinstance(one, (str, bytes)):
                    self._refer(node, one, name)

    def _names(self, kind: str, file: bytes | str, at: Any) -> None:
        """Notes the name of another file, and the first object that names it."""
        key = (kind, _decoded(file))
        if key not in self._kinds:
            if len(self._kinds) == _MOST_NAMES:
                raise _Broken(f"more than {_MOST_NAMES} other files are named")
            self._kinds[key] = _text(at)


def _object_copies() -> dict[str, Any]:
    """The functions of a module beside this one, which does not import from the package either."""
    if not _COPYING:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        _COPYING.update(runpy.run_path(os.path.join(folder, "object_copies.py")))
    return _COPYING


_COPYING: dict[str, Any] = {}


def _check_memory(error: Exception) -> None:
    if isinstance(error, MemoryError) or any(word in str(error).lower() for word in _NO_MEMORY):
        raise _TooMuchMemory(_reason(error))


def _reason(error: Exception) -> str:
    return " ".join(str(error.args[0] if error.args else error).split())[:160] or type(error).__name__


def _text(name: Any) -> str:
    """The path of an object."""
    parts: list[str] = []
    while name is not None and len(parts) < 64:
        part, name = name
        parts.append(_decoded(part))
    return ("..." if name is not None else "") + "/".join(reversed(parts)) or "/"


def _decoded(name: bytes | str) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")


def _verdict(path: str) -> tuple[dict[str, Any], bool]:
    """Result of a walk, "names" (files named in it) or "fault" (the error); and whether libhdf5 met no error."""
    try:
        file = open_h5py(path)
    except Exception as error:
        if isinstance(error, MemoryError) or any(word in str(error).lower() for word in _NO_MEMORY):
            return {"fault": "memory"}, False
        return {"closed": _reason(error)}, False  # its reader gets the same error
    walk = _Walk(file)
    try:
        walk.run()
    except (_TooMuchMemory, MemoryError):
        return {"fault": "memory"}, False
    except _Broken as error:
        return {"fault": str(error)}, False
    file.close()
    return walk.found, not walk.met_errors


def _bound(request: dict[str, Any]) -> None:
    """Bounds this process: by signals that end it wherever it is, and by the memory that it may allocate."""
    memory, (_, most) = _memory() + request["memory"], resource.getrlimit(resource.RLIMIT_AS)
    # batch systems set a limit themselves
    memory = memory if most == resource.RLIM_INFINITY else min(memory, most)
    resource.setrlimit(resource.RLIMIT_AS, (memory, most))
    signal.setitimer(signal.ITIMER_PROF, request["seconds"])
    signal.setitimer(signal.ITIMER_REAL, request["wall"])


def _serve(left: bytes) -> int:
    """Answers requests in a fork; returns the exit code. After a faulty file, the next one gets another fork."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # threads of the process that reads the file may have a smaller stack than this one
    resource.setrlimit(resource.RLIMIT_STACK, (_STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    for _ in range(_MOST_WALKS):
        while not left.endswith(b"\n"):
            if not select.select([0], [], [], _IDLE)[0]:
                return 0
            block = os.read(0, 1 << 16)
            if not block:
                return 0
            left += block
        request = json.loads(left)
        left = b""
        _bound(request)
        found, clean = _verdict(request["path"])
        answer = json.dumps(found).encode() + b"\n"
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        while answer:
            answer = answer[os.write(1, answer) :]
        if not clean:
            break
    return _NEXT


def _memory() -> int:
    """Bytes of the address space of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _fault(code: int) -> dict[str, Any]:
    """The answer for a fork that ended with that code."""
    if code == _NO_MEMORY_LEFT:
        return {"fault": "memory"}
    which = {-signal.SIGPROF: "time", -signal.SIGALRM: "wall", -signal.SIGKILL: "memory"}
    return {"fault": which.get(code, "crash"), "code": code}


def main() -> None:
    """Lets forks answer requests from stdin on stdout, one by one, until there are no more."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    import h5py

    # modules that are otherwise imported at first use
    h5py.File("warm", "w", driver="core", backing_store=False).close()
    _object_copies()
    # pages of lasting objects are shared with the forks
    gc.disable()
    gc.freeze()
    while True:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                code = _serve(b"")
            except MemoryError:
                code = _NO_MEMORY_LEFT
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            return
        if code != _NEXT:
            os.write(1, json.dumps(_fault(code)).encode() + b"\n")


if __name__ == "__main__":
    main()
