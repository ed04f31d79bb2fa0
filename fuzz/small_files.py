"""Mutates the small files that Python reads: checkpoints, checksums of frames, markers, traces, groups, job files.

    python fuzz/small_files.py SECONDS [--seed N]

Changed are one to four places: bytes, pieces that are removed, doubled or put elsewhere, words and numbers that become
others of the file or hard ones; the checksums of records are made right again. Looked for are wrong errors: a reader
may refuse a mutant with an error of Kinema's that does not blame Kinema, and take it; anything else, as more than five
seconds, is a finding: it is kept in fuzz/work/small_files. It does not look at what is read: the tests do.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import os
import random
import re
import struct
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import kinema as kn
from kinema.cache import publish
from kinema.cache.markers import read_marker
from kinema.cli.jobs.job import checked_job
from kinema.cli.jobs.template import template
from kinema.cli.jobs.text import read_text
from kinema.base.errors import Error, InternalError
from kinema.execution.checkpoint.file import load
from kinema.report.traces import read_trace, summarise
from kinema.model.selection.gromacs_index import read_groups
from kinema.testing import random_walk, write_dcd

FOUND = Path(__file__).parent / "work" / "small_files"
_HARD = (
    *(
        b"-1",
        b"0",
        b"1e999",
        b"NaN",
        b"null",
        b"true",
        b"[]",
        b"{}",
        b'""',
        b"18446744073709551616",
        b"-9223372036854775809",
    ),
    *(b"9" * 5000, b"[" * 3000, b'"\\ud800"', b"\xff\xfe", b"\0", b"0x10", b"1_0", b"'''", b"\r"),
)
_SLOW = 5.0


def seeds(folder: Path) -> dict[str, list[bytes]]:
    """True files of each kind."""
    write_dcd(folder / "walk.dcd", random_walk(40, 5))
    saved: list[bytes] = []

    def keep(done: int, total: int) -> None:
        saved.extend(path.read_bytes() for path in folder.glob("*.ckpt"))

    for analysis in (kn.analysis.RMSF(kn.open(folder / "walk.dcd")), kn.analysis.RMSD(kn.open(folder / "walk.dcd"))):
        analysis.run(checkpoint=folder / "run.ckpt", checkpoint_interval=0, progress=keep)
    (folder / "data").write_bytes(b"data")
    publish(folder / "data", frames=3)
    lines = [
        '{"id":0,"name":"HH","cat":"dftracer","pid":7,"tid":7,"ph":"M","args":{"hhash":"a","name":"host","value":"a"}}',
        '{"id":1,"name":"FH","cat":"dftracer","pid":7,"tid":7,"ph":"M","args":{"name":"/data/a.xtc","value":"f1"}}',
        '{"id":2,"name":"read","cat":"POSIX","pid":7,"tid":7,"ts":10,"dur":5,"ph":"X","args":{"fhash":"f1","ret":100,"offset":0}}',
        '{"id":3,"name":"compute","cat":"APP","pid":7,"tid":8,"ts":12,"dur":9,"ph":"X","args":{"epoch":1,"step":2}}',
    ]
    strace = '7 1700000000.100000 openat(AT_FDCWD, "/data/a.xtc", O_RDONLY) = 3 <0.000010>\n'
    strace += '7 1700000000.200000 read(3</data/a.xtc>, "x"..., 100) = 100 <0.000020>\n'
    return {
        "checkpoint": saved[:: max(1, len(saved) // 8)],
        "checksums": [Path(kn.open(folder / "walk.dcd").store_checksums()[0].path).read_bytes()],
        "marker": [(folder / "data.ready").read_bytes()],
        "trace": ["\n".join(["[", *lines, "]", ""]).encode(), strace.encode()],
        "groups": [b"[ System ]\n1 2 3 4\n5 6\n[ Protein ]\n 2 4\n; a note\n[ empty ]\n"],
        "job": [template(["rmsd", "rmsf"]).encode(), b'[input]\ntrajectory = "a.xtc"\n[[analysis]]\nkind = "rmsd"\n'],
    }


def readers() -> dict[str, tuple[str, Callable[[str], object]]]:
    """How each kind is read, and the end of its names."""
    return {
        "checkpoint": (".ckpt", load),
        "checksums": (".kinema-checksums", _compared),
        "marker": (".ready", lambda path: read_marker(path.removesuffix(".ready"))),
        "trace": (".pfw", lambda path: summarise(read_trace(path))),
        "groups": (".ndx", read_groups),
        "job": (".toml", lambda path: checked_job(read_text(path))),
    }


def _compared(path: str) -> None:
    """Checks the trajectory whose checksums these are to be."""
    checked = Path(path).with_name("walk.dcd")
    os.replace(path, checked.with_name(f".{checked.name}.kinema-checksums"))
    kn.check(checked)


def mutant(kind: str, data: bytes, chance: random.Random) -> bytes:
    """The data with one to four changes."""
    for _ in range(chance.randint(1, 4)):
        words = [match.span() for match in re.finditer(rb"[\w.+-]+", data)]
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if (words and kind not in ("checkpoint", "checksums")) or (chance.random() < 0.3 and words):
                start, end = chance.choice(words)
                other = data[slice(*chance.choice(words))]
                data = data[:start] + chance.choice([*_HARD, other, other]) + data[end:]
            case 1:
                data = data[:at] + data[at + chance.randint(1, 40) :]
            case 2:
                piece = data[at : at + chance.randint(1, 200)]
                to = chance.randrange(len(data) + 1)
                data = data[:to] + piece + data[to:]
            case 3:
                data = (
                    data[:at]
                    + struct.pack("<Q", chance.choice([0, 1, 1 << 31, 1 << 63, (1 << 64) - 1]))
                    + data[at + 8 :]
                )
            case _:
                data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    if kind == "checksums" and chance.random() < 0.9:
        return data[:-16] + hashlib.blake2b(data[:-16], digest_size=16).digest()
    return _with_checksums(data) if kind == "checkpoint" and chance.random() < 0.9 else data


def _with_checksums(data: bytes) -> bytes:
    """The records of a checkpoint, as far as they follow each other, with the checksums of what is in them."""
    out, at = data[:16], 16
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at + 4)
        if at + 12 + length + 32 > len(data):
            break
        record = data[at : at + 12 + length]
        out += record + hashlib.blake2b(record, digest_size=32).digest()
        at += len(record) + 32
    return out + data[at:]


def main() -> None:
    """Runs for `seconds` of CPU time, and prints the findings."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("seconds", type=float)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    chance = random.Random(given.seed)
    warnings.simplefilter("ignore")
    counts: collections.Counter[str] = collections.Counter()
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_CACHE_HOME"] = str(folder / "user")
        all_seeds, all_readers = seeds(folder), readers()
        while time.process_time() < given.seconds:
            kind = chance.choice(list(all_seeds))
            ending, read = all_readers[kind]
            path, data = folder / f"mutant{ending}", mutant(kind, chance.choice(all_seeds[kind]), chance)
            path.write_bytes(data)
            began, outcome = time.process_time(), "taken"
            try:
                read(str(path))
            except InternalError:
                outcome = f"blames Kinema\n{traceback.format_exc()}"
            except Error:
                outcome = "refused"
            except BaseException:
                outcome = f"another error\n{traceback.format_exc()}"
            if time.process_time() - began > _SLOW:
                outcome = f"slow\n{time.process_time() - began:.1f} s"
            what = outcome.partition("\n")[0]
            counts[f"{kind} {what}"] += 1
            if what not in ("taken", "refused"):
                signature = f"{kind}: {outcome.strip().splitlines()[-1][:100]}"
                found[signature] += 1
                if found[signature] == 1:
                    FOUND.mkdir(parents=True, exist_ok=True)
                    (FOUND / f"{kind}-{hashlib.sha256(data).hexdigest()[:12]}{ending}").write_bytes(data)
                    print(signature, outcome, sep="\n", flush=True)
    print(dict(sorted(counts.items())))
    print(f"{sum(counts.values())} mutants in {time.process_time():.0f} s of CPU time, findings: {dict(found)}")


if __name__ == "__main__":
    main()
