"""Another user of the same machine: folders and files that they made, and what they can open of a user's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinema as kn
from kinema import _core
from kinema.cache import NodeCache
from kinema.cache import open as open_through
from kinema.storage.stored_records import Record, RecordFolder
from kinema.storage.user_key import key_file, user_key
from kinema.testing.programs.children import start_child

NOBODY = 65534
AS_NOBODY = f"""
import os, sys
# until its limits are set: root may set limits of another user only with a capability that containers lack
input()
os.setgid({NOBODY})
os.setuid({NOBODY})
opened = 0
for name in sys.argv[1:]:
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.open(name, flags)
            opened += 1
        except PermissionError:
            pass
print(opened, end="")
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone acts as another user")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that everybody may enter, as home folders are on many machines."""
    folder = Path(tempfile.mkdtemp(prefix="kinema-test-"))
    folder.chmod(0o755)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    yield folder
    shutil.rmtree(folder)


def _kept(home: Path) -> tuple[RecordFolder, _core.FileIdentity]:
    """A kind of records with one of a file."""
    (home / "a.bin").write_bytes(bytes(100))
    identity = _core.FileIdentity.of(str(home / "a.bin"))
    folder = RecordFolder("tests", "auto")
    assert folder.store(b"name", identity, {}, Record({"value": 1})) == ""
    return folder, identity


def test_no_key_is_made_or_used_where_others_may_put_another(home: Path) -> None:
    folder = key_file().parent
    for mode in (0o777, 0o770, 0o1777):
        folder.mkdir(parents=True)
        folder.chmod(mode)
        with pytest.raises(kn.FileAccessError, match=rf"others may write into the folder.*found .* mode {mode:04o}"):
            user_key()
        assert list(folder.iterdir()) == []
        folder.rmdir()
    made = user_key()
    assert folder.stat().st_mode & 0o777 == 0o700 and user_key() == made
    folder.chmod(0o775)
    with pytest.raises(kn.FileAccessError, match="others may write into the folder"):
        user_key()


@as_root
def test_folders_and_records_of_another_user_are_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_key()
    os.chown(key_file().parent, NOBODY, NOBODY)
    with pytest.raises(kn.FileAccessError, match=f"found owner {NOBODY}"):
        user_key()
    folder, identity = _kept(home)
    assert folder.load(b"name", identity, {})[0] is not None
    # as where the folder is exchanged for theirs between the look at it and the reading
    monkeypatch.setattr(RecordFolder, "_check_folder", lambda self: None)
    (record,) = (home / "cache" / "kinema" / "tests").iterdir()
    os.chown(record, NOBODY, NOBODY)
    found, why = folder.load(b"name", identity, {})
    assert found is None and "belongs to another user" in why
    monkeypatch.undo()


@as_root
def test_a_scheduler_file_of_another_user_is_refused(tmp_path: Path, small: kn.Trajectory) -> None:
    """A program that answers at its address could run code as the user."""
    place = tmp_path / "scheduler.json"
    place.write_text('{"address": "tcp://127.0.0.1:1"}')
    os.chown(place, NOBODY, NOBODY)
    with pytest.raises(kn.ArgumentError, match=r"scheduler\.json: the scheduler file belongs to another user"):
        kn.analysis.RMSD(small).run(runner=kn.runners.Dask(str(place)))


@as_root
@pytest.mark.processes
def test_another_user_opens_nothing_of_a_users_own(home: Path) -> None:
    user_key()
    _kept(home)
    (home / "data").write_bytes(bytes(1 << 16))
    with open_through(home / "data", NodeCache(home / "node", limit="1 GiB")) as file:
        file.read()
    files = [str(one) for name in ("config", "cache", "node") for one in (home / name).rglob("*") if one.is_file()]
    assert len(files) >= 4
    process = start_child([sys.executable, "-c", AS_NOBODY, *files], seconds=60, stdin=subprocess.PIPE)
    opened, said = process.communicate("\n", timeout=60)
    assert (process.returncode, opened) == (0, "0"), said


def test_a_relative_cache_folder_is_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be a folder of whoever made the working folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(home))
    assert _core.cache_folder() == str(home / ".cache" / "kinema")
