"""Mutates the structure of HDF5 files, and looks for what crashes, hangs or blames Kinema.

    python fuzz/hdf5_structure.py SECONDS

Changed are object headers, heaps, B-trees, types and sizes of attributes: one to four places of one to eight bytes,
types and contents of messages, lengths and places of values in the heap of the file, or a piece of the structure put
elsewhere; checksums are made right again. The verdict on a mutant is that of any opening; then a fork uses it:
structure, frames, observables, atoms, layout, `kinema info`, a scan, a check, parts and a repacked copy. A fork that is
killed, takes too long or too much memory, or ends in another error than one of the file, is a finding: it is kept in
fuzz/work/hdf5_structure. The seeds are the H5MD files of `kinema.testing`, and one with objects of all kinds, in
several versions of the format.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import gc
import io
import os
import random
import re
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path

import h5py
import numpy as np

import kinema as kn
from kinema.cli import exit_codes
from kinema.cli import main as main_of_kinema
from kinema.base.errors import Error, InternalError
from kinema.storage.hdf5.trust import verdicts
from kinema.testing.h5md_files import CASES

WORK = Path(__file__).parent / "work" / "hdf5_structure"
SIGNATURES = (
    b"TREE",
    b"SNOD",
    b"HEAP",
    b"GCOL",
    b"OHDR",
    b"OCHK",
    b"FRHP",
    b"FHDB",
    b"FHIB",
    b"BTHD",
    b"BTLF",
    b"BTIN",
)
SIGNATURES += (b"EAHD", b"EAIB", b"EASB", b"EADB", b"FAHD", b"FADB", b"SMTB")
# bytes after the beginning of a structure that mostly belong to it
REACH = 400
# of a fork
SECONDS, MEMORY = 10, 1 << 30
INTERNAL, OTHER = 70, 71
REACH_OF_CHECKSUMS = 4096
# part of the mutants that are of the file with objects of all kinds
RICH = 0.4
# messages with types, fill values, layouts, links, attributes
FAVOURED = (0x1, 0x3, 0x5, 0x6, 0x8, 0xB, 0xC, 0xF, 0x10, 0x15)


class Seed:
    """A file, and where its structure lies."""

    def __init__(self, path: Path) -> None:
        self.name, self.data = path.name, path.read_bytes()
        places = {at for word in SIGNATURES for at in _all(self.data, word)}
        with h5py.File(path, "r") as file:
            places |= {h5py.h5g.get_objinfo(file.id).objno[0]}
            file.visititems(lambda _, node: places.add(h5py.h5g.get_objinfo(node.id).objno[0]))
        self.places = sorted(one for one in places if one < len(self.data))
        words = [self.data[at : at + 4] for at in self.places]
        headers = [at for at, word in zip(self.places, words, strict=True) if word not in SIGNATURES or word == b"OHDR"]
        self.messages = [one for at in headers for one in _messages(self.data, at)]
        self.heap = _heap_fields(self.data)
        self.checked = [one for at in _with_checksums(self.data) for one in _checked(self.data, at)]

    def mutant(self, rng: random.Random) -> bytes:
        """The file with one to four changes."""
        data = bytearray(self.data)
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
            at = self._place(rng)
            kind = rng.randrange(9 if self.heap else 8)
            if kind == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                data[at] = rng.choice((0, 1, 2, 3, 9, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
            elif kind == 2:
                width = rng.choice((2, 4, 8))
                value = rng.choice(
                    (0, 1, 7, 255, 65535, 1 << 20, (1 << 31) - 1, (1 << 63) - 1, (1 << 64) - 1, len(data))
                )
                data[at : at + width] = struct.pack("<Q", value)[:width]
            elif kind == 3:  # an address of something else
                data[at : at + 8] = struct.pack("<Q", rng.choice(self.places))
            elif kind == 4:
                data[at : at + rng.choice((2, 4, 8))] = rng.randbytes(8)[: rng.choice((2, 4, 8))]
                data = data[: len(self.data)].ljust(len(self.data), b"\0")
            elif kind == 5:  # a message of another type
                data[rng.choice(self.messages)[0]] = rng.choice(
                    [*(self.data[at] for at, _, _ in self.messages), *FAVOURED]
                )
            elif kind == 6:  # the contents of another message
                (_, into, room), (_, source, size) = rng.choice(self.messages), rng.choice(self.messages)
                size = min(size, room if rng.random() < 0.8 else size, len(data) - into)
                data[into : into + size] = self.data[source : source + size]
                data = data[: len(self.data)].ljust(len(self.data), b"\0")
            elif kind == 8:  # a length or place of a value in the heap of the file, or a field of the heap
                (at, width), (other, _) = rng.choice(self.heap), rng.choice(self.heap)
                value = int.from_bytes(data[at : at + width], "little")
                theirs = int.from_bytes(self.data[other : other + width], "little")
                value = rng.choice((value - 1, value + 1, 2 * value, value // 2, theirs, 0, 1, 1 << 16, 1 << 31, -1))
                data[at : at + width] = (value & ((1 << 64) - 1)).to_bytes(8, "little")[:width]
            else:
                length, source = rng.choice((4, 8, 16, 32, 64)), rng.choice(self.places)
                piece = self.data[source : source + length]
                data[at : at + len(piece)] = piece
                data = data[: len(self.data)]
        if rng.random() < 0.95:
            for start, end in reversed(self.checked):
                data[end : end + 4] = struct.pack("<I", _checksum(bytes(data), start, end))
            for at in _all(bytes(data), b"OHDR"):
                _mend(data, at)
        return bytes(data)

    def _place(self, rng: random.Random) -> int:
        """Place of a change: within a message, or after the beginning of a structure."""
        last = len(self.data) - 9
        if rng.random() < 0.5:
            some = [one for one in rng.choices(self.messages, k=4) if self.data[one[0]] in FAVOURED] or self.messages
            _, body, size = rng.choice(some)
            return min(body + rng.randrange(max(1, size)), last)
        return min(rng.choice(self.places) + int(rng.random() ** 2 * REACH), last)


def _all(data: bytes, word: bytes) -> list[int]:
    found, at = [], data.find(word)
    while at >= 0:
        found.append(at)
        at = data.find(word, at + 1)
    return found


def _heap_fields(data: bytes) -> list[tuple[int, int]]:
    """Where the global heap has indices and sizes of its objects, and where values refer to them by length, address and
    index; with their widths in bytes."""
    found: list[tuple[int, int]] = []
    for start in _all(data, b"GCOL"):
        size = int.from_bytes(data[start + 8 : start + 16], "little")
        found.append((start + 8, 8))
        at = start + 16
        while at + 16 <= min(start + size, len(data)):
            index, length = struct.unpack_from("<H6xQ", data, at)
            found += [(at, 2), (at + 8, 8)]
            at += 16 + (length + 7) // 8 * 8 if index else max(16, length)
        for at in _all(data, struct.pack("<Q", start)):
            found += [(at - 4, 4), (at, 8), (at + 8, 4)] * 3
    return [(at, width) for at, width in found if 0 <= at <= len(data) - width]


def _mend(data: bytearray, at: int) -> None:
    """Makes the checksum of an object header (version 2) right, whose size may have changed."""
    flags = data[at + 5] if at + 6 < len(data) else 0
    start = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    end = start + width + int.from_bytes(data[start : start + width], "little")
    if end + 4 <= len(data) and end - at < 1 << 14:
        data[end : end + 4] = struct.pack("<I", _checksum(bytes(data), at, end))


def _library() -> ctypes.CDLL:
    """libhdf5, as h5py has loaded it."""
    with open("/proc/self/maps") as maps:
        names = {line.split()[-1] for line in maps if "libhdf5" in line and "_hl" not in line}
    library = ctypes.CDLL(names.pop())
    library.H5_checksum_lookup3.restype = ctypes.c_uint32
    library.H5_checksum_lookup3.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32]
    return library


def _checksum(data: bytes, start: int, end: int) -> int:
    """HDF5's checksum of a piece."""
    address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
    assert address is not None
    return int(LIBRARY.H5_checksum_lookup3(address + start, end - start, 0))


LIBRARY = _library()


def _with_checksums(data: bytes) -> list[int]:
    """Where structures begin that end with a checksum: the superblock, and all of newer versions of the format."""
    newer = [word for word in SIGNATURES if word not in (b"TREE", b"SNOD", b"HEAP", b"GCOL")]
    return [*([0] if data[8] >= 2 else []), *(at for word in newer for at in _all(data, word))]


def _checked(data: bytes, at: int) -> list[tuple[int, int]]:
    """The piece that begins at `at` and is followed by its checksum; empty if there is none."""
    ends = range(at + 8, min(at + REACH_OF_CHECKSUMS, len(data) - 4))
    return [(at, end) for end in ends if data[end : end + 4] == struct.pack("<I", _checksum(data, at, end))][:1]


def _messages(data: bytes, header: int) -> list[tuple[int, int, int]]:
    """Messages of an object header: where the byte of the type is, where the body, and its size."""
    found = []
    if data[header : header + 4] == b"OHDR":
        flags = data[header + 5]
        at = header + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        end = at + width + int.from_bytes(data[at : at + width], "little")
        at, head, size_at = at + width, 6 if flags & 4 else 4, 1
    else:
        end = header + 16 + int.from_bytes(data[header + 8 : header + 12], "little")
        at, head, size_at = header + 16, 8, 2
    while at + head < min(end, len(data)):
        size = int.from_bytes(data[at + size_at : at + size_at + 2], "little")
        found.append((at, at + head, size))
        at += head + size
    return found


def _use(path: str, folder: str) -> int:
    """Uses a file as a user does; returns the exit code of the fork."""
    calls = (
        lambda: kn.open(path, stored=False).read(range(2), workers=1),
        lambda: {name: one.read() for name, one in kn.open(path, stored=False).observables.items()},
        lambda: kn.read_atoms(path),
        lambda: kn.layout_of(path, stored=False),
        lambda: _info(path),
        lambda: str(kn.open(path, stored=False).scan()),
        lambda: kn.check(path, stored=False),
        lambda: kn.split(path, os.path.join(folder, "parts"), parts=2, stored=False, overwrite=True, runner="serial"),
        lambda: kn.repack(path, os.path.join(folder, "out.h5md"), verify=False, runner="serial", overwrite=True),
    )
    code = 0
    for number, call in enumerate(calls):
        try:
            call()
        except InternalError:
            traceback.print_exc()
            return INTERNAL
        except Error:
            code = code or number + 1
        except BaseException:
            traceback.print_exc()
            return OTHER
    return code


def _info(path: str) -> None:
    """Runs `kinema info` in this process; raises InternalError if it ends like a defect."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main_of_kinema(["info", path, "--no-stored"])
        except SystemExit as end:
            if end.code not in (exit_codes.DONE, exit_codes.BAD_INPUT):
                raise InternalError(f"{path}: kinema info ended with code {end.code}") from None


def _forked(path: str, folder: str) -> int:
    """How a fork ends that uses a file: its code, below 0 the signal."""
    pid = os.fork()
    if not pid:
        code = OTHER
        try:
            with open(os.path.join(folder, "messages"), "w") as messages:
                os.dup2(messages.fileno(), 2)
                with open("/proc/self/statm") as status:
                    used = int(status.read().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                code = _use(path, folder)
                sys.stderr.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _add_rich(file: h5py.File) -> None:
    """Objects of all kinds: types of all classes, references, links, many attributes and members."""
    group = file.create_group("parameters/rich")
    mixed = np.dtype([("a", "i2"), ("s", h5py.string_dtype()), ("l", h5py.vlen_dtype("f4")), ("m", "f8", (2, 2))])
    group.create_dataset("mixed", (3,), mixed)[1] = (7, "text", np.arange(3, dtype="f4"), np.ones((2, 2)))
    group.create_dataset("lists", (4,), h5py.vlen_dtype("i8"), chunks=(2,), maxshape=(None,))[1] = np.arange(5)
    group.create_dataset("texts", data=["one", "two"], dtype=h5py.string_dtype())
    group.create_dataset("states", data=[0, 1], dtype=h5py.enum_dtype({"off": 0, "on": 1}))
    group["type"] = np.dtype([("x", "f4"), ("y", "S3")])
    group.create_dataset("points", (2,), group["type"], fillvalue=np.array((1.0, b"ab"), group["type"].dtype))
    options = {"chunks": (3, 2), "shuffle": True, "fletcher32": True, "compression": "gzip"}
    group.create_dataset("chunked", data=np.arange(40.0).reshape(10, 4), maxshape=(None, None), **options)
    group.create_dataset("fixed", data=np.arange(40.0), chunks=(3,))
    group.create_dataset("to", data=[group.ref, group["points"].ref], dtype=h5py.ref_dtype)
    group.attrs["region"] = group["fixed"].regionref[2:5]
    group["soft"] = h5py.SoftLink("/parameters/rich/points")
    group["outer"] = h5py.ExternalLink("none.h5", "/x")
    group["hard"] = group["texts"]
    layout = h5py.VirtualLayout((5,), "f8")
    layout[:] = h5py.VirtualSource(".", "parameters/rich/fixed", shape=(40,))[:5]
    group.create_virtual_dataset("virtual", layout)
    # a chunk index of each kind: one chunk, none (space from the beginning), pages, blocks
    group.create_dataset("single", data=np.arange(6.0), chunks=(6,))
    group.create_dataset("paged", (2500,), "i2", chunks=(2,))[::1000] = 1
    group.create_dataset("blocks", (300,), "i2", chunks=(2,), maxshape=(None,))[::7] = 2
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_chunk((4,))
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    h5py.h5d.create(group.id, b"early", h5py.h5t.NATIVE_INT16, h5py.h5s.create_simple((10,)), early)
    nested = h5py.vlen_dtype(np.dtype([("n", "i4"), ("x", "f8", 2)]))
    group.create_dataset("nested", (2,), nested)[0] = np.ones(2, nested.metadata["vlen"])
    deeper = h5py.h5t.vlen_create(h5py.h5t.vlen_create(h5py.h5t.STD_I32LE))
    h5py.h5d.create(group.id, b"deeper", deeper, h5py.h5s.create_simple((2,)))
    group.attrs.create("mixed", np.array([(7, "text")], [("a", "i2"), ("s", h5py.string_dtype())]))
    group.attrs["texts"] = ["some", "texts", ""]
    group.attrs["large"] = np.arange(5000)
    within = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    within.set_layout(h5py.h5d.COMPACT)
    compact = h5py.h5d.create(
        group.id, b"compact", h5py.h5t.py_create(mixed, logical=True), h5py.h5s.create_simple((2,)), within
    )
    h5py.Dataset(compact)[1] = (7, "text", np.arange(3, dtype="f4"), np.ones((2, 2)))
    many = group.create_group("many", track_order=True)
    for number in range(20):
        many.attrs[f"a{number}"] = "text"
        many.create_group(f"g{number}")


def _seeds(folder: Path) -> list[Seed]:
    made = []
    for case in CASES:
        path = folder / f"{case.name}.h5md"
        case.write(path)
        if path.stat().st_size < 100_000:
            made.append(Seed(path))
    rich = folder / "rich.h5md"
    shutil.copy(folder / "gzip_shuffle.h5md", rich)
    with h5py.File(rich, "r+") as file:
        _add_rich(file)
    made.append(Seed(rich))
    # the same in the newest version of the format: other headers, heaps and indices of chunks
    for one in list(made):
        with contextlib.suppress(OSError, RuntimeError, KeyError, ValueError):
            new = folder / f"new-{one.name}"
            with h5py.File(folder / one.name, "r") as old, h5py.File(new, "w", libver="latest") as file:
                for name in old:
                    old.copy(name, file)
                if one.name == rich.name:
                    del file["parameters/rich"]
                    _add_rich(file)
            made.append(Seed(new))
    return made


def main() -> int:
    """Runs for `seconds` of CPU time of all processes; returns 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    WORK.mkdir(parents=True, exist_ok=True)
    counts: collections.Counter[str] = collections.Counter()
    findings = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        seeds = _seeds(Path(name))
        rich = [one for one in seeds if "rich" in one.name]
        print(f"{len(seeds)} seeds, --seed {options.seed}", flush=True)
        # what is imported at the first use is shared with the forks
        _use(os.path.join(name, seeds[0].name), name)
        gc.freeze()
        before = sum(os.times()[:4])
        said = time.monotonic()
        # the process that walks counts when it has ended
        while (spent := sum(os.times()[:4]) - before) < options.seconds:
            seed = rng.choice(rich if rng.random() < RICH else seeds)
            path = os.path.join(name, f"mutant-{counts.total()}.h5md")
            Path(path).write_bytes(seed.mutant(rng))
            try:
                verdicts.verdict_on(path, stored=False)
                verdict = "passed"
            except Error as error:
                verdict = re.sub("/.* cannot", "... cannot", str(error).split(": ", 2)[2].split(",")[0])[:70]
            # what has a fault is used by no call
            code = _forked(path, name) if verdict == "passed" else 0
            counts[verdict if code >= 0 else f"killed by {-code}"] += 1
            if code < 0 or code in (INTERNAL, OTHER):
                findings += 1
                kept = WORK / f"{options.seed}-{counts.total()}-{seed.name}"
                shutil.copy(path, kept)
                message = Path(name, "messages").read_text().strip().splitlines()[-1:]
                print(f"{kept}: code {code}, {verdict}: {' '.join(message)}", flush=True)
            os.unlink(path)
            if time.monotonic() - said > 60:
                said = time.monotonic()
                print(f"{counts.total()} mutants in {spent:.0f} s of CPU time, {findings} findings", flush=True)
    for what, count in counts.most_common():
        print(f"{count:8} {what}")
    verdicts.end_walks()
    spent = sum(os.times()[:4]) - before
    print(f"{counts.total()} mutants, {findings} findings, {spent:.0f} s of CPU time of all processes")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
