"""Small files that claim much: each command ends soon, with an error of its own, and takes no memory for a claim.

One child forks a process for each command, so that time and memory are each command's own.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.programs.children import start_child

pytestmark = pytest.mark.processes

# of memory as of ps, MiB: a command that reads a small file takes less than half of it
MOST_MEMORY = 400
MOST_SECONDS = 60

CHILD = f"""
import json, os, resource, sys
# what the commands import, once for all of them
import kinema.analysis.structure.rgyr, kinema.files.check.checksums, kinema.cli.app, kinema.cli.analysis_run
import kinema.execution.run
import kinema.cli.commands.analyses, kinema.cli.commands.check, kinema.cli.commands.info, kinema.cli.option_names
import kinema.cli.command_line, kinema.cli.periodic.inputs, kinema.runners.mpi.launcher
import kinema.model.selection.atom_tuples
import kinema.trajectory.time_range, kinema.studies.parallel_hdf5, kinema.cli.working_folder, encodings.ascii
from kinema.cli import main

def run(words):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, ({MOST_SECONDS}, {MOST_SECONDS}))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["kinema", *words]
        code = 1
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    said = open("said", errors="replace").read()
    print(json.dumps([words, os.waitstatus_to_exitcode(status), used.ru_maxrss / 1024, said]), flush=True)

for name in sys.argv[1:]:
    for words in (["info", name], ["check", name], ["rgyr", "--weights", "none", "-f", name, "-o", "-"]):
        run(words)
"""


def _patch(data: bytes, at: int, form: str, value: int) -> bytes:
    packed = struct.pack(form, value)
    return data[:at] + packed + data[at + len(packed) :]


def _large(name: str) -> Iterator[tuple[str, bytes]]:
    data = Path(name).read_bytes()
    largest = (1 << 31) - 1
    if name.endswith(".dcd"):
        atoms = data.find(struct.pack("<iii", 4, 12, 4)) + 4
        yield from ((f"atoms{n}.dcd", _patch(data, atoms, "<i", n)) for n in (10**8, largest, -5, 0))
        yield "frames.dcd", _patch(data, 8, "<i", largest)
        yield "titles.dcd", _patch(data, 96, "<i", largest)
        yield "title.dcd", _patch(data, 92, "<i", largest - 8)
        yield "fixed.dcd", _patch(data, 40, "<i", 11)
    elif name.endswith(".xtc"):
        for n in (10**8, largest, -1, 0, 9):
            yield f"atoms{n}.xtc", _patch(_patch(data, 4, ">i", n), 52, ">i", n)
        yield "packed.xtc", _patch(data, 88, ">i", largest)
        yield "none.xtc", struct.pack(">iiif9fi", 1995, 0, 0, 0.0, *[0.0] * 9, 0) * 20_000
    elif name.endswith(".trr"):
        for at in range(24, 76, 12):
            yield f"word{at}.trr", _patch(data, at, ">i", largest)
        yield "nothing.trr", _patch(_patch(data, 64, ">i", largest), 52, ">i", 0)
    elif name.endswith(".nc"):
        for at in range(4, 400, 28):
            yield f"word{at}.nc", _patch(data, at, ">I", (1 << 32) - 2)
        yield "records.nc", b"CDF\x05" + struct.pack(">Q", 1 << 40) + struct.pack(">IQ", 0, 0) * 3
        yield "dimension.nc", b"CDF\x05" + struct.pack(">QIQQ", 0, 10, 1, 1 << 40) + b"a" * 64
    else:
        lines = data.splitlines(keepends=True)
        for n in (10**9, largest, 10**9 * 10):
            head = b"%10d%10d%10d%21d%21d\n" % (0, 3, n, 10**18, 10**18)
            yield f"atoms{n}.history", b"".join([lines[0], head, *lines[2:]])
        yield "line.history", data + b"timestep" + b" " * (4 << 20)
        yield "first_line.history", b"a" * (4 << 20)
        yield "ends.history", data + b"\n" * (1 << 20)


def _holes(name: str) -> Iterator[tuple[str, bytes, int]]:
    """Files that are a TiB long, of which next to nothing is on the disk: name, first bytes, length."""
    data = Path(name).read_bytes()
    if name != "HISTORY":
        yield f"hole.{name[2:]}", data, 1 << 40
    if name == "a.xtc":
        most = (1 << 31) - 1
        every_atom = _patch(_patch(data, 4, ">i", most), 52, ">i", most)
        yield "atoms.xtc", every_atom, 1 << 40
        # a frame of 32 MiB, which is all hole
        many = _patch(_patch(data, 4, ">i", 1 << 25), 52, ">i", 1 << 25)
        yield "packed.xtc", _patch(many, 88, ">i", 1 << 25), 1 << 26
    elif name == "a.nc":
        yield "records.nc", _patch(data, 4, ">I", (1 << 32) - 2), 1 << 43
    elif name == "HISTORY":
        yield "line.history", data + b"timestep" + b"1" * 100, 1 << 40


def test_commands_end_soon_and_take_no_memory_for_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_dcd(tmp_path / "a.dcd", random_walk(20, 12))
    write_xtc(tmp_path / "a.xtc", random_walk(20, 12))
    traj = kn.open("a.dcd", stored=False)
    names = ["a.dcd", "a.xtc", "a.trr", "a.nc", "HISTORY"]
    for name in names[2:]:
        with pytest.warns(kn.Note):
            kn.convert(traj, name)
    made = []
    for name in names:
        for other, data in _large(name):
            # a folder each: a HISTORY file is known by its name
            folder = tmp_path / other
            folder.mkdir()
            file = folder / ("HISTORY" if name == "HISTORY" else other)
            file.write_bytes(data)
            made.append(str(file.relative_to(tmp_path)))
        for other, data, length in _holes(name):
            file = tmp_path / f"{other}-hole" / ("HISTORY" if name == "HISTORY" else other)
            file.parent.mkdir()
            file.write_bytes(data)
            os.truncate(file, length)
            made.append(str(file.relative_to(tmp_path)))
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent)}
    words = [sys.executable, "-c", CHILD, *names, *made]
    process = start_child(words, env=environment, cwd=tmp_path, seconds=300)
    told, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    found = [json.loads(line) for line in told.splitlines()]
    assert len(found) == 3 * (len(names) + len(made))
    for command, code, memory, words_said in found:
        assert code in (0, 1, 2), (command, code, words_said[-500:])
        assert memory < MOST_MEMORY, (command, memory)
        assert "defect" not in words_said, (command, words_said[-500:])
        if set(command) & set(names):
            assert code == 0, (command, words_said)


@pytest.mark.parametrize("what", ["split", "statistics", "report", "scheduler file", "checkpoint", "list of files"])
def test_nested_json_is_an_error_of_the_file(tmp_path: Path, what: str) -> None:
    path = tmp_path / "nested.json"
    path.write_bytes(b"[" * 60_000)

    def read() -> object:
        if what == "split":
            from kinema.ml.splits import DataSplit

            return DataSplit.load(path)
        if what == "statistics":
            from kinema.ml.statistics.statistics import Statistics

            return Statistics.load(path)
        if what == "report":
            from kinema.report import Report

            return Report.load(path)
        if what == "scheduler file":
            from kinema.runners.dask import client

            return client._address_in(str(path))
        if what == "list of files":
            from kinema.ml.stored.sample_files import _exported
            from kinema.ml.stored.samples import LIST_OF_FILES

            path.rename(tmp_path / LIST_OF_FILES)
            return _exported(tmp_path)
        from kinema.execution.checkpoint.file import CheckpointWriter, load

        with path.open("wb") as file:
            writer = CheckpointWriter(file)
            writer._record(b"RUN ", [b"[" * 60_000])
            writer.end()
        return load(str(path))

    with pytest.raises(kn.Error, match=r"nested\.json|files"):
        read()


def test_the_time_between_frames_is_not_that_of_all_frames(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(20, 12))
    expected = kn.open(tmp_path / "a.dcd", stored=False).dt
    os.truncate(tmp_path / "a.dcd", 1 << 40)
    traj = kn.open(tmp_path / "a.dcd", stored=False)
    assert len(traj) > 10**9 and traj.dt == expected is not None


def test_an_array_file_of_more_samples_than_there_can_be_is_corrupt(tmp_path: Path) -> None:
    from kinema.ml.stored.samples import samples_of

    path = tmp_path / "a.npy"
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 99999999999999999999), }"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
    with pytest.raises(kn.CorruptFileError, match=r"byte 10: the \.npy header cannot be read"):
        samples_of(str(path), None, whole=False)


def test_a_checkpoint_takes_no_memory_for_a_hole(tmp_path: Path) -> None:
    from kinema.execution.checkpoint.file import _HEAD, _NODE, CheckpointWriter, load

    path, partial = tmp_path / "a.checkpoint", 1 << 40
    with path.open("wb") as file:
        writer = CheckpointWriter(file)
        writer._record(b"RUN ", [b"[]"])
        writer._record(b"RND ", [b"[]"])
        file.write(_HEAD.pack(b"NODE", _NODE.size + 8 + partial) + _NODE.pack(0, 0, 1) + struct.pack("<Q", partial))
    os.truncate(path, 2 * partial)
    with pytest.raises(
        kn.CorruptFileError, match=r"a record has 109951162\d+ bytes, expected at most .* on this machine"
    ):
        load(str(path))


def test_a_catalogue_takes_no_memory_for_a_hole(tmp_path: Path) -> None:
    from hashlib import blake2b

    from kinema.ml.catalogue.container import CatalogueFile

    path = tmp_path / "a.kinema-catalogue"
    head = struct.pack("<8sIIQQQ16s", b"KINEMACT", 2, 0, 1, 64, 1 << 40, bytes(16))
    path.write_bytes(head + blake2b(head, digest_size=8).digest())
    os.truncate(path, 64 + (1 << 40))
    with pytest.raises(kn.CorruptFileError, match=r"1099511627776 bytes in one piece, expected at most"):
        CatalogueFile(path)


def test_a_split_takes_no_memory_for_samples_that_it_claims(tmp_path: Path) -> None:
    from kinema.ml.splits import DataSplit

    path = tmp_path / "split.json"
    DataSplit({"train": np.arange(5)}, 5, "random", 0, {}).save(path)
    split = json.loads(path.read_text())
    for n, runs in ((10**12, [[0, 10**12]]), (10**6, [[0, 10**6]] * 10**4)):
        path.write_text(json.dumps(split | {"n_samples": n, "parts": {"train": runs}}))
        with pytest.raises(kn.CorruptFileError, match=r"a part of .* samples, expected at most"):
            DataSplit.load(path)
