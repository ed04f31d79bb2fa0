"""Conformance suite for stored knowledge of files: it is used as long as the file is unchanged, and no longer.

Outdated knowledge is the one way to a wrong number without an error, so everything that stores knowledge must pass
this.
"""

from __future__ import annotations

import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest

from kinema import _core
from kinema.trajectory.opening import files_stay

# distance between the positions that are tried
_STRIDE = 997


def settle(path: Path) -> None:
    """Waits until any later change of the file has a later time: a tick of the file system's clock, 20 ms or 2 s."""
    for _ in range(500):
        identity = _core.FileIdentity.of(str(path), places=0)
        if identity.is_unchanged(identity):
            return
        time.sleep(0.01)
    raise AssertionError(f"{path}: its time of change is to come by the clock of this machine")


@pytest.fixture
def nobody_changes_files() -> Iterator[None]:
    """`kinema.trajectory.opening.files_stay` for a whole test, by `pytest.mark.usefixtures("nobody_changes_files")`."""
    with files_stay():
        yield


def rewrite_middle(path: Path) -> int:
    """Changes one byte in the middle of a file, outside the samples of a `FileIdentity`; returns its position.

    Size and time of modification are restored.
    """
    before = path.stat()
    content = path.read_bytes()
    fingerprint = _core.FileIdentity.of(str(path)).fingerprint
    with path.open("r+b", buffering=0) as file:
        for place in range(len(content) // 2, len(content), _STRIDE):
            file.seek(place)
            file.write(bytes([content[place] ^ 1]))
            if _core.FileIdentity.of(str(path)).fingerprint == fingerprint:
                break
            file.seek(place)
            file.write(content[place : place + 1])
        else:
            raise AssertionError(f"{path}: all of it is sampled; make it larger")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
    return place


class KeeperTests(ABC):
    """Base class of the tests of each keeper.

    Attributes
    ----------
    knows_copies : bool
        Whether the knowledge of a file is used for a copy of it under the same name, with another inode and other
        times.
    """

    knows_copies: bool = False

    @abstractmethod
    def make(self, folder: Path) -> Path:
        """Makes a file of more than 200 KiB, so that samples leave something out."""

    @abstractmethod
    def keep(self, path: Path) -> None:
        """Stores the knowledge of the file."""

    @abstractmethod
    def is_known(self, path: Path) -> bool:
        """Whether the stored knowledge is used for the file as it is now; it may be computed again, and stored."""

    @pytest.fixture
    def kept(self, tmp_path: Path) -> Path:
        """A file with stored knowledge."""
        path = self.make(tmp_path)
        settle(path)
        self.keep(path)
        return path

    def test_a_file_that_stays_is_known(self, kept: Path) -> None:
        assert self.is_known(kept)
        kept.read_bytes()
        assert self.is_known(kept)

    def test_the_middle_was_rewritten_size_and_mtime_restored(self, kept: Path) -> None:
        rewrite_middle(kept)
        assert not self.is_known(kept)

    def test_the_middle_was_rewritten_twice(self, kept: Path) -> None:
        """The second rewrite restores the bytes, but nobody can know that."""
        place = rewrite_middle(kept)
        before = kept.stat()
        with kept.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)
            file.seek(place)
            file.write(bytes([byte[0] ^ 1]))
        os.utime(kept, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert not self.is_known(kept)

    def test_another_mode_is_looked_into_and_what_is_kept_anew_holds(self, kept: Path) -> None:
        kept.chmod(0o640)
        assert not self.is_known(kept)
        settle(kept)
        self.keep(kept)
        assert self.is_known(kept)

    def test_a_copy_in_its_place(self, kept: Path) -> None:
        self._replace(kept)
        assert self.is_known(kept) == self.knows_copies

    def test_a_copy_of_other_content_in_its_place(self, kept: Path) -> None:
        before = kept.stat()
        content = bytearray(kept.read_bytes())
        content[-1] ^= 1
        kept.with_name("other").write_bytes(content)
        os.replace(kept.with_name("other"), kept)
        os.utime(kept, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert not self.is_known(kept)

    def test_a_copy_whose_middle_is_rewritten_later(self, kept: Path) -> None:
        self._replace(kept)
        settle(kept)
        self.keep(kept)
        assert self.is_known(kept)
        rewrite_middle(kept)
        assert not self.is_known(kept)

    def _replace(self, path: Path) -> None:
        """Replaces the file by the same bytes and times under another inode."""
        shutil.copy2(path, path.with_name("copy"))
        os.replace(path.with_name("copy"), path)
