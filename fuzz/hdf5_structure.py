"""Mutates the structure of HDF5 files, and looks for what crashes, hangs or blames Kinema.

    python fuzz/hdf5_structure.py SECONDS

Changed are object headers, heaps, B-trees, types and sizes of attributes: one to four places of one to eight bytes,
or a piece of the structure put elsewhere; checksums of object headers are made right again. The verdict on a mutant is that
of any opening; then a fork reads it: structure, frames, observables, atoms, layout, a repacked copy. A fork that is
killed, takes too long or too much memory, or ends in another error than one of the file, is a finding: it is kept in
fuzz/work/hdf5_structure. The seeds are the H5MD files of `kinema.testing`, in several versions of the format.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gc
import os
import random
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

import kinema as kn
from kinema.errors import Error, InternalError
from kinema.formats.hdf5.trust import verdicts
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
SIGNATURES += (b"EAHD", b"EAIB", b"FAHD", b"FADB", b"SMTB")
# bytes behind the beginning of a structure that belong to it, mostly
REACH = 400
# of a fork
SECONDS, MEMORY = 10, 1 << 30
INTERNAL, OTHER = 70, 71
MASK = 0xFFFFFFFF


class Seed:
    """A file, and where its structure lies."""

    def __init__(self, path: Path) -> None:
        self.name, self.data = path.name, path.read_bytes()
        places = {at for word in SIGNATURES for at in _all(self.data, word)}
        with h5py.File(path, "r") as file:
            places |= {h5py.h5g.get_objinfo(file.id).objno[0]}
            file.visititems(lambda _, node: places.add(h5py.h5g.get_objinfo(node.id).objno[0]))
        self.places = sorted(one for one in places if one < len(self.data))

    def mutant(self, rng: random.Random) -> bytes:
        """The file with one to four changes."""
        data = bytearray(self.data)
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
            at = min(rng.choice(self.places) + int(rng.random() ** 2 * REACH), len(data) - 9)
            kind = rng.randrange(6)
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
            else:
                length, source = rng.choice((4, 8, 16, 32, 64)), rng.choice(self.places)
                piece = self.data[source : source + length]
                data[at : at + len(piece)] = piece
                data = data[: len(self.data)]
        for at in _all(bytes(data), b"OHDR"):
            _mend(data, at)
        return bytes(data)


def _all(data: bytes, word: bytes) -> list[int]:
    found, at = [], data.find(word)
    while at >= 0:
        found.append(at)
        at = data.find(word, at + 1)
    return found


def _mend(data: bytearray, at: int) -> None:
    """Makes the checksum of an object header (version 2) right."""
    flags = data[at + 5] if at + 6 < len(data) else 0
    start = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    end = start + width + int.from_bytes(data[start : start + width], "little")
    if end + 4 <= len(data) and end - at < 1 << 14:
        data[end : end + 4] = struct.pack("<I", _lookup3(bytes(data[at:end])))


def _lookup3(data: bytes) -> int:
    """Bob Jenkins' hash, which HDF5 has for checksums."""

    def turned(value: int, by: int) -> int:
        return ((value << by) | (value >> (32 - by))) & MASK

    a = b = c = (0xDEADBEEF + len(data)) & MASK
    at = 0
    while len(data) - at > 12:
        x, y, z = struct.unpack_from("<III", data, at)
        a, b, c = (a + x) & MASK, (b + y) & MASK, (c + z) & MASK
        for by in (4, 6, 8, 16, 19, 4):
            a, c = ((a - c) & MASK) ^ turned(c, by), (c + b) & MASK
            a, b, c = b, c, a
        at += 12
    if at == len(data):
        return c
    x, y, z = struct.unpack("<III", data[at:].ljust(12, b"\0"))
    a, b, c = (a + x) & MASK, (b + y) & MASK, (c + z) & MASK
    c = ((c ^ b) - turned(b, 14)) & MASK
    a = ((a ^ c) - turned(c, 11)) & MASK
    b = ((b ^ a) - turned(a, 25)) & MASK
    c = ((c ^ b) - turned(b, 16)) & MASK
    a = ((a ^ c) - turned(c, 4)) & MASK
    b = ((b ^ a) - turned(a, 14)) & MASK
    return ((c ^ b) - turned(b, 24)) & MASK


def _use(path: str, folder: str) -> int:
    """What a user does with a file; the code that a fork ends with."""
    calls = (
        lambda: kn.open(path, stored=False).read(range(2), workers=1),
        lambda: {name: one.value for name, one in kn.open(path, stored=False).observables.items()},
        lambda: kn.read_atoms(path),
        lambda: kn.layout_of(path, stored=False),
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


def _forked(path: str, folder: str) -> tuple[int, float]:
    """How a fork ends that uses a file: its code, below 0 the signal; seconds of CPU time."""
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
    _, status, used = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def _seeds(folder: Path) -> list[Seed]:
    made = []
    for case in CASES:
        path = folder / f"{case.name}.h5md"
        case.write(path)
        if path.stat().st_size < 100_000:
            made.append(Seed(path))
    # the same in the newest version of the format: other headers, heaps and indices of chunks
    for one in list(made):
        with contextlib.suppress(OSError, RuntimeError, KeyError, ValueError):
            new = folder / f"new-{one.name}"
            with h5py.File(folder / one.name, "r") as old, h5py.File(new, "w", libver="latest") as file:
                for name in old:
                    old.copy(name, file)
            made.append(Seed(new))
    return made


def main() -> int:
    """Runs for so many seconds of CPU time, of all processes; 1 where something was found."""
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
        print(f"{len(seeds)} seeds, --seed {options.seed}", flush=True)
        # what is imported at the first use is shared with the forks
        _use(os.path.join(name, seeds[0].name), name)
        gc.freeze()
        spent = walked = 0.0
        said = time.monotonic()
        while spent < options.seconds:
            seed = rng.choice(seeds)
            path = os.path.join(name, f"mutant-{counts.total()}.h5md")
            Path(path).write_bytes(seed.mutant(rng))
            began = time.process_time()
            try:
                verdicts.verdict_on(path, stored=False)
                verdict = "passed"
            except Error as error:
                verdict = str(error).split(": ", 2)[2].split(",")[0][:40]
            # what has a fault is used by no call
            code, seconds = _forked(path, name) if verdict == "passed" else (0, 0.0)
            walker = verdicts._walkers[0]._process.pid
            walked = max(walked, sum(map(int, Path(f"/proc/{walker}/stat").read_text().split()[13:17])) / 100)
            spent += seconds + time.process_time() - began
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
    print(
        f"{counts.total()} mutants, {findings} findings, {spent + walked:.0f} s of CPU time, walks {walked:.0f} s of it"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
