"""Stored chunk maps: used for the file as it was, never trusted, bounded; none of files that are being written."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.formats import h5md
from kinema.model.snapshot import TrajectorySnapshot
from kinema.storage.hdf5 import chunk_maps, chunks
from kinema.storage.hdf5.chunk_maps import FEWEST_CHUNKS
from kinema.testing.h5md_files import write_small_chunks
from kinema.testing.keepers import settle
from kinema.testing.programs.children import start_child


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data sets that were walked through."""
    names: list[str] = []
    walk = chunks._walked

    def recorded(opened: Any, dataset: Any, *more: Any) -> Any:
        names.append(dataset.name)
        return walk(opened, dataset, *more)

    monkeypatch.setattr(chunks, "_walked", recorded)
    return names


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = write_small_chunks(tmp_path / "a.h5md", FEWEST_CHUNKS)
    settle(made)
    return made


def opened(path: Path) -> kn.Trajectory:
    traj = kn.open(path)
    traj.scan()
    return traj


def folder() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) / "kinema" / "chunk-maps"


def stored() -> Path:
    (found,) = folder().iterdir()
    return found


POSITIONS = "/particles/all/position/value"


def test_the_second_opening_walks_through_nothing_and_gives_the_same(path: Path, walks: list[str]) -> None:
    first = h5md.describe(path, index="auto")
    assert walks == [POSITIONS]
    second = h5md.describe(path, index="auto")
    assert walks == [POSITIONS]
    assert first.positions is not None and second.positions is not None
    ((_, one),), ((_, other),) = first.positions.pieces, second.positions.pieces
    for name in ("addresses", "sizes", "masks"):
        assert getattr(one, name).dtype == getattr(other, name).dtype
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.shape, one.filters, one.fill) == (other.shape, other.filters, other.fill)
    assert first.warnings == second.warnings == ()
    assert kn.open(path).read().tobytes() == kn.open(path, stored=False).read().tobytes()
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700
    assert not [one for one in path.parent.iterdir() if one != path], "nothing lies beside the data"


def test_what_is_used_and_what_is_stored(path: Path, walks: list[str]) -> None:
    for _ in range(2):
        kn.open(path, stored=False)
    assert not folder().exists() and len(walks) == 2
    kn.open(path, index="rebuild")
    made = stored().stat().st_mtime_ns
    kn.open(path, index="rebuild")
    assert len(walks) == 4 and stored().stat().st_mtime_ns > made
    kn.open(path)
    assert len(walks) == 4


def test_few_chunks_are_not_worth_it(tmp_path: Path) -> None:
    kn.open(write_small_chunks(tmp_path / "few.h5md", FEWEST_CHUNKS - 1))
    assert not folder().exists()


def test_filters_holes_and_rows_without_storage(tmp_path: Path, walks: list[str]) -> None:
    path = tmp_path / "a.h5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        value = file.create_dataset(
            "x",
            (2 * FEWEST_CHUNKS, 4, 3),
            "f4",
            chunks=(1, 2, 3),
            compression="gzip",
            shuffle=True,
            maxshape=(None, 4, 3),
        )
        value[: FEWEST_CHUNKS - 5] = rng.normal(size=(FEWEST_CHUNKS - 5, 4, 3)).astype("f4")
        value[FEWEST_CHUNKS + 7, 1] = 3.0
    settle(path)
    how: dict[str, Any] = {"dataset": "x", "units": {"length": "nm"}}
    first = kn.open(path, **how).read()
    assert (
        kn.open(path, **how).read().tobytes() == first.tobytes() == kn.open(path, **how, stored=False).read().tobytes()
    )
    assert len(first) == FEWEST_CHUNKS + 8 and len(walks) == 2


def test_a_file_that_grows_is_read_as_it_is(path: Path, walks: list[str]) -> None:
    kn.open(path)
    for n_frames in (FEWEST_CHUNKS + 1, FEWEST_CHUNKS + 500):
        with h5py.File(path, "r+") as file:
            for name in ("value", "step", "time"):
                file[f"particles/all/position/{name}"].resize(n_frames, 0)
            file["particles/all/position/step"][:] = np.arange(n_frames)
            file[POSITIONS][-1] = n_frames
        walks.clear()
        traj = kn.open(path)
        assert traj.n_frames == n_frames and walks == [POSITIONS]
        np.testing.assert_array_equal(traj[-1:].read()[0], np.full((2, 3), 10.0 * n_frames))


def test_a_file_that_this_process_has_open_leaves_no_map_and_uses_none(path: Path, walks: list[str]) -> None:
    with h5py.File(path, "r+") as file:
        file[POSITIONS][3] = 7.0
        np.testing.assert_array_equal(kn.open(path)[3:4].read()[0], np.full((2, 3), 70.0))
        assert not folder().exists() and len(walks) == 1
    settle(path)
    kn.open(path)
    assert stored()
    with h5py.File(path, "r"):
        kn.open(path)
    assert len(walks) == 3


def test_a_file_that_is_written_for_readers_leaves_no_map(tmp_path: Path, walks: list[str]) -> None:
    path = write_small_chunks(tmp_path / "a.h5md", FEWEST_CHUNKS, libver="latest")
    writer = (
        "import h5py, sys\n"
        "with h5py.File(sys.argv[1], 'r+', libver='latest') as file:\n"
        "    file.swmr_mode = True\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    child = start_child([sys.executable, "-c", writer, str(path)], stdin=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == "open\n"
    settle(path)
    for _ in range(2):
        kn.open(path)
    assert len(walks) == 2 and not folder().exists()
    child.communicate("\n", timeout=60)
    assert child.returncode == 0


def test_virtual_data_sets_have_the_maps_of_their_sources(tmp_path: Path, walks: list[str]) -> None:
    parts = [write_small_chunks(tmp_path / f"{name}.h5md", FEWEST_CHUNKS) for name in "ab"]
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((2 * FEWEST_CHUNKS, 2, 3), "f4")
        for number, part in enumerate(parts):
            source = h5py.VirtualSource(part.name, POSITIONS, (FEWEST_CHUNKS, 2, 3))
            layout[number * FEWEST_CHUNKS : (number + 1) * FEWEST_CHUNKS] = source
        file.create_virtual_dataset("x", layout)
    for part in parts:
        settle(part)
    how: dict[str, Any] = {"dataset": "x", "units": {"length": "nm"}}
    first = kn.open(tmp_path / "virtual.h5", **how).read()
    assert len(walks) == 2 and len(list(folder().iterdir())) == 2
    assert kn.open(tmp_path / "virtual.h5", **how).read().tobytes() == first.tobytes()
    assert len(walks) == 2
    # the other file is walked through when it was changed, and no other
    with h5py.File(parts[1], "r+") as file:
        file[POSITIONS][1] = 5.0
    np.testing.assert_array_equal(
        kn.open(tmp_path / "virtual.h5", **how).read()[FEWEST_CHUNKS + 1], np.full((2, 3), 50.0)
    )
    assert len(walks) == 3


def damages(good: bytes) -> dict[str, bytes]:
    """Wrong maps; the second half of them have a true checksum."""
    (length,) = np.frombuffer(good, "<u4", 1, 12)
    head, columns = json.loads(good[16 : 16 + length]), good[16 + length : -16]

    def signed(head: Any, columns: bytes = columns) -> bytes:
        text = json.dumps(head).encode()
        text = text.ljust(-(-len(text) // 8) * 8)
        data = good[:12] + np.uint32(len(text)).tobytes() + text + columns
        return data + blake2b(data, digest_size=16).digest()

    def replace_arrays(**changed: Any) -> bytes:
        return signed({**head, "arrays": {**head["arrays"], **changed}})

    assert signed(head) == good
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    return {
        "empty": b"",
        "foreign": b"something else, longer than its checksum",
        "cut": good[:-9],
        "cut in the head": good[:40],
        "flipped": bytes(flipped),
        "no object": signed([]),
        "no identity": signed({**head, "identity": "00"}),
        "no hex": signed({**head, "identity": "xyz"}),
        "no numbers": replace_arrays(sizes=["<u8", "many"]),
        "more chunks than bytes": replace_arrays(sizes=["<u8", 2 * FEWEST_CHUNKS]),
        "fewer addresses": replace_arrays(addresses=["<u8", 1]),
        "negative": replace_arrays(sizes=["<u8", -1]),
        "objects": replace_arrays(sizes=["|O8", 1]),
        "another type": replace_arrays(masks=["<u8", 1]),
        "an array less": signed({**head, "arrays": {"addresses": head["arrays"]["addresses"]}}, columns[:-16]),
        "more rows": signed({**head, "values": {"rows": 1 << 60}}),
        "rows that are none": signed({**head, "values": {"rows": "x"}}),
        "no names": signed({**head, "values": []}),
        "left over": signed(head, columns + b"\0" * 8),
        "deep": signed(json.loads("[" * 500 + "]" * 500)),
    }


def test_damaged_and_hostile_maps_are_refused_noted_and_made_again(path: Path, walks: list[str]) -> None:
    expected = kn.open(path).read().tobytes()
    place, good = stored(), stored().read_bytes()
    for name, wrong in damages(good).items():
        place.write_bytes(wrong)
        walks.clear()
        with warnings.catch_warnings():
            # the same text is a warning once
            warnings.simplefilter("ignore", kn.Note)
            traj = opened(path)
        assert any(re.search("the stored map of the chunks of .* was not used", note) for note in traj.notes), name
        assert traj.read().tobytes() == expected, name
        assert walks == [POSITIONS], name
        assert place.read_bytes() == good, name


def test_maps_of_something_else_are_made_again_in_silence(path: Path, walks: list[str]) -> None:
    kn.open(path)
    good = stored().read_bytes()
    (length,) = np.frombuffer(good, "<u4", 1, 12)
    for change in (
        lambda head: head["facts"].update(object=[1, 0]),
        lambda head: head["facts"].update(shape=[1, 2, 3]),
        lambda head: head["facts"].update(filters=[[1, [6]]]),
        lambda head: head["facts"].update(first=[0, 24, 0]),
        lambda head: head["facts"].update(version="0"),
    ):
        head = json.loads(good[16 : 16 + length])
        change(head)
        text = json.dumps(head).encode()
        text = text.ljust(-(-len(text) // 8) * 8)
        data = good[:12] + np.uint32(len(text)).tobytes() + text + good[16 + length : -16]
        stored().write_bytes(data + blake2b(data, digest_size=16).digest())
        walks.clear()
        traj = kn.open(path)
        assert walks == [POSITIONS] and traj.notes == ()
        assert stored().read_bytes() == good


def test_no_regular_file_and_no_folder(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kn.open(path)
    place = stored()
    place.unlink()
    os.mkfifo(place)
    with pytest.warns(kn.Note, match="was not used"):
        opened(path)
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(kn.Note, match="is not kept for the next opening"):
        opened(path)


def test_the_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [write_small_chunks(tmp_path / f"{number}.h5md", FEWEST_CHUNKS) for number in range(3)]
    for one in files:
        settle(one)
        kn.open(one)
    sizes = {one: one.stat().st_size for one in folder().iterdir()}
    assert len(sizes) == 3
    for one in sizes:
        os.utime(one, (0, 0))  # long ago: the clock of a file system may not tell the next opening from the last one
    kn.open(files[0])  # used last
    monkeypatch.setattr(chunk_maps, "_MOST_BYTES_OF_ALL", 2 * max(sizes.values()))
    fourth = write_small_chunks(tmp_path / "3.h5md", FEWEST_CHUNKS)
    settle(fourth)
    kn.open(fourth)
    assert len(list(folder().iterdir())) == 2
    walked: list[Any] = []
    monkeypatch.setattr(chunks, "_walked", lambda *given: walked.append(given))
    kn.open(files[0])
    kn.open(fourth)
    assert not walked
    monkeypatch.undo()
    monkeypatch.setattr(chunk_maps, "_MOST_BYTES", 100)
    fifth = write_small_chunks(tmp_path / "4.h5md", FEWEST_CHUNKS)
    settle(fifth)
    kn.open(fifth)


def test_openings_that_race_leave_one_whole_map(path: Path) -> None:
    script = "import sys, kinema as kn\nprint(float(kn.open(sys.argv[1]).read().sum(dtype='f8')))"
    with ThreadPoolExecutor(4) as pool:
        command = [sys.executable, "-c", script, str(path)]
        runs = list(pool.map(lambda _: subprocess.run(command, capture_output=True, text=True, timeout=120), range(4)))
    assert {run.returncode for run in runs} == {0}, [run.stderr for run in runs]
    assert len({run.stdout for run in runs}) == 1
    assert stored().read_bytes().startswith(b"KINEMARC")


def test_workers_get_the_snapshot_and_look_for_no_map(path: Path, walks: list[str]) -> None:
    traj = kn.open(path)
    traj.scan()
    snapshot, data = TrajectorySnapshot.take(traj.core)
    assert snapshot.recipe["describe"].keywords["index"] == "memory"
    stored().unlink()
    snapshot.open(data)
    # what cannot be pickled they describe themselves
    snapshot.open(data, {"other": None})
    assert not list(folder().iterdir())


def test_a_file_that_takes_the_place_of_another_while_it_is_opened(
    path: Path, walks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of the same size and layout, with its chunks in another order."""
    kn.open(path)
    other = write_small_chunks(path.with_name("b.h5md"), FEWEST_CHUNKS)
    with h5py.File(other, "r+") as file:
        expected = file[POSITIONS][()] + 1
        file[POSITIONS][...] = expected
    settle(other)
    watch = chunk_maps.ChunkMaps.watch

    def replaced(maps: chunk_maps.ChunkMaps, name: str) -> None:
        watch(maps, name)
        os.replace(other, path)

    kept = stored().read_bytes()
    walks.clear()
    monkeypatch.setattr(chunk_maps.ChunkMaps, "watch", replaced)
    description = h5md.describe(path, index="auto")
    assert walks == [POSITIONS] and description.n_frames == FEWEST_CHUNKS
    assert stored().read_bytes() == kept
    monkeypatch.undo()
    np.testing.assert_array_equal(kn.open(path).read(), 10 * expected)


def test_temporary_files_of_others_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kn.open(path)
    being_written, left = (folder() / f"x.part-host-00000000-{number}.record" for number in (1, 2))
    for one in (being_written, left):
        one.write_bytes(b"x" * 1000)
    os.utime(left, (0, 0))
    kn.open(path, index="rebuild")
    assert left.exists()
    monkeypatch.setattr(chunk_maps, "_MOST_BYTES_OF_ALL", 100)
    kn.open(path, index="rebuild")
    assert [one.name for one in folder().iterdir()] == [being_written.name]


def test_other_threads_open_and_close_files_meanwhile(tmp_path: Path) -> None:
    """A scan describes the parts of a trajectory in threads: what one asks of all open files another may be closing."""
    names = [write_small_chunks(tmp_path / f"{number}.h5md", 2) for number in range(3)]
    done = threading.Event()

    def open_and_close(name: Path) -> None:
        while not done.is_set():
            with h5py.File(name, locking=False):
                pass

    with ThreadPoolExecutor(len(names)) as threads:
        others = [threads.submit(open_and_close, name) for name in names]
        try:
            for _ in range(2000):
                chunk_maps.ChunkMaps("auto")
        finally:
            done.set()
        for one in others:
            one.result()
