"""Part of the suite of formats: a change of an open file is an error, and a harmless operation is not."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema.base.notes import collected
from kinema.model.frame import WORKING_MEMORY, frame_bytes
from kinema.testing.amounts import each
from kinema.testing.keepers import settle
from kinema.testing.synthetic import random_walk


def _overwritten(path: Path, other: Path, longer: Path) -> None:
    path.write_bytes(other.read_bytes())


def _middle(path: Path, other: Path, longer: Path) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(before.st_size // 2)
        byte = file.read(1)
        file.seek(before.st_size // 2)
        file.write(bytes([byte[0] ^ 1]))
    # as programs do that keep times
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replaced(path: Path, other: Path, longer: Path) -> None:
    os.replace(other, path)


def _cut(path: Path, other: Path, longer: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _longer(path: Path, other: Path, longer: Path) -> None:
    path.write_bytes(longer.read_bytes())


def _touched(path: Path, other: Path, longer: Path) -> None:
    os.utime(path)


#: changes of a file, given a file of the same shape with other values and a longer one, with the words of the error
CHANGES: dict[str, tuple[Callable[[Path, Path, Path], None], str]] = {
    "overwritten": (_overwritten, "in place|shorter|longer"),
    # a thread that reads ahead may look before the time of modification has been set back
    "middle": (_middle, "in place, time of (change|modification)"),
    "replaced": (_replaced, "another file has its name"),
    "cut": (_cut, "it is shorter"),
    "longer": (_longer, "it is longer"),
    "touched": (_touched, "in place, time of modification"),
}
#: operations that an open file allows
HARMLESS: dict[str, Callable[[Path], Any]] = {
    "mode": lambda path: path.chmod(0o600),
    "link": lambda path: os.link(path, path.with_name("another name")),
    "moved": lambda path: os.rename(path, path.with_name("moved")),
    "removed": os.remove,
}


def _total(frame: Any) -> float:
    return float(np.asarray(frame.positions, np.float64).sum())


def _read(traj: Any) -> Iterator[None]:
    yield
    traj.read()


def _one_frame(traj: Any) -> Iterator[None]:
    traj.read(frames=[3])
    yield
    traj.read(frames=[3])


def _blocks(traj: Any) -> Iterator[None]:
    # of one frame each; one is read in advance
    blocks = traj.blocks(memory=_memory_of_few_frames(traj))
    next(blocks)
    yield
    for _ in blocks:
        pass


def _run(runner: str) -> Callable[[Any], Iterator[None]]:
    def run(traj: Any) -> Iterator[None]:
        analysis = kn.analysis.from_function(_total, traj)
        analysis.run(runner=runner)
        yield
        analysis.run(runner=runner)

    return run


def _memory_of_few_frames(traj: Any) -> int:
    """Memory for blocks of one frame."""
    return WORKING_MEMORY + 4 * frame_bytes(traj.n_atoms, 1, 4)


#: ways to read: the code before the yield runs before the change
WAYS: dict[str, Callable[[Any], Iterator[None]]] = {
    "read": _read,
    "frame": _one_frame,
    "blocks": _blocks,
    "serial": _run("serial"),
    "threads": _run("threads"),
}


class ChangedFileTests:
    """Base class for the suite of a format, which writes files: see `FormatTests`."""

    suffix = ""
    index = "arithmetic"
    n_atoms = 12

    def write(self, path: Path, positions: NDArray[np.float32], first_step: int) -> None:
        """Writes positions in angstrom."""
        raise NotImplementedError("a subclass writes files of its format")

    def _three(self, folder: Path) -> tuple[Path, Path, Path]:
        """A file, a file of the same shape with other values, and a longer one with other values."""
        names = [folder / f"{name}{self.suffix}" for name in ("open", "other", "longer")]
        for seed, (name, n_frames) in enumerate(zip(names, (20, 20, 31), strict=True)):
            self.write(name, random_walk(n_frames, self.n_atoms, seed=seed), 0)
        settle(names[0])
        return names[0], names[1], names[2]

    # a change in place that keeps size and time of modification is the hardest to see: tried in each way
    @pytest.mark.parametrize(
        ("change", "way"),
        dict.fromkeys([*each(tuple(CHANGES), tuple(WAYS)), *(("middle", way) for way in WAYS)]),
    )
    def test_a_file_that_is_changed_while_it_is_open(self, tmp_path: Path, change: str, way: str) -> None:
        path, other, longer = self._three(tmp_path)
        traj = kn.open(path, stored=False)
        traj.scan()
        reading = WAYS[way](traj)
        next(reading)
        make, said = CHANGES[change]
        if (change, way) == ("replaced", "blocks"):
            # a thread reads ahead: it may look while the system has set the old file's time, but not yet the new name
            said += "|in place, time of change"
        make(path, other, longer)
        with pytest.raises(
            kn.CorruptFileError, match=f"the file has changed since it was opened: .*({said})"
        ) as caught:
            next(reading, None)
        assert caught.value.path == str(path)

    @pytest.mark.parametrize("change", ["overwritten", "replaced"])
    def test_a_file_in_a_node_cache_that_is_changed_while_it_is_open(self, tmp_path: Path, change: str) -> None:
        path, other, longer = self._three(tmp_path)
        traj = kn.open(path, stored=False, node_cache=tmp_path / "cache")
        traj.read()
        CHANGES[change][0](path, other, longer)
        with pytest.raises(kn.CorruptFileError, match="the file has changed since it was opened"):
            traj.read()

    @pytest.mark.parametrize("what", HARMLESS)
    def test_what_is_no_change_of_an_open_file(self, tmp_path: Path, what: str) -> None:
        path, _, _ = self._three(tmp_path)
        traj = kn.open(path, stored=False)
        expected = traj.read()
        HARMLESS[what](path)
        np.testing.assert_array_equal(traj.read(), expected)

    def test_an_open_file_may_grow(self, tmp_path: Path) -> None:
        if self.index == "structure":
            pytest.skip("its writer adds frames: test_growing")
        positions = random_walk(9, self.n_atoms)
        path, longer = tmp_path / f"grows{self.suffix}", tmp_path / f"longer{self.suffix}"
        self.write(path, positions[:5], 0)
        self.write(longer, positions, 0)
        traj = kn.open(path, stored=False)
        expected = traj.read()
        # the count in the head changes as well
        path.write_bytes(longer.read_bytes())
        np.testing.assert_array_equal(traj.read(), expected)


class GrowingFileTests(ABC):
    """Base class for the suite of a writer: see `WriterTests`."""

    suffix = ""
    fields: tuple[str, ...] = ()
    appends = True

    @abstractmethod
    def frames(self, n_frames: int, names: tuple[str, ...]) -> Any:
        """Frames that the format keeps."""

    @abstractmethod
    def open(self, path: Path, **options: Any) -> Any:
        """A writer."""

    def test_an_open_file_may_grow_by_its_writer(self, tmp_path: Path) -> None:
        if not self.appends:
            pytest.skip("it is never appended to")
        given = self.frames(12, self.fields[:1])
        path = tmp_path / f"run{self.suffix}"
        with collected():
            with self.open(path) as out:
                out.write(**given[:4].arguments())
            traj = kn.open(path)
            expected = traj.read(fields=self.fields[:1])
            with kn.Writer(path, mode="a") as out:
                for end in range(5, 13):
                    out.write(**given[end - 1 : end].arguments())
                    out.flush()
                    _same(traj.read(fields=self.fields[:1]), expected)
            _same(traj.read(fields=self.fields[:1]), expected)


def _same(found: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
    else:
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])
