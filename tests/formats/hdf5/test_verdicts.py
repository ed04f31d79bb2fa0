"""Damaged HDF5 files that libhdf5 crashes on or never returns from; what is kept of walks through structures."""

import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.base.errors import CorruptFileError, UnsupportedFormatError
from kinema.model.snapshot import SentTrajectory, TrajectorySnapshot
from kinema.storage.hdf5.chunk_index import lookup3
from kinema.storage.hdf5.trust import verdicts
from kinema.testing.h5md_files.building import add_element, particles_all

HOSTILE = Path(__file__).parents[2] / "data" / "hostile"
FINDINGS = Path(__file__).parents[3] / "fuzz" / "findings" / "hdf5_structure"
# every way in, in one process that would crash or hang; memory in MB of it and of the processes that it started
SCRIPT = """
import sys, resource
import kinema as kn
from kinema.base.errors import CorruptFileError, Error
from kinema.ml import samples
# as batch systems do
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
for path in sys.argv[2:]:
    calls = [
        lambda: kn.open(path).scan(),
        lambda: kn.layout_of(path),
        lambda: kn.repack(path, sys.argv[1]),
        lambda: kn.join([path], sys.argv[1]),
        lambda: kn.split(path, sys.argv[1], parts=2),
        lambda: kn.convert(path, sys.argv[1] + ".xtc"),
        lambda: kn.read_atoms(path),
        lambda: kn.open(path, dataset="particles/all/position/value").scan(),
    ]
    for call in calls:
        try:
            call()
        except CorruptFileError as error:
            assert str(error).startswith(f"{path}: ") and "structure is damaged" in str(error), error
        else:
            raise SystemExit(f"{path}: no error")
    (problem,) = kn.check(path).problems
    assert problem.kind == "corrupt", problem
from kinema.storage.hdf5.trust import verdicts
verdicts._walkers.clear()
# not that of getrusage, which counts what the process that started this one had
with open("/proc/self/status") as status:
    (own,) = [int(line.split()[1]) for line in status if line.startswith("VmHWM")]
print(own >> 10, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
"""


def test_damaged_files_end_in_an_error_wherever_they_are_opened(tmp_path: Path) -> None:
    files = [HOSTILE / name for name in ("segv.h5md", "hang.h5md", "keep678.h5md")]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "out.h5md"), *map(str, files)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    own, walks = map(int, done.stdout.split())
    assert own < 400 and walks < 200, "megabytes"
    assert os.listdir(tmp_path) == ["cache"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An H5MD file."""
    steps = np.arange(5)
    with particles_all(tmp_path / "a.h5md") as group:
        add_element(group, "position", np.ones((5, 4, 3), "f4"), steps=steps, times=steps * 0.5, unit="nm")
    return tmp_path / "a.h5md"


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The files that are walked through; the cache folder is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made: list[str] = []
    ask = verdicts._ask
    monkeypatch.setattr(verdicts, "_ask", lambda request: (made.append(request["path"]), ask(request))[1])
    verdicts._known.clear()
    return made


def test_a_file_is_walked_through_once(path: Path, walks: list[str]) -> None:
    for _ in range(2):
        traj = kn.open(path)
        assert len(traj) == 5 and not traj.observables
    assert walks == [str(path)]
    # another process has the record alone
    verdicts._known.clear()
    kn.open(path).scan()
    kn.layout_of(path)
    assert walks == [str(path)]
    # a file that has changed
    with h5py.File(path, "r+") as file:
        file.attrs["more"] = 1
    kn.open(path).scan()
    assert walks == [str(path)] * 2


def test_a_verdict_on_damage_is_kept(tmp_path: Path, walks: list[str]) -> None:
    damaged = tmp_path / "a.h5md"
    shutil.copy(HOSTILE / "segv.h5md", damaged)
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=r"libhdf5 crashes on it \(SIGSEGV\)"):
            kn.open(damaged).scan()
        verdicts._known.clear()
    assert walks == [str(damaged)]


def test_nothing_is_stored_where_nothing_shall_be(path: Path, walks: list[str], tmp_path: Path) -> None:
    kn.open(path, stored=False).scan()
    kn.open(path, stored=False).scan()
    assert walks == [str(path)] and not (tmp_path / "cache").exists()
    verdicts._known.clear()
    kn.open(path).scan()
    verdicts._known.clear()
    kn.open(path, stored=False).scan()
    assert walks == [str(path)] * 3
    # beside the data there is nothing: whoever sends a file does not send its verdict
    assert sorted(os.listdir(tmp_path)) == ["a.h5md", "cache"]


def test_records_of_others_are_not_used(path: Path, walks: list[str], tmp_path: Path) -> None:
    kn.open(path).scan()
    os.chmod(tmp_path / "cache" / "kinema" / "structures", 0o777)
    verdicts._known.clear()
    kn.open(path).scan()
    assert len(walks) == 2


def test_the_process_that_walks_is_started_again(path: Path, tmp_path: Path) -> None:
    kn.open(path, stored=False).scan()
    walker = verdicts._walkers[0]
    walker._process.kill()
    walker._process.wait()
    shutil.copy(path, tmp_path / "b.h5md")
    assert len(kn.open(tmp_path / "b.h5md", stored=False)) == 5


def test_what_libhdf5_refuses_is_left_to_its_reader(path: Path) -> None:
    """An attribute of a type that NumPy lacks is not damage if nobody asks for it."""
    with h5py.File(path, "r+") as file:
        h5py.h5a.create(file.id, b"odd", h5py.h5t.UNIX_D32LE, h5py.h5s.create(h5py.h5s.SCALAR))
    assert len(kn.open(path, stored=False)) == 5


def test_types_whose_parts_do_not_fit_are_damage(path: Path) -> None:
    """255 bits in four bytes: libhdf5 wrote beyond its memory when it converted such values."""
    before = bytes.fromhex("11201f0004000000" + "00002000")
    for after in ("0000ff00", "20002000"):
        data = path.read_bytes()
        assert before in data
        (path.parent / "b.h5md").write_bytes(data.replace(before, before[:8] + bytes.fromhex(after)))
        with pytest.raises(CorruptFileError, match=r"position/value has a type with (255|32) bits from (0|32) on"):
            kn.open(path.parent / "b.h5md", stored=False).scan()


def test_lengths_that_were_never_written_are_damage(path: Path) -> None:
    """Variable-length values and references of which no fill value says what they are: h5py took what its memory held
    for addresses, and `repack` crashed."""
    calls = [kn.read_atoms, kn.layout_of, lambda name: kn.repack(name, path.parent / "out.h5md")]
    damaged = [path.parent / "b.h5md"]
    shutil.copy(FINDINGS / "lists_without_a_fill_value.h5md", damaged[0])
    text, mixed = h5py.string_dtype(), np.dtype([("a", "i2"), ("s", h5py.string_dtype())])
    # fill value message, version 2: when space is allocated (3: with each chunk), when the value is written (1: never),
    # whether it is defined
    cases = [(text, {"chunks": (2,)}, b"\3\1\1"), (h5py.regionref_dtype, {"chunks": (2,)}, b"\3\2\0")]
    cases += [(mixed, {}, b"\2\2\0"), (h5py.vlen_dtype("f8"), {"chunks": (2,)}, b"\3\2\0")]
    for number, (kind, options, after) in enumerate(cases):
        damaged.append(path.parent / f"{number}.h5md")
        shutil.copy(path, damaged[-1])
        with h5py.File(damaged[-1], "r+") as file:
            made = file.create_dataset("particles/all/names", (400,), kind, **options)
            place = h5py.h5g.get_objinfo(made.id).objno[0]
        data = bytearray(damaged[-1].read_bytes())
        # type 5, 8 bytes
        place = data.index(b"\5\0\x08\0", place) + 8
        assert data[place : place + 2] == b"\2" + after[:1]
        data[place + 1 : place + 4] = after
        damaged[-1].write_bytes(data)
    for name in damaged:
        # HDF5 2.0 wrote the finding, and 1.14 does not know its layout message
        is_newer = name == damaged[0] and h5py.version.hdf5_version_tuple < (2,)
        said = "bad version number" if is_newer else "lengths or references, and no value for those that are not"
        for call in calls:
            with pytest.raises(CorruptFileError, match=said):
                call(name)
    # numbers of which nothing says what they are where they were not written are zeros in a copy, no memory's contents
    with h5py.File(path, "r+") as file:
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(file.id, b"numbers", h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple((9,)), options)
    kn.repack(path, path.parent / "out.h5md")
    with h5py.File(path.parent / "out.h5md") as file:
        assert not file["numbers"][()].any()


def test_references_without_a_fill_value_are_taken_where_all_are_written(path: Path) -> None:
    """Programs that write each of them may leave the fill value out; of empty data sets there is none to be written."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    kind = h5py.h5t.py_create(h5py.ref_dtype, logical=True)
    with h5py.File(path, "r+") as file:
        spaces = {"none": h5py.h5s.create(h5py.h5s.NULL), "no_rows": h5py.h5s.create_simple((0,))}
        for name, space in spaces.items():
            h5py.h5d.create(file.id, name.encode(), kind, space, properties)
        properties.set_chunk((2, 3))
        space = h5py.h5s.create_simple((5, 4), (h5py.h5s.UNLIMITED, 4))
        points = h5py.Dataset(h5py.h5d.create(file.id, b"points", kind, space, properties))
        points[...] = np.full((5, 4), file["particles"].ref, object)
    out = path.parent / "out.h5md"
    kn.repack(path, out)
    with h5py.File(out) as file:
        assert {file[one].name for one in file["points"][...].flat} == {"/particles"}
    with h5py.File(path, "r+") as file:
        file["points"].resize((7, 4))
    with pytest.raises(CorruptFileError, match="/points has lengths or references, and no value"):
        kn.open(path, stored=False).scan()


def test_all_that_is_stored_of_lengths_and_references_is_looked_at(path: Path) -> None:
    """A reference in the last of many rows, in a large chunk, and after values that cannot be read."""
    for number, options in enumerate(({"chunks": (1 << 10,)}, {"chunks": (1 << 20,), "compression": "gzip"})):
        hidden = path.parent / f"hidden-{number}.h5md"
        with h5py.File(hidden, "w", libver="latest") as file, h5py.File(path) as other:
            for name in other:
                other.copy(name, file)
            made = file.create_dataset("unseen", (60,), "f4", external=[("raw", 0, 240)])
            points = file.create_dataset("points", (1 << 23,), h5py.ref_dtype, **options)
            points[-1] = made.ref
            root = h5py.h5g.get_objinfo(file.id).objno[0]
        # the link's message becomes an empty one: a reference alone leads to the data set
        data = bytearray(hidden.read_bytes())
        start = root + 6 + (16 if data[root + 5] & 0x20 else 0) + (4 if data[root + 5] & 0x10 else 0)
        width = 1 << (data[root + 5] & 3)
        end = start + width + int.from_bytes(data[start : start + width], "little")
        at = start + width
        while b"unseen" not in data[at + 4 : at + 4 + int.from_bytes(data[at + 1 : at + 3], "little")]:
            at += (6 if data[root + 5] & 4 else 4) + int.from_bytes(data[at + 1 : at + 3], "little")
        data[at] = 0
        data[end : end + 4] = lookup3(bytes(data[root:end])).to_bytes(4, "little")
        hidden.write_bytes(data)
        with h5py.File(hidden) as file:
            assert "unseen" not in file
        with pytest.raises(UnsupportedFormatError, match=r"\(reference\) is kept in external storage"):
            kn.open(hidden, stored=False).scan()


def test_a_process_that_has_ended_is_waited_for(path: Path) -> None:
    kn.open(path, stored=False).scan()
    process = verdicts._walkers[0]._process
    # as after some seconds without a file
    process.stdin.close()
    end = time.monotonic() + 30
    while os.path.exists(f"/proc/{process.pid}") and time.monotonic() < end:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{process.pid}"), "a zombie"
    verdicts.end_walks()


def test_workers_that_describe_a_file_do_not_walk(path: Path, walks: list[str], tmp_path: Path) -> None:
    """One whose description cannot be sent: its ids are in another order in each frame."""
    with h5py.File(path, "r+") as file:
        ids = np.array([np.roll(np.arange(4), row) for row in range(5)])
        add_element(file["particles/all"], "id", ids, steps=np.arange(5), times=np.arange(5) * 0.5)
    traj = kn.open(path, stored=False)
    assert len(traj) == 5
    snapshot, data = TrajectorySnapshot.take(traj.core)
    assert walks == [str(path)]
    # as in a rank or worker
    verdicts._known.clear()
    again = pickle.loads(pickle.dumps(SentTrajectory(snapshot, data))).get()
    assert again.n_frames == 5
    verdicts.verdict_on(str(path), stored=False)
    assert walks == [str(path)] and not (tmp_path / "cache").exists()
